"""Containers that a webhook adds to the driver's pod do not affect the job: not by their end, nor because they never end."""

import pytest
from support.operators.rig import Rig

from backfill_operator.informer.parse import pod_of

SHIPPER = {
    "name": "shipper", "ready": False,
    "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no route to the collector"}},
}  # fmt: skip

PROXY = {
    "name": "istio-proxy", "started": True, "ready": True, "restartCount": 0,
    "state": {"running": {"startedAt": "2027-01-15T08:00:00Z"}},
}  # fmt: skip
"""A native sidecar, as a service mesh adds it."""


class TestADeadSidecar:
    async def test_driver_with_a_dead_sidecar_runs_and_obeys(self):
        """Each attempt ended after startupTimeoutSeconds, and the status did not show an acknowledged pause (fault C1)."""
        async with Rig() as rig:
            rig.kubelet.beside = (SHIPPER,)
            rig.create(startupTimeoutSeconds=10)
            await rig.until_holds("Running")
            assert "container shipper is not ready: exit code 1" in rig.message("DriverReady")

            rig.edit(desiredState="Paused")
            await rig.until_holds("Paused")
            await rig.still(lambda: rig.condition("Paused") == ("True", "AsRequested"), for_s=1)
            assert rig.attempt() == 1


class TestTheLogsOfAPod:
    async def test_logs_are_the_drivers_by_default(self):
        """`kubectl logs POD` once showed the sidecar that a webhook had put first (fault C7)."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            annotations = rig.store.get("pods", *rig.driver())["metadata"]["annotations"]

        assert annotations["kubectl.kubernetes.io/default-container"] == "driver"


class TestARunningSidecar:
    """It keeps its pod Running, and its quota, after the driver has ended (fault C10)."""

    @pytest.mark.parametrize(
        ("driver", "sidecar", "lingering"),
        [
            ({"terminated": {"exitCode": 1}}, {"running": {"startedAt": "2027-01-15T08:00:00Z"}}, "shipper"),
            ({"terminated": {"exitCode": 1}}, SHIPPER["state"], ""),
            (
                {"running": {"startedAt": "2027-01-15T08:00:00Z"}},
                {"running": {"startedAt": "2027-01-15T08:00:00Z"}},
                "",
            ),
        ],
    )
    def test_running_sidecar_is_named_after_the_driver_has_ended(self, driver, sidecar, lingering):
        """While the driver runs, a running sidecar is normal."""
        statuses = [{"name": "shipper", "state": sidecar}, {"name": "driver", "state": driver}]
        seen = pod_of(
            {"metadata": {"name": "orders-1-driver"}, "status": {"phase": "Running", "containerStatuses": statuses}}
        )

        assert seen.lingering == lingering


class TestANativeSidecar:
    """An init container with `restartPolicy: Always`, as Istio and Linkerd add one."""

    @pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (2, "Failed")])
    async def test_job_ends_with_its_driver_while_the_sidecar_runs(self, code, phase):
        """The node reports the pod as Running until the sidecar has ended, which may take the whole grace period."""
        async with Rig() as rig:
            rig.kubelet.sidecars = (PROXY,)
            rig.create(backoffLimit=0)
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver(), exit_code=code, phase="Running", initContainerStatuses=[PROXY])
            await rig.until_phase(phase)

            assert rig.attempt() == 1
            assert rig.status()["history"][0]["exitCode"] == code

    async def test_next_attempt_waits_for_no_sidecar_of_the_last_one(self):
        """Two pods may exist for a while, and only one of them has a driver."""
        async with Rig() as rig:
            rig.kubelet.sidecars = (PROXY,)
            rig.create()
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver(), exit_code=70, phase="Running", initContainerStatuses=[PROXY])
            await rig.until(lambda: rig.attempt() == 2)
            await rig.until_holds("Running")

            assert rig.kubelet.running.keys() == {rig.driver(attempt=2)}

    async def test_driver_with_a_sidecar_that_is_never_ready_runs_and_obeys(self):
        """Its proxy lost the control plane of the mesh: commands go to the pod's address, and executors find the driver anyway."""
        async with Rig() as rig:
            rig.kubelet.sidecars = (PROXY | {"ready": False},)
            rig.create(startupTimeoutSeconds=10)
            await rig.until_holds("Running")
            assert "container istio-proxy is not ready: it runs" in rig.message("DriverReady")

            rig.edit(desiredState="Paused")
            await rig.until_holds("Paused")
            assert rig.attempt() == 1
            assert rig.store.get("services", *rig.driver())["spec"]["publishNotReadyAddresses"]

    async def test_deleted_backfill_does_not_wait_for_the_sidecar(self):
        """The driver stops at a barrier, and the pod is gone with its sidecar."""
        async with Rig() as rig:
            rig.kubelet.sidecars = (PROXY,)
            rig.create()
            await rig.until_holds("Running")
            rig.delete()
            await rig.until(lambda: rig.get() is None)

            assert rig.objects() == []
