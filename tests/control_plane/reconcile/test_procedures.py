"""Switch-overs and repairs of a Backfill, with the fake API server and a real one."""

from support.operators.plugin import Plugin

from backfill_api.names import REPAIR_ANNOTATION, SWITCH_ANNOTATION, UNDO_SWITCH_ANNOTATION, VERIFY_ANNOTATION
from backfill_api.status.ending import Ending
from backfill_api.status.procedure import ProcedureEnd


def mode(rig, attempt):
    """Return the mode of an attempt's driver; empty for an ordinary one."""
    pod = rig.store.get("pods", *rig.driver(attempt=attempt))
    variables = pod["spec"]["containers"][0]["env"]
    return next((variable["value"] for variable in variables if variable["name"] == "BACKFILL_MODE"), "")


def end(rig, attempt, kind, end, *, code=0, **fields):
    """End the driver of a procedure as a real one does."""
    outcome = "Complete" if code == 0 else "Failed"
    copies_back = fields.pop("copies_back", False)
    detail = ProcedureEnd(kind=kind, end=end, version=412, unavailable_ms=2400, copies_back=copies_back)
    ending = Ending(**({"outcome": outcome, "procedure": detail} | fields))
    rig.kubelet.finish(rig.driver(attempt=attempt), exit_code=code, ending=ending)


async def following(rig, attempt=1, **spec):
    """Wait until an attempt of a job follows its source, and has caught up."""
    if attempt == 1:
        rig.create(after="Follow", **spec)
    await rig.until(lambda: rig.attempt() == attempt)
    await rig.until_holds("Running")
    double = rig.kubelet.running[rig.driver(attempt=attempt)]
    double.progress = double.progress.model_copy(update={"caught_up": True})


async def working(rig, attempt):
    """Wait until the driver of a procedure runs."""
    await rig.until(lambda: rig.attempt() == attempt and rig.driver(attempt=attempt) in rig.kubelet.running)


def shown(rig, type_):
    """Return a condition."""
    return next((found for found in rig.status().get("conditions", ()) if found["type"] == type_), {})


class TestARequestedSwitchOver:
    """The annotation requests it, the status shows it, and a restart of the operator loses nothing."""

    async def test_is_performed_once_and_undone(self, rigs):
        """The job follows its source again after the undo."""
        async with rigs() as rig:
            await following(rig)
            rig.annotate(**{SWITCH_ANNOTATION: "friday"})
            await working(rig, 2)
            assert mode(rig, 2) == "switch"
            rig.restart()
            end(rig, 2, "Switch", "Switched")
            await rig.until_phase("Succeeded")
            switch = rig.status()["switch"]
            assert (switch["state"], switch["place"], switch["version"]) == ("Switched", "Target", 412)
            assert (shown(rig, "Switched")["status"], rig.status()["control"]["switchToken"]) == ("True", "friday")

            rig.annotate(**{UNDO_SWITCH_ANNOTATION: "monday"})
            await working(rig, 3)
            assert mode(rig, 3) == "undo-switch"
            end(rig, 3, "UndoSwitch", "Undone")
            await following(rig, 4)

            assert (mode(rig, 4), rig.status()["switch"]["state"]) == ("", "Undone")

    async def test_lost_driver_is_followed_by_one_that_continues(self, rigs):
        """Its pod may be evicted at any step."""
        async with rigs() as rig:
            await following(rig)
            rig.annotate(**{SWITCH_ANNOTATION: "friday"})
            await working(rig, 2)
            rig.kubelet.kill(rig.driver(attempt=2), pod_reason="Evicted")
            await working(rig, 3)

            assert mode(rig, 3) == "switch"
            assert rig.status()["switch"]["state"] == "Running"

    async def test_refused_one_is_a_condition_and_the_job_goes_on(self, rigs):
        """The reason and the remedy are those of the driver."""
        async with rigs() as rig:
            await following(rig)
            rig.annotate(**{SWITCH_ANNOTATION: "friday"})
            await working(rig, 2)
            end(rig, 2, "Switch", "Following", code=34, reason="SwitchBlocked", message="too late.", hint="Try.")
            await following(rig, 3)

            assert mode(rig, 3) == ""
            assert (shown(rig, "Switched")["reason"], shown(rig, "Switched")["message"]) == (
                "SwitchBlocked",
                "too late. Try.",
            )
            assert rig.status()["failures"] == 0

    async def test_equal_receipt_requests_it(self, rigs):
        """`switch.when: WhenVerified` needs no user who watches: the operator requests the receipt, too."""
        async with rigs() as rig:
            await following(rig, switch={"when": "WhenVerified"})
            await working(rig, 2)

            assert mode(rig, 2) == "switch"
            assert rig.status()["switch"]["automatic"]


