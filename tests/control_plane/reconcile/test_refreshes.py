"""A complete Backfill runs again on request, with the fake API server and a real one."""

from backfill_api.names import REFRESH_ANNOTATION
from backfill_api.status.ending import Ending


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
