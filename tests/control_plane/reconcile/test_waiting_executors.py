"""Executors that do not start: their Backfill says why, and a spec that is corrected replaces the attempt by itself."""

import pytest
from support.cluster.fake_api import Fault
from support.operators.rig import Rig

MISSING, OTHER = "localhost/missing:1", "localhost/other:1"
ALLOWED = {"allowed_images": (MISSING, OTHER)}
SLOW = {"initialSeconds": 600, "maxSeconds": 600}


def waits(reason, message):
    """Return the status of an executor's pod whose container cannot be started."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "executor", "ready": False, "state": state}]}


NO_IMAGE = waits("ImagePullBackOff", f"Back-off pulling image {MISSING}")
NO_NODE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}],
}
RUNS = {"phase": "Running", "containerStatuses": [{"name": "executor", "ready": True, "state": {"running": {}}}]}


def ready_says(rig):
    """Return what `Ready` says."""
    return next(one["message"] for one in rig.status()["conditions"] if one["type"] == "Ready")


async def in_trouble(rig, *others):
    """Have a driver run, one executor of which waits for its image beside those with these statuses."""
    rig.create(spark={"image": MISSING}, backoff=SLOW)
    await rig.until_holds("Running")
    for number, status in enumerate((NO_IMAGE, *others), start=1):
        rig.executor(number, status)
    await rig.until(lambda: rig.condition("Ready") == ("False", "ExecutorsWaiting"))


class TestTheStatus:
    async def test_names_the_trouble_and_forgets_it(self, rigs):
        """The driver itself runs: there was nothing to see."""
        async with rigs(**ALLOWED) as rig:
            await in_trouble(rig)

            assert rig.phase() == "Running"
            assert ready_says(rig) == f"executors wait: ImagePullBackOff: Back-off pulling image {MISSING}"
            assert rig.condition("ExecutorsWaiting") == ("True", "ExecutorsWaiting")
            await rig.until(lambda: rig.events().count("ExecutorsWaiting") == 1)
            rig.executor(1, RUNS)
            await rig.until_holds("Running")
            assert rig.condition("ExecutorsWaiting") is None

    async def test_says_what_a_scheduler_says(self):
        """The job counts as running: more executors than there is room for are no fault."""
        async with Rig(**ALLOWED) as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.executor(1, NO_NODE)
            await rig.until(lambda: rig.condition("ExecutorsWaiting") == ("True", "ExecutorsWaiting"))

            assert rig.holds("Running")
            assert "0/1 nodes are available" in str(rig.status()["conditions"])

    async def test_is_not_written_when_a_kubelet_says_the_same_in_other_words(self):
        """It says ErrImagePull and ImagePullBackOff by turns, for as long as the image is missing."""
        async with Rig(**ALLOWED) as rig:
            await in_trouble(rig)
            before = ready_says(rig)
            rig.executor(1, waits("ErrImagePull", "not found"))
            await rig.still(lambda: ready_says(rig) == before, for_s=1.0)

    async def test_stays_when_another_operator_leads(self):
        """Its first decision knows of it, so the trouble is not told twice."""
        async with Rig(**ALLOWED) as rig:
            await in_trouble(rig)
            await rig.until(lambda: rig.events().count("ExecutorsWaiting") == 1)
            rig.restart()
            await rig.still(lambda: rig.condition("Ready") == ("False", "ExecutorsWaiting"), for_s=1.5)
            assert rig.events().count("ExecutorsWaiting") == 1

    @pytest.mark.parametrize("owner", [{"uid": "of-another-driver"}, {"controller": False}])
    async def test_is_not_about_pods_that_another_one_owns(self, owner):
        """A label can be forged, and a Backfill of the same name may have been deleted a moment ago."""
        async with Rig(**ALLOWED) as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.executor(1, NO_IMAGE, **owner)
            await rig.still(lambda: rig.condition("ExecutorsWaiting") is None, for_s=1.0)


class TestAnEditOfTheSpec:
    async def test_replaces_an_attempt_none_of_whose_executors_runs(self, rigs):
        """It needed a restart by hand: the driver made its executors of what it was started with."""
        async with rigs(**ALLOWED) as rig:
            await in_trouble(rig, NO_IMAGE)
            rig.edit(spark={"image": OTHER})
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))

            [container] = rig.store.get("pods", *rig.driver(attempt=2))["spec"]["containers"]
            assert container["image"] == OTHER
            assert [one["reason"] for one in rig.status()["history"]] == ["SpecChanged"]
            assert rig.status().get("failures", 0) == 0
            await rig.until(lambda: rig.events().count("SpecChanged") == 1)
            await rig.until(lambda: rig.has_one_driver(attempt=2))

    async def test_replaces_it_although_another_executor_runs(self, rigs):
        """A node had the image still: the driver would be at half its strength until it ends."""
        async with rigs(**ALLOWED) as rig:
            await in_trouble(rig, RUNS)
            rig.edit(spark={"image": OTHER})
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))
            assert [one["reason"] for one in rig.status()["history"]] == ["SpecChanged"]
            assert rig.status().get("failures", 0) == 0

    async def test_leaves_a_driver_alone_that_is_at_work_beside_one_without_a_node(self):
        """More executors than there is room for are no fault, and the others copy rows."""
        async with Rig(**ALLOWED) as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.executor(1, NO_NODE)
            rig.executor(2, RUNS)
            await rig.until(lambda: rig.condition("ExecutorsWaiting") == ("True", "ExecutorsWaiting"))
            rig.edit(spark={"image": OTHER})
            await rig.until(lambda: rig.status().get("observedGeneration") == rig.get()["metadata"]["generation"])
            await rig.still(lambda: rig.attempt() == 1 and "SpecChanged" not in rig.events(), for_s=2.0)

    async def test_of_another_part_leaves_it_alone(self):
        """It would mend nothing."""
        async with Rig(**ALLOWED) as rig:
            await in_trouble(rig)
            rig.edit(barrier={"intervalMs": 500})
            await rig.still(lambda: rig.attempt() == 1 and "SpecChanged" not in rig.events(), for_s=1.5)

    async def test_is_seen_by_the_operator_that_comes_after_it(self):
        """What executors were made of is on the driver's pod."""
        async with Rig(**ALLOWED) as rig:
            await in_trouble(rig)
            rig.kill()
            rig.edit(spark={"image": OTHER})
            rig.restart()
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))
            assert [one["reason"] for one in rig.status()["history"]] == ["SpecChanged"]


