"""The end of a container that a webhook added to the driver's pod does not affect the job."""

import pytest
from support.operators.rig import Rig

from backfill_operator.informer.parse import pod_of

SHIPPER = {
    "name": "shipper", "ready": False,
    "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no route to the collector"}},
}  # fmt: skip


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
