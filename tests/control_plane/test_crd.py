"""The CRD on a real API server: what it accepts, refuses, fills in and shows. Skipped where there is no server."""

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from kubernetes import client, config
from support import cluster_harness
from support.house import ROOT
from support.operator_rig import SPEC

from backfill_api.load import SpecError, load_backfill
from backfill_operator.api_errors import RefusedError
from backfill_operator.resources import BACKFILLS

DELTA = {"path": "/data/a", "key": ["id"]}
TARGET = {"type": "Delta", "delta": {"path": "/data/b"}}
KUBECTL = shutil.which("kubectl") or str(Path.home() / ".cache/backfill-cluster/bin/kubectl")


def spec(**fields):
    """Return the least spec, changed; None takes a field away."""
    return {name: value for name, value in (SPEC | fields).items() if value is not None}


def target(**fields):
    return {"type": "Delta", "delta": {"path": "/data/b"} | fields}


def source(**fields):
    return {"type": "Delta", "delta": DELTA | fields}


ACCEPTED = {
    "the least": spec(),
    "a table by name": spec(source={"type": "Delta", "delta": {"table": "shop.orders", "key": ["id"]}}),
    "an append without a key": spec(
        source={"type": "Delta", "delta": {"path": "/a"}}, target=target(writeMode="Append")
    ),
    "the target's key": spec(source={"type": "Delta", "delta": {"path": "/a"}}, target=target(key=["id"])),
    "a pause": spec(desiredState="Paused", pause={"scope": "All"}),
    "no history": spec(throttle={"rowsPerSecond": 0}),
    "local mode": spec(executor={"instances": 0}),
    "executors by demand": spec(executor={"dynamic": {"min": 1, "max": 5}}),
    "any pod template": spec(
        driver={"template": {"spec": {"nodeSelector": {"disk": "fast"}, "unknown": [1, {"a": None}]}}}
    ),
    "Spark's settings": spec(spark={"conf": {"spark.sql.shuffle.partitions": "8"}}),
    "a job id": spec(jobId="orders-2026"),
    "suspended": spec(suspend=True),
    "with approval": spec(approval="Manual"),
}

REFUSED = {
    "no source": (spec(source=None), "spec.source"),
    "no target": (spec(target=None), "spec.target"),
    "a member of another type": (spec(source={"type": "Delta", "delta": DELTA, "kafka": {"bootstrapServers": "a:1", "topic": "t"}}), "kafka"),
    "no member": (spec(source={"type": "Delta"}), "delta"),
    "path and table": (spec(source=source(table="shop.orders")), "exactly one of path and table"),
    "neither path nor table": (spec(source={"type": "Delta", "delta": {"key": ["id"]}}), "exactly one of path and table"),
    "an upsert without a key": (spec(source={"type": "Delta", "delta": {"path": "/a"}}), "an Upsert target needs"),
    "partitions and clusters": (spec(target=target(partitionBy=["a"], clusterBy=["b"])), "at most one of partitionBy"),
    "kept rows and keys": (spec(target=target(existingRows="Keep")), "existingRows: Keep needs"),
    "kept rows and a receipt": (
        spec(verify="Final", target=target(writeMode="Append", existingRows="Keep")), "verify: Final compares"
    ),
    "another write mode": (spec(target=target(writeMode="Overwrite")), "writeMode"),
    "a rate below zero": (spec(throttle={"rowsPerSecond": -1}), "rowsPerSecond"),
    "a rate with a fraction": (spec(throttle={"rowsPerSecond": 0.5}), "rowsPerSecond"),
    "a barrier too short": (spec(barrier={"intervalMs": 1}), "intervalMs"),
    "a barrier too long": (spec(barrier={"intervalMs": 600_000}), "intervalMs"),
    "another state": (spec(desiredState="Sleeping"), "desiredState"),
    "backoff upside down": (spec(backoff={"initialSeconds": 60, "maxSeconds": 1}), "initialSeconds must not exceed"),
    "executors in two ways": (spec(executor={"instances": 1, "dynamic": {"min": 1, "max": 2}}), "at most one of instances"),
    "more at least than at most": (spec(executor={"dynamic": {"min": 5, "max": 2}}), "min must not exceed max"),
    "the operator's master": (spec(spark={"conf": {"spark.master": "local"}}), "belongs to the operator"),
    "the operator's accounts": (spec(spark={"conf": {"spark.kubernetes.authenticate.driver.serviceAccountName": "x"}}), "belongs to the operator"),
    "a retry below zero": (spec(backoffLimit=-1), "backoffLimit"),
    "text for a number": (spec(backoffLimit="3"), "backoffLimit"),
    "a path too long": (spec(target=target(path="/" + "x" * 3000)), "path"),
    "a blank path": (spec(target=target(path="  ")), "path"),
}  # fmt: skip

