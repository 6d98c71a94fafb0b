"""Jobs in queues of Kueue: each promise on a Kueue in memory, and on the real one if it is compiled (`make test-kueue`)."""

import asyncio
import contextlib
from functools import partial
from pathlib import Path

import pytest
import yaml
from support.cluster import harness as cluster_harness
from support.cluster.fake_api import Fault
from support.kueue.build import NoKueueError
from support.kueue.fake_kueue import FakeKueue
from support.kueue.queues import Queues
from support.kueue.running import running_kueue
from support.operators.rig import RealApi, Rig

FAR = {"relist_min_seconds": 60, "relist_max_seconds": 60}
"""Full lists must not repair a wake-up that is missing."""

EXAMPLES = Path(__file__).parents[3] / "examples" / "kueue"


@contextlib.contextmanager
def compiled_kueue(folder, **configuration):
    """Yield a real Kueue, or skip the test with the remedy."""
    with contextlib.ExitStack() as stack:
        try:
            kueue = stack.enter_context(running_kueue(folder, **configuration))
        except NoKueueError as none:
            pytest.skip(str(none))
        yield kueue


@pytest.fixture(scope="session")
def kueue(tmp_path_factory):
    """Return a real Kueue with its API server."""
    with compiled_kueue(tmp_path_factory.mktemp("kueue")) as kueue:
        yield kueue


@pytest.fixture(params=["fake", pytest.param("kueue", marks=pytest.mark.rest)])
def queued(request):
    """Return a context manager with a rig and its queues, on either Kueue."""
    return on_a_fake if request.param == "fake" else partial(on_kueue, request.getfixturevalue("kueue"))


@contextlib.asynccontextmanager
async def on_kueue(kueue, **options):
    """Yield a rig in a namespace of a real Kueue's API server, and its queues."""
    cluster = cluster_harness.Borrowed("Kueue", kueue.kubeconfig, has_nodes=False)
    with cluster_harness.prepared(cluster) as namespace:
        api = RealApi(kueue.kubeconfig, namespace)
        api.store.mirrored_too = ("workloads",)
        async with Rig(api, patience=3.0, namespaces=(namespace,), **FAR, **options) as rig:
            queues = Queues(rig)
            try:
                yield rig, queues
            finally:
                queues.close()


@contextlib.asynccontextmanager
async def on_a_fake(**options):
    """Yield a rig with a Kueue in memory."""
    async with Rig(**FAR, **options) as rig:
        FakeKueue(rig.store)
        yield rig, Queues(rig)


def job(*, driver="1", executors=0, executor="1", **spec):
    """Return the fields of a job in the queue `team`, with CPUs for its pods."""
    sizes = {"resources": {"requests": {"cpu": driver, "memory": "1Gi"}}}
    workers = {"instances": executors, "resources": {"requests": {"cpu": executor, "memory": "1Gi"}}}
    return {"queue": "team", "driver": sizes, "executor": workers} | spec


def waits(rig, reason, name="orders", type_="Reconciling"):
    return rig.condition(type_, name) == ("True", reason)


async def requeued(rig, name="orders"):
    """Wait until an eviction has ended the first attempt and the job waits again; it is no failure."""
    await rig.until(lambda: rig.status(name).get("history"), what="the end of the first attempt")
    assert [past["reason"] for past in rig.status(name)["history"]] == ["EvictedByQueue"]
    assert rig.status(name).get("failures", 0) == 0
    await rig.until(lambda: rig.pods().get(rig.driver(name)[1]) in (None, "Failed"))


