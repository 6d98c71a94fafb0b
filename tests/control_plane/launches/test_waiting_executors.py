"""Executors that do not start: the status reports why, and a corrected spec replaces the attempt."""

import time

import pytest
from support.cluster.fake_api import Fault
from support.operators.rig import Rig

MISSING, OTHER = "localhost/missing:1", "localhost/other:1"
ALLOWED = {"allowed_images": (MISSING, OTHER)}
SLOW = {"initialSeconds": 600, "maxSeconds": 600}


def waits(reason, message):
    """Return the status of an executor's pod whose container cannot start."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "executor", "ready": False, "state": state}]}


NO_IMAGE = waits("ImagePullBackOff", f"Back-off pulling image {MISSING}")
NO_NODE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}],
}
RUNS = {"phase": "Running", "containerStatuses": [{"name": "executor", "ready": True, "state": {"running": {}}}]}


def ready_says(rig):
    """Return the message of `Ready`."""
    return next(condition["message"] for condition in rig.status()["conditions"] if condition["type"] == "Ready")


async def in_trouble(rig, *others):
    """Start a driver with one executor that waits for its image, and with other executors in these states."""
    rig.create(spark={"image": MISSING}, backoff=SLOW)
    await rig.until_holds("Running")
    for number, status in enumerate((NO_IMAGE, *others), start=1):
        rig.executor(number, status)
    await rig.until(lambda: rig.condition("Ready") == ("False", "ExecutorsWaiting"))


class TestTheStatus:
    async def test_status_reports_the_problem_until_it_is_solved(self, rigs):
        """The driver itself runs, so the problem was not visible."""
        async with rigs(**ALLOWED) as rig:
            await in_trouble(rig)

            assert rig.phase() == "Running"
            assert ready_says(rig) == f"executors wait: ImagePullBackOff: Back-off pulling image {MISSING}"
            assert rig.condition("ExecutorsWaiting") == ("True", "ExecutorsWaiting")
            await rig.until(lambda: rig.events().count("ExecutorsWaiting") == 1)
            rig.executor(1, RUNS)
            await rig.until_holds("Running")
            assert rig.condition("ExecutorsWaiting") is None

    async def test_status_contains_the_schedulers_message(self):
        """The job counts as running: more executors than free capacity are not a failure."""
        async with Rig(**ALLOWED) as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.executor(1, NO_NODE)
            await rig.until(lambda: rig.condition("ExecutorsWaiting") == ("True", "ExecutorsWaiting"))

            assert rig.holds("Running")
            assert "0/1 nodes are available" in str(rig.status()["conditions"])

    async def test_status_is_not_written_for_alternating_reasons(self):
        """A kubelet alternates between ErrImagePull and ImagePullBackOff while the image is missing."""
        async with Rig(**ALLOWED) as rig:
            await in_trouble(rig)
            before = ready_says(rig)
            rig.executor(1, waits("ErrImagePull", "not found"))
            await rig.still(lambda: ready_says(rig) == before, for_s=1.0)

    async def test_status_stays_unchanged_under_another_leader(self):
        """Its first decision includes the executors, so the problem is not reported twice."""
        async with Rig(**ALLOWED) as rig:
            await in_trouble(rig)
            await rig.until(lambda: rig.events().count("ExecutorsWaiting") == 1)
            rig.restart()
            await rig.still(lambda: rig.condition("Ready") == ("False", "ExecutorsWaiting"), for_s=1.5)
            assert rig.events().count("ExecutorsWaiting") == 1

    @pytest.mark.parametrize("owner", [{"uid": "of-another-driver"}, {"controller": False}])
    async def test_status_ignores_pods_of_other_owners(self, owner):
        """A label can be forged, and a Backfill of the same name may have been deleted just before."""
        async with Rig(**ALLOWED) as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.executor(1, NO_IMAGE, **owner)
            await rig.still(lambda: rig.condition("ExecutorsWaiting") is None, for_s=1.0)


class TestAnEditOfTheSpec:
    async def test_edit_replaces_an_attempt_without_a_running_executor(self, rigs):
        """It needed a restart by hand, because the driver creates executors from its first spec."""
        async with rigs(**ALLOWED) as rig:
            await in_trouble(rig, NO_IMAGE)
            rig.edit(spark={"image": OTHER})
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))

            [container] = rig.store.get("pods", *rig.driver(attempt=2))["spec"]["containers"]
            assert container["image"] == OTHER
            assert [entry["reason"] for entry in rig.status()["history"]] == ["SpecChanged"]
            assert rig.status().get("failures", 0) == 0
            await rig.until(lambda: rig.events().count("SpecChanged") == 1)
            await rig.until(lambda: rig.has_one_driver(attempt=2))

    async def test_edit_replaces_an_attempt_with_another_running_executor(self, rigs):
        """A node still had the image: the driver would have half of its executors until it ends."""
        async with rigs(**ALLOWED) as rig:
            await in_trouble(rig, RUNS)
            rig.edit(spark={"image": OTHER})
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))
            assert [entry["reason"] for entry in rig.status()["history"]] == ["SpecChanged"]
            assert rig.status().get("failures", 0) == 0

    async def test_edit_keeps_a_working_driver_with_an_unscheduled_executor(self):
        """More executors than free capacity are not a failure, and the others copy rows."""
        async with Rig(**ALLOWED) as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.executor(1, NO_NODE)
            rig.executor(2, RUNS)
            await rig.until(lambda: rig.condition("ExecutorsWaiting") == ("True", "ExecutorsWaiting"))
            rig.edit(spark={"image": OTHER})
            await rig.until(lambda: rig.status().get("observedGeneration") == rig.get()["metadata"]["generation"])
            await rig.still(lambda: rig.attempt() == 1 and "SpecChanged" not in rig.events(), for_s=2.0)

    async def test_edit_of_another_part_keeps_the_driver(self):
        """It would not solve the problem."""
        async with Rig(**ALLOWED) as rig:
            await in_trouble(rig)
            rig.edit(barrier={"intervalMs": 500})
            await rig.still(lambda: rig.attempt() == 1 and "SpecChanged" not in rig.events(), for_s=1.5)

    async def test_edit_is_detected_by_the_next_operator(self):
        """The driver's pod records the spec of its executors."""
        async with Rig(**ALLOWED) as rig:
            await in_trouble(rig)
            rig.kill()
            rig.edit(spark={"image": OTHER})
            rig.restart()
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))
            assert [entry["reason"] for entry in rig.status()["history"]] == ["SpecChanged"]


