"""The CRD on a real API server: its validation, defaults and output. Skipped without a server."""

import contextlib
import json
import os
import re
import subprocess

import pytest
from kubernetes import client, config
from support.cluster import harness as cluster_harness
from support.crd.crd_changes import CHANGES, MAY_CHANGE
from support.crd.crd_rows import ACCEPTED, CONF_RESERVED, REFUSED
from support.crd.crd_specs import SCHEMA, at, defaults, filled, rules, spec
from support.repository import ROOT

from backfill_api.load import SpecError, load_backfill
from backfill_operator.kube.errors import RefusedError
from backfill_operator.kube.resources import BACKFILLS

KUBECTL = cluster_harness.tool("kubectl")


def document(given, name="orders"):
    return {"apiVersion": BACKFILLS.api_version, "kind": "Backfill", "metadata": {"name": name}, "spec": given}


@pytest.fixture(scope="module")
def place(real_cluster):
    """Create a namespace for all tests of this file."""
    with cluster_harness.prepared(real_cluster) as namespace:
        yield real_cluster.kubeconfig, namespace


@pytest.fixture
def cluster(place, real_client):
    """Return the operator's own client, as an async context manager."""
    return lambda: real_client(*place, {})


class TestTheTable:
    """These tests need no server: they check that the table has a row for every rule of the CRD."""

    def test_every_rule_has_a_row_that_breaks_it(self):
        """It may be impossible to break a rule without such a row."""
        broken = {(row.path, row.words) for row in (*REFUSED.values(), *CHANGES.values())}
        assert {(path, message) for path, _, message in rules()} - broken == set()

    def test_every_rule_has_a_row_that_keeps_it(self):
        """The row contains the rule's object, because a rule that refuses everything would pass otherwise. The same is true before a change."""
        for path, rule, message in rules():
            rows = [row.begins for row in MAY_CHANGE.values()] if "oldSelf" in rule else ACCEPTED.values()
            assert any(at(filled(SCHEMA, given), path) is not None for given in rows), (path, message)

    def test_every_setting_of_the_operators_has_a_row(self):
        """The test reads the settings from the rule, whose form may change."""
        assert {"spark.master", "spark.kubernetes.namespace"} <= set(CONF_RESERVED)
        assert any(name.startswith("spark.kubernetes.authenticate.") for name in CONF_RESERVED)

    def test_every_default_is_omitted_in_some_row(self):
        """Otherwise no test would see the server set the default."""
        seen = set()
        for given in ACCEPTED.values():
            filled(SCHEMA, given, seen=seen)

        assert set(defaults()) - seen == set()


class TestWhatIsAccepted:
    @pytest.mark.parametrize("given", ACCEPTED.values(), ids=ACCEPTED.keys())
    async def test_server_and_models_accept_the_row_with_every_default(self, cluster, given):
        """Both agree, and a reader of the object sees the values in effect."""
        async with cluster() as (api, namespace):
            made = await api.create(BACKFILLS, namespace, document(given), dry_run=True)

        assert made["spec"] == filled(SCHEMA, given)
        assert load_backfill({**made, "metadata": {"name": "orders"}}).spec == load_backfill(document(given)).spec

    async def test_new_object_has_a_status_without_an_operator(self, cluster):
        """A new object must not seem finished to tools that compare generations."""
        async with cluster() as (api, namespace):
            await api.create(BACKFILLS, namespace, document(spec(suspend=True), "new"))
            there = await api.get(BACKFILLS, namespace, "new")

        assert there["status"] == {"observedGeneration": -1}

    async def test_unknown_fields_are_dropped(self, cluster):
        """The CRD may be older than the manifest."""
        async with cluster() as (api, namespace):
            made = await api.create(BACKFILLS, namespace, document(spec(colour="red")), dry_run=True)

        assert "colour" not in made["spec"]


def said(refused, path, message):
    """Return whether the server reported this problem of that field."""
    return re.search(rf"(?:^|[\s\[]){re.escape(path)}: .*{re.escape(message)}", refused.value.message) is not None