class TestTwoJobsAndQuotaForOne:
    """The second job gets the quota that the first one returns."""

    async def test_second_job_waits_with_the_reason_until_the_first_is_complete(self, queued):
        """It has no pod and uses no attempt before."""
        async with queued() as (rig, queues):
            queues.all(cpu="1")
            rig.create("orders", **job())
            await rig.until_holds("Running")
            rig.create("later", **job())
            await rig.until(
                lambda: waits(rig, "WaitingForQueue", "later") and "insufficient" in rig.message("Ready", "later")
            )
            assert "waits in LocalQueue team: Pending: couldn't assign flavors" in rig.message("Ready", "later")
            assert (rig.status("later").get("attempts", 0), len(rig.pods())) == (0, 1)
            rig.kubelet.finish(rig.driver())
            await rig.until_holds("Running", "later")

            assert rig.phase() == "Succeeded"
            assert queues.conditions()["Finished"] == ("True", "Succeeded")

    async def test_higher_priority_preempts_and_the_job_continues_afterwards(self, queued):
        """The driver stops at a barrier before its quota returns. The next attempt follows at once, without a counted failure."""
        async with queued() as (rig, queues):
            queues.all(cpu="1")
            rig.create("orders", **job(priority=1))
            await rig.until_holds("Running")
            await rig.until(lambda: queues.is_true("PodsReady"))
            rig.create("urgent", **job(priority=9))
            await rig.until_holds("Running", "urgent")
            await requeued(rig)
            await rig.until(lambda: waits(rig, "WaitingForQueue"))
            shown = queues.conditions()
            assert (shown["Requeued"], shown["PodsReady"]) == (("True", "Preempted"), ("False", "WaitForStart"))
            assert f"JobUID: {rig.uid('urgent')}" in queues.message("Requeued")
            rig.kubelet.finish(rig.driver("urgent"))
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))
            await rig.until(lambda: queues.conditions()["PodsReady"] == ("True", "Started"))
            rig.kubelet.finish(rig.driver(attempt=2))
            await rig.until_phase("Succeeded")

            assert rig.status().get("failures", 0) == 0

    async def test_failed_job_returns_its_quota(self, queued):
        """Its Workload has finished with the failure."""
        async with queued() as (rig, queues):
            queues.all(cpu="1")
            rig.create("orders", **job())
            await rig.until_holds("Running")
            rig.create("later", **job())
            rig.kubelet.finish(rig.driver(), exit_code=20)
            await rig.until_holds("Running", "later")

            assert queues.conditions()["Finished"] == ("True", "Failed")

    async def test_suspended_and_deleted_jobs_return_their_quota(self, queued):
        """A resumed job queues again."""
        async with queued() as (rig, queues):
            queues.all(cpu="1")
            rig.create("orders", **job())
            await rig.until_holds("Running")
            rig.edit(suspend=True)
            await rig.until(lambda: rig.holds("Suspended") and queues.workload() is None)
            rig.create("later", **job())
            await rig.until_holds("Running", "later")
            rig.edit(suspend=False)
            await rig.until(lambda: waits(rig, "WaitingForQueue") and "insufficient" in rig.message("Ready"))
            rig.delete("later")
            await rig.until_holds("Running")

    async def test_edit_of_a_waiting_job_replaces_its_workload(self, queued):
        """A lower request fits at once."""
        async with queued() as (rig, queues):
            queues.all(cpu="2")
            rig.create(**job(driver="1", executors=4))
            await rig.until(lambda: waits(rig, "WaitingForQueue") and "insufficient" in rig.message("Ready"))
            rig.edit(executor={"instances": 1})
            await rig.until_holds("Running")

            assert [(pods["name"], pods["count"]) for pods in queues.workload()["spec"]["podSets"]] == [
                ("driver", 1), ("executors", 1),
            ]  # fmt: skip


class TestPlaces:
    """Kueue decides where the pods run."""

    async def test_example_runs_where_its_flavor_points(self, queued):
        """Node labels and tolerations arrive in the driver and in the executors. No pod has a label of Kueue."""
        documents = [*yaml.safe_load_all((EXAMPLES / "queue.yaml").read_text())]
        example = yaml.safe_load((EXAMPLES / "orders-queued.yaml").read_text())
        async with queued() as (rig, queues):
            queues.apply(documents)
            rig.create(**example["spec"])
            await rig.until_holds("Running")

            spec = queues.workload()["spec"]
            assert (spec["queueName"], spec["priority"]) == ("team", 10)
            assert [(pods["name"], pods["count"]) for pods in spec["podSets"]] == [("driver", 1), ("executors", 2)]
            driver = rig.store.objects["pods"][rig.driver()]
            executor = yaml.safe_load(rig.store.objects["configmaps"][rig.driver()]["data"]["executor.yaml"])
            for pod in (driver, executor):
                assert pod["spec"]["nodeSelector"] == {"pool": "spot"}
                assert {"key": "spot", "operator": "Exists"} in pod["spec"]["tolerations"]
                assert not [label for label in pod["metadata"].get("labels", {}) if "kueue" in label]


