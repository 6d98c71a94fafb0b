"""A complete Backfill runs again on request and at its times, with the fake API server and a real one."""

from datetime import UTC, datetime, timedelta

from backfill_api.names import REFRESH_ANNOTATION
from backfill_api.status.ending import Ending

KEY = ("shop", "orders")


def mode(rig, attempt):
    """Return the mode of an attempt's driver; empty for an ordinary one."""
    pod = rig.store.get("pods", *rig.driver(attempt=attempt))
    variables = pod["spec"]["containers"][0]["env"]
    return next((variable["value"] for variable in variables if variable["name"] == "BACKFILL_MODE"), "")


async def completed(rig):
    """Create a job, and run it to its end."""
    rig.create()
    await rig.until_holds("Running")
    rig.kubelet.finish(rig.driver())
    await rig.until_phase("Succeeded")


class TestARequestedRefresh:
    """Each new value of the annotation is one more run, and the status shows when it ran."""

    async def test_complete_job_runs_again(self, rigs):
        """The second run may find nothing new, and the operator may restart meanwhile."""
        async with rigs() as rig:
            await completed(rig)
            rig.annotate(**{REFRESH_ANNOTATION: "monday"})
            await rig.until(lambda: rig.attempt() == 2)
            await rig.until_holds("Running")
            assert mode(rig, 2) == "refresh"
            rig.restart()
            quiet = Ending(outcome="Complete", reason="UpToDate")
            rig.kubelet.finish(rig.driver(attempt=2), ending=quiet)
            await rig.until_phase("Succeeded")

            assert rig.status()["refresh"]["reason"] == "UpToDate"
            assert rig.status()["refresh"]["end"]
            assert rig.status()["control"]["refreshToken"] == "monday"
            assert rig.status()["attempts"] == 2

    async def test_complete_job_follows_after_an_edit(self, rigs):
        """The driver reads the mode from the spec, so it needs none."""
        async with rigs() as rig:
            await completed(rig)
            rig.edit(after="Follow")
            await rig.until(lambda: rig.attempt() == 2)
            await rig.until_holds("Running")

            assert mode(rig, 2) == ""
            assert "refresh" not in rig.status()


class TestASchedule:
    """The operator wakes at the next time in the status, also if the time passed while it was away."""

    async def test_missed_times_start_one_refresh(self, rigs):
        """The time in the status is hours ago."""
        async with rigs() as rig:
            rig.create(refresh={"schedule": "0 2 * * *"})
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver())
            await rig.until(lambda: rig.status().get("refreshTimes", {}).get("next"))
            await rig.running.stop()
            change = {"status": {"refreshTimes": {"next": "2026-01-02T02:00:00Z"}}}
            rig.store.patch("backfills", *KEY, change, subresource="status")
            rig.start()
            await rig.until(lambda: rig.attempt() == 2)
            await rig.until_holds("Running")

            assert mode(rig, 2) == "refresh"
            rig.kubelet.finish(rig.driver(attempt=2))
            await rig.until_phase("Succeeded")
            times = rig.status()["refreshTimes"]
            assert times["last"] == "2026-01-02T02:00:00Z"
            assert times["next"].endswith("T02:00:00Z")
            assert times["next"] > rig.status()["refresh"]["start"]
            await rig.still(lambda: rig.attempt() == 2, for_s=0.5)

    async def test_operator_wakes_at_the_time(self, rigs):
        """Nothing else happens to the object, which is one of those that rarely change."""
        async with rigs() as rig:
            rig.create(refresh={"schedule": "0 2 * * *"})
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver())
            await rig.until(lambda: rig.status().get("refreshTimes", {}).get("next"))
            soon = datetime.now(UTC) + timedelta(seconds=2)
            change = {"status": {"refreshTimes": {"next": soon.strftime("%Y-%m-%dT%H:%M:%SZ")}}}
            rig.store.patch("backfills", *KEY, change, subresource="status")

            await rig.until(lambda: rig.attempt() == 2)
