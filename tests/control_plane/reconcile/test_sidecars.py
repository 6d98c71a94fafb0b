"""A container that a webhook put beside the driver and that has ended is nothing to the job."""

from support.operators.rig import Rig

SHIPPER = {
    "name": "shipper", "ready": False,
    "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no route to the collector"}},
}  # fmt: skip


class TestADeadSidecar:
    async def test_driver_beside_a_dead_container_runs_and_obeys(self):
        """Each attempt ended by startupTimeoutSeconds, and a pause that was obeyed was not shown (fault C1)."""
        async with Rig() as rig:
            rig.kubelet.beside = (SHIPPER,)
            rig.create(startupTimeoutSeconds=10)
            await rig.until_holds("Running")
            assert "container shipper is not ready: exit code 1" in rig.message("DriverReady")

            rig.edit(desiredState="Paused")
            await rig.until_holds("Paused")
            await rig.still(lambda: rig.condition("Paused") == ("True", "AsRequested"), for_s=1)
            assert rig.attempt() == 1
