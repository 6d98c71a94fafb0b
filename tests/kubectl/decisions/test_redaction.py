"""A bundle for a ticket contains no secret, and keeps the facts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_kubectl.decisions.redaction import REDACTED, redact, redact_text

SECRET = "hunter2-s3cr3t/VALUE+x"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJkcml2ZXIifQ.c2lnbmF0dXJl"

PLANTED = [
    f"fs.s3a.secret.key={SECRET}",
    f"spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net={SECRET}",
    f'"password": "{SECRET}"',
    f"password='{SECRET} and more'",
    f"AWS_SECRET_ACCESS_KEY: {SECRET}",
    f"Authorization: Bearer {SECRET}",
    f"authorization=Basic {SECRET}",
    f"curl -H 'X-Vault-Token: {SECRET}'",
    f"https://anna:{SECRET.replace('/', '-')}@host/path",
    f"https://host/object?sig={SECRET}&expires=5",
    f"https://host/object?X-Amz-Signature={SECRET}",
    f"client_secret={SECRET}&grant=x",
    f'sasl.jaas.config=PlainLoginModule required username="u" password="{SECRET}";',
    f"--token {SECRET}",
    f"--store-password={SECRET}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
    json.dumps({"message": json.dumps({"password": SECRET})}),
    f'password="{SECRET} in a line that was cut',
    f'--password "{SECRET}"',
    f'password="token=x and {SECRET}"',
    f"first line\\n--store-token {SECRET}",
]

HARMLESS = [
    "fs.s3a.aws.credentials.provider=org.example.Provider",
    "fs.azure.account.oauth2.client.endpoint=https://login.example/token",
    "status.control.ackedRevision: 14",
    "source s3a://here/orders@412, 61,204,118 of 98,000,000 rows",
    "KeyNotUnique: two rows of the source have the same key; key columns: id",
    "https://host:8443/path?limit=5",
    "image: registry.example:5000/backfill-spark:1.2",
    "spark-submit --token-file /etc/token --name orders",
]


class TestTexts:
    """Logs and messages."""

    @pytest.mark.parametrize("text", PLANTED)
    def test_planted_secret_is_removed(self, text):
        """Programs print secrets in many forms."""
        cleaned = redact_text(text)

        assert SECRET not in cleaned
        assert SECRET.replace("/", "-") not in cleaned
        assert REDACTED in cleaned

    @pytest.mark.parametrize(
        "secret",
        [JWT, "AKIAIOSFODNN7EXAMPLE", "ghp_abcdefghijklmnopqrstuvwx1234", "dapi0123456789abcdef0123456789abcdef"],
        ids=["JWT", "AWS", "GitHub", "Databricks"],
    )
    def test_secret_with_a_known_form_needs_no_name(self, secret):
        """A message may quote one."""
        assert secret not in redact_text(f"the store refused {secret}, try again")

    @pytest.mark.parametrize("text", HARMLESS)
    def test_fact_stays(self, text):
        """A bundle needs its facts."""
        assert redact_text(text) == text

    @given(before=st.text(max_size=40), after=st.text(max_size=40))
    def test_secret_is_removed_from_any_surroundings(self, before, after):
        """A line of a log contains anything."""
        assert SECRET not in redact_text(f"{before}\npassword={SECRET}\n{after}")

    def test_text_between_two_keys_stays(self):
        """Each private key ends at its own end."""
        key = "-----BEGIN EC PRIVATE KEY-----\nMHcC-x\n-----END EC PRIVATE KEY-----"

        assert redact_text(f"{key} and {key} of lake") == f"{REDACTED} and {REDACTED} of lake"


class TestObjects:
    """Backfills, pods and events."""

    def test_secrets_of_an_object_are_removed_at_each_depth(self):
        """Fields with such a name, variables, data of a Secret, and JSON in an annotation."""
        inner = {"spec": {"driver": {"env": [{"name": "STORE_TOKEN", "value": SECRET}]}}}
        document = {
            "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(inner)}},
            "spec": {
                "source": {"kafka": {"options": {"sasl.password": SECRET}}},
                "containers": [{"env": [{"name": "DB_PASSWORD", "value": SECRET}], "args": ["--api-key", f"--token={SECRET}"]}],
            },
            "items": [{"kind": "Secret", "data": {"plain": SECRET}, "stringData": {"x": SECRET}}],
            "pin": {"passcode": 1234, "password": 987654},
        }  # fmt: skip

        cleaned = json.dumps(redact(document))

        assert SECRET not in cleaned
        assert "987654" not in cleaned

    def test_facts_of_an_object_stay(self):
        """Names of objects, counts and flags are no secrets."""
        document = {
            "spec": {"volumes": [{"secret": {"secretName": "orders-2-driver"}}], "automountServiceAccountToken": False},
            "status": {"attempts": 4, "control": {"ackedRevision": 14}, "conditions": [{"reason": "Running", "message": "ok"}]},
        }  # fmt: skip

        assert redact(document) == document

    def test_document_keeps_its_form(self):
        """Lists stay lists, and numbers stay numbers."""
        document = {"a": [1, 2.5, None, True, {"b": "c"}], "d": {}}

        assert redact(document) == document
