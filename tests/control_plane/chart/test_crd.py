"""The CRD on a real API server: what it accepts, refuses, fills in and shows. Skipped where there is no server."""

import contextlib
import json
import os
import re
import subprocess

import pytest
from kubernetes import client, config
from support.cluster import harness as cluster_harness
from support.operators.crd_rows import (
    ACCEPTED,
    CHANGES,
    CONF_RESERVED,
    MAY_CHANGE,
    REFUSED,
    SCHEMA,
    at,
    defaults,
    filled,
    rules,
    spec,
)
from support.repository import ROOT

from backfill_api.load import SpecError, load_backfill
from backfill_operator.kube.errors import RefusedError
from backfill_operator.kube.resources import BACKFILLS

KUBECTL = cluster_harness.tool("kubectl")


def document(given, name="orders"):
    return {"apiVersion": BACKFILLS.api_version, "kind": "Backfill", "metadata": {"name": name}, "spec": given}


@pytest.fixture(scope="module")
def place(real_cluster):
    """A namespace for all tests of this file."""
    with cluster_harness.prepared(real_cluster) as namespace:
        yield real_cluster.kubeconfig, namespace


@pytest.fixture
def cluster(place, real_client):
    """The operator's own client, as an async context manager."""
    return lambda: real_client(*place, {})


class TestTheTable:
    """No server is asked: is there a row for everything that the CRD says?"""

    def test_every_rule_has_a_row_that_breaks_it(self):
        """A rule that nothing breaks may be one that nothing can break."""
        broken = {(one.path, one.words) for one in (*REFUSED.values(), *CHANGES.values())}
        assert {(path, message) for path, _, message in rules()} - broken == set()

    def test_every_rule_has_a_row_that_keeps_it(self):
        """Where its object is there: a rule that refuses everything would look as well. Before a change, too."""
        for path, rule, message in rules():
            rows = [one.begins for one in MAY_CHANGE.values()] if "oldSelf" in rule else ACCEPTED.values()
            assert any(at(filled(SCHEMA, given), path) is not None for given in rows), (path, message)

    def test_every_setting_of_the_operator_s_has_a_row(self):
        """They are read from the rule, which may be written in another way one day."""
        assert {"spark.master", "spark.kubernetes.namespace"} <= set(CONF_RESERVED)
        assert any(name.startswith("spark.kubernetes.authenticate.") for name in CONF_RESERVED)

    def test_every_default_is_left_to_the_server_by_some_row(self):
        """What no row leaves out, the server never fills in before our eyes."""
        seen = set()
        for given in ACCEPTED.values():
            filled(SCHEMA, given, seen=seen)

        assert set(defaults()) - seen == set()


class TestWhatIsAccepted:
    @pytest.mark.parametrize("given", ACCEPTED.values(), ids=ACCEPTED.keys())
    async def test_by_the_server_and_by_the_models_with_every_default(self, cluster, given):
        """One opinion, and a reader of the object sees what will happen."""
        async with cluster() as (api, namespace):
            made = await api.create(BACKFILLS, namespace, document(given), dry_run=True)

        assert made["spec"] == filled(SCHEMA, given)
        assert load_backfill({**made, "metadata": {"name": "orders"}}).spec == load_backfill(document(given)).spec

    async def test_the_status_says_that_no_operator_has_looked(self, cluster):
        """A new object must not look finished to tools that compare generations."""
        async with cluster() as (api, namespace):
            await api.create(BACKFILLS, namespace, document(spec(suspend=True), "new"))
            there = await api.get(BACKFILLS, namespace, "new")

        assert there["status"] == {"observedGeneration": -1}

    async def test_unknown_fields_are_dropped(self, cluster):
        """The CRD may be older than the manifest."""
        async with cluster() as (api, namespace):
            made = await api.create(BACKFILLS, namespace, document(spec(colour="red")), dry_run=True)

        assert "colour" not in made["spec"]


def said(refused, path, words):
    """Did the server say this of that field?"""
    return re.search(rf"(?:^|[\s\[]){re.escape(path)}: .*{re.escape(words)}", refused.value.message) is not None


class TestWhatIsRefused:
    @pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED.keys())
    async def test_by_the_server_with_the_field_and_by_the_models(self, cluster, row):
        """A person reads the server's words."""
        async with cluster() as (api, namespace):
            with pytest.raises(RefusedError) as refused:
                await api.create(BACKFILLS, namespace, document(row.given), dry_run=True)

        assert said(refused, row.path, row.words), refused.value.message
        with pytest.raises(SpecError):
            load_backfill(document(row.given))


class TestWhatMayChange:
    @pytest.mark.parametrize("row", CHANGES.values(), ids=CHANGES.keys())
    async def test_not_what_the_state_belongs_to(self, cluster, row):
        """The state that is kept in the target is of these."""
        async with cluster() as (api, namespace):
            with pytest.raises(RefusedError) as refused:
                await self.change(api, namespace, row)

        assert said(refused, row.path, row.words), refused.value.message

    @pytest.mark.parametrize("row", MAY_CHANGE.values(), ids=MAY_CHANGE.keys())
    async def test_everything_else(self, cluster, row):
        """Steering is what the object is for."""
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
    def test_it_can_be_applied(self, place, how):
        """Twice, which is what GitOps does."""
        for _ in range(2):
            self.kubectl(place, "apply", *how, "-f", str(ROOT / "crds" / "backfills.yaml"))

    def test_the_columns(self, place):
        """What a person sees first."""
        self.kubectl(place, "apply", "-f", "-", text=json.dumps(document(spec(), "shown")))
        short = self.kubectl(place, "get", "bf", "shown").splitlines()[0].split()
        wide = self.kubectl(place, "get", "bf", "shown", "-o", "wide").splitlines()[0].split()

        assert short == ["NAME", "PHASE", "PROGRESS", "READY", "ATTEMPT", "AGE"]
        assert set(wide) - set(short) == {"ROWS", "ROWS/S", "ETA", "LAG", "REASON", "DRIVER"}

    @pytest.mark.parametrize("field", ["", ".spec", ".spec.throttle.rowsPerSecond", ".status.conditions"])
    def test_it_explains_itself(self, place, field):
        """Every field has a sentence."""
        said = self.kubectl(place, "explain", f"backfills{field}")
        assert "<no description>" not in said.lower()

    def test_a_status_has_a_door_of_its_own(self, place):
        """An edit of the object cannot write it."""
        kubeconfig, namespace = place
        with config.new_client_from_config(str(kubeconfig)) as api, contextlib.suppress(client.ApiException):
            custom = client.CustomObjectsApi(api)
            where = (BACKFILLS.group, BACKFILLS.version, namespace, BACKFILLS.plural)
            custom.create_namespaced_custom_object(*where, document(spec(), "door") | {"status": {"attempts": 9}})
            there = custom.get_namespaced_custom_object(*where, "door")
            assert there.get("status", {}).get("attempts") is None