class TestQueuesThatDoNotAdmit:
    """The status has the reason and the remedy. The job starts when the cause is gone."""

    async def test_missing_queue_is_named(self, queued):
        """Then the cluster queue is missing, then nothing."""
        async with queued() as (rig, queues):
            rig.create(**job())
            await rig.until(lambda: waits(rig, "QueueUnavailable"))
            await rig.until(lambda: "LocalQueue team doesn't exist; create or start that queue" in rig.message("Ready"))
            queues.local_queue()
            await rig.until(lambda: f"ClusterQueue {queues.full('data')} doesn't exist" in rig.message("Ready"))
            assert (rig.status().get("attempts", 0), rig.pods()) == (0, {})
            queues.flavor()
            queues.cluster_queue()
            await rig.until_holds("Running")

    async def test_stopped_queue_evicts_and_the_job_continues_after_its_restart(self, queued):
        """No failure is counted."""
        async with queued() as (rig, queues):
            queues.all()
            rig.create(**job())
            await rig.until_holds("Running")
            queues.stop("HoldAndDrain")
            await requeued(rig)
            await rig.until(
                lambda: waits(rig, "QueueUnavailable") and "LocalQueue team is inactive" in rig.message("Ready")
            )
            queues.stop("None")
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))

    async def test_deactivated_workload_waits_for_its_user(self, queued):
        """The next attempt follows the activation."""
        async with queued() as (rig, queues):
            queues.all()
            rig.create(**job())
            await rig.until_holds("Running")
            queues.activate(False)
            await requeued(rig)
            await rig.until(lambda: waits(rig, "QueueDeactivated", type_="Stalled"))
            await rig.until(lambda: not queues.is_true("QuotaReserved"))
            queues.activate(True)
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))

    async def test_deleted_workload_is_an_eviction(self, queued):
        """The job queues again with another Workload."""
        async with queued() as (rig, queues):
            queues.all()
            rig.create(**job())
            await rig.until_holds("Running")
            first = queues.workload()["metadata"]["uid"]
            queues.delete_workload()
            await requeued(rig)
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))

            assert queues.workload()["metadata"]["uid"] != first

    async def test_resource_outside_the_queue_is_named(self, queued):
        """A ClusterQueue without a quota of a requested resource admits nothing."""
        async with queued() as (rig, queues):
            queues.all()
            rig.create(**job() | {"driver": {"resources": {"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}}}})
            await rig.until(lambda: waits(rig, "WaitingForQueue"))
            await rig.until(lambda: "resource ephemeral-storage unavailable in ClusterQueue" in rig.message("Ready"))


@pytest.mark.rest
class TestARealKueue:
    """Promises that depend on its configuration and its process."""

    async def test_next_job_waits_until_the_pods_of_the_first_are_ready(self, tmp_path):
        """Kueue reads the condition that the operator writes (waitForPodsReady)."""
        with compiled_kueue(tmp_path, waitForPodsReady={"timeout": "5m", "blockAdmission": True}) as kueue:
            async with on_kueue(kueue) as (rig, queues):
                queues.all(cpu="2")
                rig.kubelet.held = True
                rig.create("orders", **job())
                await rig.until(lambda: rig.pods())
                rig.create("later", **job())
                await rig.until(
                    lambda: waits(rig, "WaitingForQueue", "later") and "PodsReady" in rig.message("Ready", "later")
                )
                rig.kubelet.held = False
                rig.store.patch("pods", *rig.driver(), {"metadata": {"annotations": {"node": "has room"}}})
                await rig.until_holds("Running", "later")

    async def test_job_waits_while_kueue_is_away(self, tmp_path):
        """Its webhooks do not answer. The job starts when they do, and a running driver stays."""
        with compiled_kueue(tmp_path) as kueue:
            async with on_kueue(kueue) as (rig, queues):
                queues.all(cpu="2")
                rig.create("orders", **job())
                await rig.until_holds("Running")
                await asyncio.to_thread(kueue.stop)
                rig.create("later", **job())
                await rig.until(
                    lambda: waits(rig, "QueueUnavailable", "later") and "webhook" in rig.message("Ready", "later")
                )
                assert rig.holds("Running")
                await asyncio.to_thread(kueue.start)
                await rig.until_holds("Running", "later")


class TestTheOperator:
    async def test_restarted_operator_stops_no_driver(self):
        """Before its first list of Workloads it knows of no eviction."""
        async with on_a_fake() as (rig, queues):
            queues.all()
            rig.create(**job())
            await rig.until_holds("Running")
            rig.kill()
            rig.api.faults.append(Fault("answer", plural="workloads", verb="list", status=503, times=2))
            rig.start()
            await rig.until(lambda: not [fault for fault in rig.api.faults if fault.times > 0], 20)
            queues.stop("HoldAndDrain")
            await rig.until(lambda: rig.status().get("history"), 20)

            assert [past["reason"] for past in rig.status()["history"]] == ["EvictedByQueue"]

    async def test_late_response_does_not_undo_an_admission(self):
        """The watch reports the admission before the creation of the Workload is answered."""
        async with on_a_fake() as (rig, queues):
            queues.all()
            rig.api.faults.append(Fault("slow answer", plural="workloads", verb="create", seconds=0.5))
            rig.create(**job())
            await rig.until_holds("Running")

    async def test_late_response_does_not_undo_a_deletion(self):
        """A user deletes the Workload before its creation is answered; the job queues again."""
        async with on_a_fake() as (rig, queues):
            rig.api.faults.append(Fault("slow answer", plural="workloads", verb="create", seconds=0.5))
            rig.create(**job())
            await rig.until(lambda: queues.workload() is not None)
            queues.delete_workload()
            queues.all()
            await rig.until_holds("Running")

    async def test_operator_asks_for_no_workloads_without_a_queue(self):
        """A cluster without Kueue sees no request for it."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")

            assert [seen for seen in rig.api.requests if seen.group == "kueue.x-k8s.io"] == []

    @pytest.mark.parametrize(
        ("status", "remedy"), [(404, "install Kueue"), (403, "set the chart's value queues.enabled")]
    )
    async def test_cluster_without_kueue_or_rights_is_named(self, status, remedy):
        """The job waits with the remedy, and starts when the cause is gone."""
        async with on_a_fake() as (rig, queues):
            queues.all()
            rig.api.faults.append(Fault("answer", plural="workloads", verb="list", status=status, times=2))
            rig.create(**job())
            await rig.until(lambda: waits(rig, "QueueUnavailable") and remedy in rig.message("Ready"))
            assert (rig.status().get("attempts", 0), rig.pods()) == (0, {})
            await rig.until_holds("Running")

    async def test_missing_flavor_is_named(self):
        """The admission stays, and the driver starts when the flavor exists. Kueue keeps a flavor that is used."""
        async with on_a_fake() as (rig, queues):
            queues.cluster_queue()
            queues.local_queue()
            rig.create(**job())
            await rig.until(lambda: rig.condition("Stalled"))
            assert f"ResourceFlavor {queues.full('default')}" in rig.message("Stalled")
            assert rig.pods() == {}

    async def test_workload_of_another_owner_stays(self):
        """A user's Workload with the job's name is a collision."""
        async with on_a_fake() as (rig, queues):
            foreign = {"queueName": "other", "podSets": []}
            rig.store.create("workloads", rig.namespace, {"metadata": {"name": "orders"}, "spec": foreign})
            rig.create(**job())
            await rig.until(lambda: waits(rig, "NameCollision", type_="Stalled"))
            await asyncio.sleep(0)

            assert queues.workload()["spec"] == foreign