class TestTheLoad:
    """On the API server: one list for all Backfills, and none where there is no driver."""

    @staticmethod
    def looks(rig):
        """Return the lists of executors that were asked for."""
        return rig.api.field_lists

    async def test_of_backfills_without_a_driver_is_none(self):
        """Ten thousand that are over or suspended cost nothing."""
        async with Rig() as rig:
            for number in range(20):
                rig.create(f"rest-{number}", suspend=True)
            await rig.until(lambda: all(rig.phase(f"rest-{number}") == "Suspended" for number in range(20)))
            await rig.still(lambda: not self.looks(rig), for_s=1.5)

    async def test_does_not_grow_with_the_number_of_drivers(self):
        """A list for each of them would be ten thousand."""
        async with Rig(executors_seconds=0.5) as rig:
            for number in range(10):
                rig.create(f"job-{number}", target={"type": "Delta", "delta": {"path": f"/data/{number}"}})
            await rig.until(lambda: all(rig.holds("Running", f"job-{number}") for number in range(10)), 20)
            before = len(self.looks(rig))
            await rig.still(lambda: True, for_s=2.0)
            assert 1 <= len(self.looks(rig)) - before <= 6

    async def test_of_a_namespace_that_may_not_be_listed_is_borne(self):
        """What is known stays, and everything else goes on."""
        async with Rig(**ALLOWED) as rig:
            await in_trouble(rig)
            forbidden = Fault("answer", verb="list", plural="pods", status=403, reason="Forbidden", times=8)
            rig.api.faults.append(forbidden)
            await rig.until(lambda: forbidden.times == 0)
            assert rig.condition("Ready") == ("False", "ExecutorsWaiting")
            rig.executor(1, RUNS)
            await rig.until_holds("Running")
