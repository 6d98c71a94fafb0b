"""If a spec is corrected while its pod cannot start, a new pod replaces it at once, without a requested restart."""

import pytest
from support.operators.rig import Rig

from backfill_api.names import RESTART_ANNOTATION
from backfill_operator.informer.parse import pod_of

MISSING = "localhost/missing:1"
ALLOWED = {"allowed_images": (MISSING, "localhost/other:1")}


def waits(reason, message):
    """Return the status of a scheduled pod whose driver cannot start."""
    return {
        "phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{
            "name": "driver", "image": MISSING, "imageID": "", "ready": False, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": message}},
        }],
    }  # fmt: skip


UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
    ],
}
STATES = {
    "a missing image": waits("ImagePullBackOff", "no such image"),
    "a missing Secret": waits("CreateContainerConfigError", 'secret "late" not found'),
    "a missing volume": waits("ContainerCreating", ""),
    "no room": UNSCHEDULABLE,
}


class TestAnEditOfTheSpec:
    @pytest.mark.parametrize("state", STATES)
    async def test_edit_replaces_a_pod_whose_driver_never_ran(self, rigs, state):
        """There is no failure, no delay, an event that reports it, and no object of the attempt stays."""
        async with rigs(**ALLOWED) as rig:
            rig.kubelet.missing.add(MISSING)
            rig.create(spark={"image": MISSING}, backoff={"initialSeconds": 600, "maxSeconds": 600})
            await rig.until(lambda: rig.pods())
            rig.kubelet.status(rig.driver(), STATES[state])
            await rig.until(lambda: rig.condition("Reconciling") == ("True", "Launching"))
            rig.edit(spark={"image": "localhost/other:1"})
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))

            [container] = rig.store.get("pods", *rig.driver(attempt=2))["spec"]["containers"]
            assert container["image"] == "localhost/other:1"
            assert [entry["reason"] for entry in rig.status()["history"]] == ["SpecChanged"]
            assert rig.status().get("failures", 0) == 0
            await rig.until(lambda: rig.has_one_driver(attempt=2))
            await rig.until(lambda: rig.events().count("SpecChanged") == 1)

    async def test_edit_does_not_stop_a_running_driver(self, rigs):
        """The driver uses the spec that it has read; the edit takes effect with the next attempt."""
        async with rigs(**ALLOWED) as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(spark={"image": "localhost/other:1"}, executor={"instances": 2})
            await rig.until_holds("Running")
            await rig.until(lambda: rig.pods() == {"orders-1-driver": "Running"})
            await rig.still(lambda: rig.pods() == {"orders-1-driver": "Running"}, for_s=1.5)
            assert rig.attempt() == 1

    @pytest.mark.parametrize("note", ["", "x" * 20_000])
    async def test_pending_edit_is_in_the_status(self, rigs, note):
        """After a requested restart the pods follow the spec, and the condition is removed (fault K12)."""
        async with rigs() as rig:
            # A watch reads only a part of a large pod.
            rig.create(driver={"template": {"metadata": {"annotations": {"note": note}}}})
            await rig.until_holds("Running")
            rig.edit(driver={"resources": {"limits": {"memory": "3Gi"}}})
            await rig.until(lambda: rig.condition("EditPending") == ("True", "EditPending"))
            [shown] = [condition for condition in rig.status()["conditions"] if condition["type"] == "EditPending"]
            await rig.until(lambda: rig.events().count("EditPending") == 1)
            rig.annotate(**{RESTART_ANNOTATION: "now"})
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))

            assert shown["message"].startswith("spec.driver.resources was edited after attempt 1 was launched")
            assert rig.condition("EditPending") is None
            [container] = rig.store.get("pods", *rig.driver(attempt=2))["spec"]["containers"]
            assert container["resources"]["limits"]["memory"] == "3Gi"

    async def test_edit_of_the_operators_fields_keeps_the_pod(self, rigs):
        """A limit, a pause or a longer startup time need no other pod."""
        async with rigs(**ALLOWED) as rig:
            rig.kubelet.missing.add(MISSING)
            rig.create(spark={"image": MISSING})
            await rig.until(lambda: rig.pods())
            rig.kubelet.status(rig.driver(), STATES["a missing image"])
            rig.edit(startupTimeoutSeconds=900, throttle={"rowsPerSecond": 5}, backoffLimit=9)
            await rig.until(lambda: rig.status().get("observedGeneration") == rig.get()["metadata"]["generation"])
            await rig.still(lambda: list(rig.pods()) == ["orders-1-driver"], for_s=1.0)
            assert rig.attempt() == 1
            assert "SpecChanged" not in rig.events()

    async def test_edit_is_detected_by_the_next_operator(self, rigs):
        """The spec of a pod is recorded on the pod, not in a process."""
        async with rigs(**ALLOWED) as rig:
            rig.kubelet.missing.add(MISSING)
            rig.create(spark={"image": MISSING})
            await rig.until(lambda: rig.pods())
            rig.kill()
            rig.edit(spark={"image": "localhost/other:1"})
            rig.restart()
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))
            assert [entry["reason"] for entry in rig.status()["history"]] == ["SpecChanged"]


class TestADriversContainer:
    """A pod is Pending until all its containers run: a sidecar with a missing image keeps it Pending while its driver works."""

    @pytest.mark.parametrize(
        ("status", "started"),
        [
            ({}, False),
            ({"state": {"waiting": {"reason": "ImagePullBackOff"}}, "started": False, "lastState": {}}, False),
            ({"state": {"running": {"startedAt": "2027-01-15T08:00:00Z"}}, "started": False}, True),
            ({"state": {"terminated": {"exitCode": 1}}}, True),
            (
                {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}},
                True,
            ),
            ({"state": {"waiting": {"reason": "x"}}, "started": True}, True),
        ],
    )
    def test_driver_has_run_if_its_container_status_shows_it(self, status, started):
        """It runs now, or has run before."""
        sidecar = {"name": "sidecar", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
        ran = {"name": "init", "state": {"terminated": {"exitCode": 0}}}
        statuses = {"initContainerStatuses": [ran], "containerStatuses": [sidecar, {"name": "driver"} | status]}
        seen = pod_of({"metadata": {"name": "orders-1-driver"}, "status": {"phase": "Pending"} | statuses})

        assert seen.started is started

    async def test_driver_is_not_stopped_because_of_its_sidecar(self):
        """The job continues, and the edit takes effect with the next attempt."""
        async with Rig(**ALLOWED) as rig:
            rig.create()
            await rig.until_holds("Running")
            missing = {"name": "sidecar", "ready": False, "state": {"waiting": {"reason": "ImagePullBackOff"}}}
            driver = {"name": "driver", "ready": True, "state": {"running": {"startedAt": "2027-01-15T08:00:00Z"}}}
            rig.kubelet.status(rig.driver(), {"phase": "Pending", "containerStatuses": [missing, driver]})
            rig.edit(spark={"image": "localhost/other:1"})
            await rig.still(lambda: list(rig.pods()) == ["orders-1-driver"], for_s=1.5)
            assert "SpecChanged" not in rig.events()