class TestTheLoad:
    """The load on the API server is one list for all Backfills, and no list without a driver."""

    @staticmethod
    def looks(rig):
        """Return the lists of executors."""
        return [selector for selector in rig.api.field_lists if selector.startswith("status.phase")]

    async def test_backfills_without_a_driver_cause_no_list(self):
        """Ten thousand finished or suspended Backfills cause no requests."""
        async with Rig() as rig:
            for number in range(20):
                rig.create(f"rest-{number}", suspend=True)
            await rig.until(lambda: all(rig.phase(f"rest-{number}") == "Suspended" for number in range(20)))
            await rig.still(lambda: not self.looks(rig), for_s=1.5)

    async def test_number_of_lists_does_not_grow_with_drivers(self):
        """A list for each driver would be ten thousand requests."""
        async with Rig(executors_seconds=0.5) as rig:
            for number in range(10):
                rig.create(f"job-{number}", target={"type": "Delta", "delta": {"path": f"/data/{number}"}})
            await rig.until(lambda: all(rig.holds("Running", f"job-{number}") for number in range(10)), 20)
            before, began_s = len(self.looks(rig)), time.monotonic()
            await rig.until(lambda: len(self.looks(rig)) >= before + 4)
            # Three pauses of half a second lie between four lists, each up to a quarter shorter.
            assert time.monotonic() - began_s >= 3 * 0.75 * 0.5

    async def test_forbidden_namespace_is_tolerated(self):
        """Its cached executors stay, and other namespaces are listed."""
        async with Rig(**ALLOWED) as rig:
            await in_trouble(rig)
            forbidden = Fault("answer", verb="list", plural="pods", status=403, reason="Forbidden", times=8)
            rig.api.faults.append(forbidden)
            await rig.until(lambda: forbidden.times == 0)
            assert rig.condition("Ready") == ("False", "ExecutorsWaiting")
            rig.executor(1, RUNS)
            await rig.until_holds("Running")