CHANGES = {
    "the source": ({"source": {"delta": {"path": "/data/other"}}}, "source is immutable"),
    "the key": ({"source": {"delta": {"key": ["other"]}}}, "source is immutable"),
    "the target": ({"target": {"delta": {"path": "/data/other"}}}, "target is immutable"),
    "the transform": ({"transform": {"where": "id > 5"}}, "transform is immutable"),
    "the strategy": ({"strategy": {"type": "SourceSplits", "sourceSplits": {}}}, "strategy"),
    "the job's id": ({"jobId": "another"}, "jobId is immutable"),
}

MAY_CHANGE = {
    "the state": {"desiredState": "Paused"},
    "the limit": {"throttle": {"rowsPerSecond": 5}},
    "the cure of SchemaChanged": {"source": {"delta": {"schemaChange": "Ignore"}}},
    "what pods are like": {"driver": {"resources": {"limits": {"memory": "3Gi"}}}},
    "the approval": {"approved": True},
}


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


class TestWhatIsAccepted:
    @pytest.mark.parametrize("given", ACCEPTED.values(), ids=ACCEPTED.keys())
    async def test_by_the_server_and_by_the_models(self, cluster, given):
        """One opinion."""
        async with cluster() as (api, namespace):
            made = await api.create(BACKFILLS, namespace, document(given), dry_run=True)
        load_backfill({**made, "metadata": {"name": "orders"}})

    async def test_defaults_are_filled_in(self, cluster):
        """Whoever reads the object sees what will happen."""
        async with cluster() as (api, namespace):
            made = await api.create(BACKFILLS, namespace, document(spec()), dry_run=True)

        filled = made["spec"]
        assert filled["backoffLimit"] == 3
        assert filled["barrier"] == {"intervalMs": 1000, "sealEvery": 1}
        assert (filled["desiredState"], filled["suspend"], filled["after"]) == ("Running", False, "Exit")

    async def test_unknown_fields_are_dropped(self, cluster):
        """The CRD may be older than the manifest."""
        async with cluster() as (api, namespace):
            made = await api.create(BACKFILLS, namespace, document(spec(colour="red")), dry_run=True)

        assert "colour" not in made["spec"]


class TestWhatIsRefused:
    @pytest.mark.parametrize(("given", "words"), REFUSED.values(), ids=REFUSED.keys())
    async def test_by_the_server_with_the_field_and_by_the_models(self, cluster, given, words):
        """A person reads the server's words."""
        async with cluster() as (api, namespace):
            with pytest.raises(RefusedError) as refused:
                await api.create(BACKFILLS, namespace, document(given), dry_run=True)

        assert words in refused.value.message
        with pytest.raises(SpecError):
            load_backfill(document(given))


class TestWhatMayChange:
    @pytest.mark.parametrize(("change", "words"), CHANGES.values(), ids=CHANGES.keys())
    async def test_not_what_the_state_belongs_to(self, cluster, change, words):
        """The state that is kept in the target is of these."""
        async with cluster() as (api, namespace):
            made = await self.make(api, namespace)
            with pytest.raises(RefusedError) as refused:
                await api.patch(
                    BACKFILLS, namespace, "fixed", {"spec": change},
                    resource_version=made["metadata"]["resourceVersion"],
                )  # fmt: skip

        assert words in refused.value.message

    @pytest.mark.parametrize("change", MAY_CHANGE.values(), ids=MAY_CHANGE.keys())
    async def test_everything_else(self, cluster, change):
        """Steering is what the object is for."""
        async with cluster() as (api, namespace):
            made = await self.make(api, namespace)
            await api.patch(
                BACKFILLS, namespace, "fixed", {"spec": change}, resource_version=made["metadata"]["resourceVersion"]
            )

    @staticmethod
    async def make(api, namespace):
        await api.delete(BACKFILLS, namespace, "fixed")
        return await api.create(BACKFILLS, namespace, document(spec(), "fixed"))


class TestWhatItShows:
    def kubectl(self, place, *arguments, text=None):
        if not Path(KUBECTL).is_file():
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