class TestASourceThatFollows:
    """`keepSource: Following`: attempts copy back after the switch-over, until an undo or its end."""

    async def test_is_served_until_the_undo(self, rigs, tmp_path):
        """A lost driver and a restart of the operator lose nothing; the undo waits until the copy back has stopped."""
        async with rigs() as rig:
            await following(rig, strategy={"type": "Replica"}, switch={"keepSource": "Following"})
            rig.annotate(**{SWITCH_ANNOTATION: "friday"})
            await working(rig, 2)
            end(rig, 2, "Switch", "Switched", copies_back=True)
            await working(rig, 3)
            assert mode(rig, 3) == "follow-back"
            await rig.until(lambda: shown(rig, "Ready").get("reason") == "CopyingBack")
            switch = rig.status()["switch"]
            assert (switch["state"], switch["place"], switch["copyBack"]) == ("Switched", "Target", "Running")
            rig.restart()
            rig.kubelet.kill(rig.driver(attempt=3), pod_reason="Evicted")
            await working(rig, 4)
            assert mode(rig, 4) == "follow-back"
            await rig.until(lambda: shown(rig, "Ready").get("reason") == "CopyingBack")

            undo = Plugin(rig, tmp_path).start("switch", "orders", "--undo")
            await working(rig, 5)
            assert mode(rig, 5) == "undo-switch"
            assert rig.driver(attempt=4) not in rig.kubelet.running
            end(rig, 5, "UndoSwitch", "Undone")
            await following(rig, 6)

            assert (await undo).exit_code == 0
            assert (mode(rig, 6), rig.status()["switch"].get("copyBack", "")) == ("", "")

    async def test_that_cannot_follow_any_more_leaves_the_job_complete(self, rigs):
        """The target is in use, and the reason is in the condition and in an event."""
        async with rigs() as rig:
            await following(rig, strategy={"type": "Replica"}, switch={"keepSource": "Following"})
            rig.annotate(**{SWITCH_ANNOTATION: "friday"})
            await working(rig, 2)
            end(rig, 2, "Switch", "Switched", copies_back=True)
            await working(rig, 3)
            ending = Ending(outcome="Failed", reason="ReverseEnded", message="the columns differ.")
            rig.kubelet.finish(rig.driver(attempt=3), exit_code=59, ending=ending)
            await rig.until_phase("Succeeded")

            assert rig.status()["switch"]["copyBack"] == "Ended"
            assert (shown(rig, "Switched")["status"], shown(rig, "Switched")["reason"]) == ("True", "ReverseEnded")


class TestARequestedRepair:
    """The annotation requests it, and the job goes on after it."""

    async def test_is_performed_once(self, rigs):
        """Its numbers are in the status."""
        async with rigs() as rig:
            await following(rig)
            rig.annotate(**{VERIFY_ANNOTATION: "now"})
            await rig.until(lambda: "receipt" in rig.status())
            rig.annotate(**{REPAIR_ANNOTATION: "friday"})
            await working(rig, 2)
            assert mode(rig, 2) == "repair"
            detail = ProcedureEnd(kind="Repair", end="Repaired", version=9, rows_deleted=2)
            end(rig, 2, "Repair", "Repaired", outcome="Stopped", procedure=detail)
            await following(rig, 3)

            repair = rig.status()["repair"]
            assert (repair["state"], repair["version"], repair["rowsDeleted"]) == ("Repaired", 9, 2)
            assert (mode(rig, 3), shown(rig, "Repaired")["status"]) == ("", "True")


class TestTheCommands:
    """`kubectl backfill switch` and `repair` wait for the end."""

    async def test_switch_reports_its_result(self, rigs, tmp_path):
        """And the exit code of a refused one is not 0."""
        async with rigs() as rig:
            await following(rig)
            kubectl = Plugin(rig, tmp_path)
            command = kubectl.start("switch", "orders")
            await working(rig, 2)
            end(rig, 2, "Switch", "Switched")
            done = await command
            again = await kubectl("switch", "orders")

            assert (done.exit_code, again.exit_code) == (0, 5)
            assert "switched: readers and writers use the target, the source stands still at version 412" in done.stdout
            assert "writers were refused for 2.4 s" in done.stdout
            assert "SwitchBlocked: readers and writers use the target already" in again.stderr
