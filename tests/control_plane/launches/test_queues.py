"""Jobs in a queue of Kueue, on the fake API server and on a real one with Kueue's own schema; Kueue's decisions are scripted."""

import asyncio

import pytest
from support.cluster.fake_api import Fault
from support.kueue.installed import install_kueue
from support.kueue.scripted import ScriptedKueue
from support.operators.rig import Rig

FAR = {"relist_min_seconds": 60, "relist_max_seconds": 60}
"""Full lists must not repair a wake-up that is missing."""


@pytest.fixture(params=["fake", "real"])
def queued(request):
    """Return a factory of rigs whose API server has Kueue's kinds."""
    if request.param == "fake":
        return Rig
    install_kueue(request.getfixturevalue("real_cluster").kubeconfig)
    rigs = request.getfixturevalue("real")

    def rig(**options):
        made = rigs(**options)
        made.store.mirrored_too = ("workloads",)
        return made

    return rig


def waits(rig, reason, name="orders", type_="Reconciling"):
    return rig.condition(type_, name) == ("True", reason)


async def admitted(rig, kueue, name="orders"):
    """Admit a Workload when it exists, and wait for its driver."""
    await rig.until(lambda: kueue.workload(name))
    kueue.admit(name)
    await rig.until_holds("Running", name)


class TestAJobInAQueue:
    async def test_driver_starts_with_the_admission_and_goes_on_after_an_eviction(self, queued):
        """The driver stops at a barrier, its quota returns after its end, and the eviction is no failure."""
        async with queued(**FAR) as rig:
            kueue = ScriptedKueue(rig)
            kueue_of_team = {"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}
            flavor = f"spot-{rig.namespace}"
            kueue.flavor(flavor, **kueue_of_team)
            rig.create(queue="team", priority=7, executor={"instances": 3, "resources": {"requests": {"cpu": "2"}}})
            await rig.until(kueue.workload)
            spec = kueue.workload()["spec"]
            assert (spec["queueName"], spec["priority"]) == ("team", 7)
            assert [(pods["name"], pods["count"]) for pods in spec["podSets"]] == [("driver", 1), ("executors", 3)]
            executor = spec["podSets"][1]["template"]["spec"]["containers"][0]
            assert executor["resources"]["requests"]["cpu"] == "2"
            kueue.refuse("insufficient quota for cpu")
            await rig.until(lambda: waits(rig, "WaitingForQueue") and "insufficient" in rig.message("Ready"))
            assert rig.pods() == {}
            kueue.admit(flavor=flavor)
            await rig.until_holds("Running")
            driver = rig.store.objects["pods"][rig.driver()]
            assert driver["spec"]["nodeSelector"] == {"pool": "spot"}
            assert {"key": "spot", "operator": "Exists"} in driver["spec"]["tolerations"]
            template = rig.store.objects["configmaps"][rig.driver()]["data"]["executor.yaml"]
            assert "pool: spot" in template
            assert not [label for label in driver["metadata"]["labels"] if "kueue" in label]
            await rig.until(lambda: kueue.condition("PodsReady") == "True")

            kueue.evict()
            await rig.until(lambda: not kueue.holds_quota(), 10)
            assert rig.pods().get(rig.driver()[1], "Failed") != "Running"
            await rig.until(lambda: waits(rig, "WaitingForQueue"))
            assert rig.status()["history"][-1]["reason"] == "EvictedByQueue"
            assert rig.status().get("failures", 0) == 0
            assert kueue.condition("Requeued") == "True"
            kueue.admit(flavor=flavor)
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"), 10)
            rig.kubelet.finish(rig.driver(attempt=2))
            await rig.until_phase("Succeeded")
            await rig.until(lambda: kueue.condition("Finished") == "True")
            rig.delete()
            await rig.until(lambda: kueue.workload() is None, 10)

    async def test_suspended_job_returns_its_quota(self, queued):
        """It queues again when it is resumed."""
        async with queued(**FAR) as rig:
            kueue = ScriptedKueue(rig)
            kueue.flavor(f"default-{rig.namespace}")
            rig.create(queue="team", executor={"instances": 0})
            await rig.until(kueue.workload)
            assert [pods["name"] for pods in kueue.workload()["spec"]["podSets"]] == ["driver"]
            kueue.admit(flavor=f"default-{rig.namespace}")
            await rig.until_holds("Running")
            rig.edit(suspend=True)
            await rig.until(lambda: rig.holds("Suspended") and kueue.workload() is None)
            rig.edit(suspend=False)
            await rig.until(lambda: kueue.workload() and waits(rig, "WaitingForQueue"))


class TestTheOperator:
    async def test_restarted_operator_stops_no_driver(self):
        """Before its first list of Workloads it knows of no eviction."""
        async with Rig(**FAR) as rig:
            kueue = ScriptedKueue(rig)
            kueue.flavor("default")
            rig.create(queue="team")
            await admitted(rig, kueue)
            rig.kill()
            rig.api.faults.append(Fault("answer", plural="workloads", verb="list", status=503, times=2))
            rig.start()
            await rig.until(lambda: not [fault for fault in rig.api.faults if fault.times > 0], 20)
            kueue.evict()
            await rig.until(lambda: rig.status().get("history"), 20)

            assert [past["reason"] for past in rig.status()["history"]] == ["EvictedByQueue"]

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
        async with Rig(**FAR) as rig:
            kueue = ScriptedKueue(rig)
            kueue.flavor("default")
            rig.api.faults.append(Fault("answer", plural="workloads", verb="list", status=status, times=2))
            rig.create(queue="team")
            await rig.until(lambda: waits(rig, "QueueUnavailable") and remedy in rig.message("Ready"))
            assert (rig.status().get("attempts", 0), rig.pods()) == (0, {})
            await admitted(rig, kueue)

    async def test_missing_flavor_is_named(self):
        """The admission stays, and the driver starts when the flavor exists."""
        async with Rig(**FAR) as rig:
            kueue = ScriptedKueue(rig)
            rig.create(queue="team")
            await rig.until(kueue.workload)
            kueue.admit(flavor="gone")
            await rig.until(lambda: rig.condition("Stalled"))

            assert "ResourceFlavor gone" in rig.message("Stalled")
            assert rig.pods() == {}

    async def test_workload_of_another_owner_stays(self):
        """A user's Workload with the job's name is a collision."""
        async with Rig(**FAR) as rig:
            kueue = ScriptedKueue(rig)
            rig.store.create("workloads", rig.namespace, {"metadata": {"name": "orders"}, "spec": {"podSets": []}})
            rig.create(queue="team")
            await rig.until(lambda: waits(rig, "NameCollision", type_="Stalled"))
            await asyncio.sleep(0)

            assert kueue.workload()["spec"] == {"podSets": []}
