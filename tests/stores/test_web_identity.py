"""A driver without keys: it has only the token of its service account, for which the store's service gives it a role."""

import json
import os

import pytest
from deltalake import DeltaTable
from support.stores.identities import AUDIENCE, issuing, role_of_minio
from support.stores.minio import for_delta_rs, for_spark, running_store
from support.tables.jobs import write_yaml
from support.tables.oracle import rows_in
from support.tables.other_engine import append

from backfill_core.errors import PermissionDeniedError, TransientError

ORDERS = "SELECT value AS id, value % 7 AS kind FROM generate_series({first}, {last})"
ROWS = 400


@pytest.fixture(scope="module")
def issuer():
    with issuing() as provider:
        yield provider


@pytest.fixture(scope="module")
def trusting(issuer, tmp_path_factory):
    """A store that gives a role to clients with the issuer's tokens; delta-rs, with the owner's keys, finds it through its environment."""
    settings = {"CONFIG_URL": issuer.configuration, "CLIENT_ID": AUDIENCE, "ROLE_POLICY": "readwrite"}
    names = {f"MINIO_IDENTITY_OPENID_{name}": value for name, value in settings.items()}
    with running_store(tmp_path_factory.mktemp("trusting"), **names) as running, pytest.MonkeyPatch.context() as patch:
        for name, value in for_delta_rs(running.endpoint).items():
            patch.setitem(os.environ, name.upper(), value)
        append("s3a://here/orders", ORDERS, 1, ROWS)
        yield running


@pytest.fixture
def drive(trusting, process, tmp_path):
    """Return a function that runs a driver in a separate process with a token and no keys, and waits for its end."""
    token = tmp_path / "token"
    conf = for_spark(trusting.endpoint)
    file = write_yaml(
        tmp_path / "job.yaml", "s3a://here/orders", "s3a://there/orders", verify="Final", spark={"conf": conf}
    )
    given = {
        "AWS_ROLE_ARN": role_of_minio(),
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
        "AWS_REGION": "us-east-1",
        # Amazon's public service needs no endpoint.
        "AWS_ENDPOINT_URL_STS": trusting.endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
    }

    def go(text, **others):
        """Drive with a token unless it is `None`; `others` overrides variables and removes those that are `None`."""
        if text is not None:
            token.write_text(text)
        return process(file, **{name: value for name, value in {**given, **others}.items() if value is not None})

    return go


def hint_of(ended):
    """Return the hint in the last line that a driver wrote."""
    return json.loads(ended.stdout.splitlines()[-1])["hint"]


@pytest.mark.parametrize("lives_s", [-60, None], ids=["expired", "missing"])
def test_a_rejected_token_is_named(drive, issuer, lives_s):
    """An expired or a missing token ends the driver at once; the hint names the variable with the token's path."""
    ended = drive(None if lives_s is None else issuer.token(lives_s))

    assert ended.returncode == PermissionDeniedError.exit_code, ended.stdout + ended.stderr
    assert "AWS_WEB_IDENTITY_TOKEN_FILE" in hint_of(ended)


def test_missing_credentials_are_named(drive):
    """No variable is set: the hint names all that would be enough."""
    ended = drive(None, AWS_ROLE_ARN=None, AWS_WEB_IDENTITY_TOKEN_FILE=None)

    assert ended.returncode == PermissionDeniedError.exit_code, ended.stdout + ended.stderr
    assert "AWS_ACCESS_KEY_ID" in hint_of(ended)


def test_a_silent_token_service_is_an_outage(drive, issuer):
    """The service may be back in a minute, so this is no mistake of the job."""
    ended = drive(issuer.token(), AWS_ENDPOINT_URL_STS="http://127.0.0.1:1")

    assert ended.returncode == TransientError.exit_code, ended.stdout + ended.stderr


def test_a_token_is_enough_for_a_job(drive, issuer):
    """It copies from bucket to bucket, with the role that the store gives for the token."""
    ended = drive(issuer.token())

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert rows_in("s3a://there/orders") == ROWS == DeltaTable("s3a://here/orders").count()