class TestWhatIsRefused:
    @pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED.keys())
    async def test_server_and_models_refuse_the_row_with_its_field(self, cluster, row):
        """Users read the server's message."""
        async with cluster() as (api, namespace):
            with pytest.raises(RefusedError) as refused:
                await api.create(BACKFILLS, namespace, document(row.given), dry_run=True)

        assert said(refused, row.path, row.words), refused.value.message
        with pytest.raises(SpecError):
            load_backfill(document(row.given))


class TestWhatMayChange:
    @pytest.mark.parametrize("row", CHANGES.values(), ids=CHANGES.keys())
    async def test_fields_of_the_state_cannot_change(self, cluster, row):
        """The state in the target belongs to these fields."""
        async with cluster() as (api, namespace):
            with pytest.raises(RefusedError) as refused:
                await self.change(api, namespace, row)

        assert said(refused, row.path, row.words), refused.value.message

    @pytest.mark.parametrize("row", MAY_CHANGE.values(), ids=MAY_CHANGE.keys())
    async def test_other_fields_can_change(self, cluster, row):
        """Users control a job with the object."""
        async with cluster() as (api, namespace):
            changed = await self.change(api, namespace, row)

        assert changed["metadata"]["generation"] == 2

    @staticmethod
    async def change(api, namespace, row):
        await api.delete(BACKFILLS, namespace, "fixed")
        made = await api.create(BACKFILLS, namespace, document(row.begins, "fixed"))
        version = made["metadata"]["resourceVersion"]
        return await api.patch(BACKFILLS, namespace, "fixed", {"spec": row.change}, resource_version=version)


class TestWhatItShows:
    def kubectl(self, place, *arguments, text=None):
        if KUBECTL is None:
            pytest.skip("no kubectl")
        kubeconfig, namespace = place
        done = subprocess.run(
            [KUBECTL, *arguments, "-n", namespace], input=text, env=dict(os.environ, KUBECONFIG=str(kubeconfig)),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    @pytest.mark.parametrize("how", [[], ["--server-side", "--force-conflicts"]], ids=["client-side", "server-side"])
    def test_crd_can_be_applied_twice(self, place, how):
        """GitOps tools apply it repeatedly."""
        for _ in range(2):
            self.kubectl(place, "apply", *how, "-f", str(ROOT / "crds" / "backfills.yaml"))

    def test_kubectl_get_shows_the_columns(self, place):
        """Users see these columns first."""
        self.kubectl(place, "apply", "-f", "-", text=json.dumps(document(spec(), "shown")))
        short = self.kubectl(place, "get", "bf", "shown").splitlines()[0].split()
        wide = self.kubectl(place, "get", "bf", "shown", "-o", "wide").splitlines()[0].split()

        assert short == ["NAME", "PHASE", "PROGRESS", "READY", "ATTEMPT", "AGE"]
        assert set(wide) - set(short) == {"ROWS", "ROWS/S", "ETA", "LAG", "REASON", "DRIVER"}

    @pytest.mark.parametrize("field", ["", ".spec", ".spec.throttle.rowsPerSecond", ".status.conditions"])
    def test_kubectl_explain_describes_every_field(self, place, field):
        """Every field has a sentence."""
        output = self.kubectl(place, "explain", f"backfills{field}")
        assert "<no description>" not in output.lower()

    def test_status_is_a_subresource(self, place):
        """An edit of the object cannot write it."""
        kubeconfig, namespace = place
        with config.new_client_from_config(str(kubeconfig)) as api, contextlib.suppress(client.ApiException):
            custom = client.CustomObjectsApi(api)
            where = (BACKFILLS.group, BACKFILLS.version, namespace, BACKFILLS.plural)
            custom.create_namespaced_custom_object(*where, document(spec(), "door") | {"status": {"attempts": 9}})
            there = custom.get_namespaced_custom_object(*where, "door")
            assert there.get("status", {}).get("attempts") is None
