"""A source that follows the target after a switch-over: attempts copy back until an undo or the end of the switch-over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.operators.observations import (
    T0,
    after,
    checked,
    conditions,
    ended,
    reason,
    report,
    running,
)
from support.operators.switched_world import (
    COPIES_BACK,
    FOLLOWS,
    commands,
    copying_back,
    follows,
    launches,
    over,
    stopped,
)

from backfill_api.names import (
    COMPLETE_SWITCH_ANNOTATION,
    REPAIR_ANNOTATION,
    RESTART_ANNOTATION,
    SWITCH_ANNOTATION,
    UNDO_SWITCH_ANNOTATION,
)
from backfill_api.spec.change_claim import PauseAll
from backfill_api.status.ending import Ending
from backfill_api.status.status import PendingCommand
from backfill_api.wire import Command
from backfill_core.lifecycle.actions import Decision
from backfill_core.lifecycle.observation import LaunchFailed, Observation, SpecRefused

ASKED = {SWITCH_ANNOTATION: "a"}
UNDO = ASKED | {UNDO_SWITCH_ANNOTATION: "u"}
LATER = T0 + 600_000


def at_work(**fields: Any) -> Observation:
    """Return a Backfill whose driver copies back."""
    rests, begun = copying_back()
    works = replace(report(3, table_version=None, reason="copying back"), heard_ms=T0)
    return after(rests, begun, **({"pods": (replace(running(3), ready=False),), "report": works} | fields))


def copy_back(decision: Decision) -> str:
    """Return the state of the copy back."""
    assert decision.status.switch is not None
    return decision.status.switch.copy_back


class TestACopyBack:
    """No annotation requests it: the driver of the switch-over reports that its spec wants one."""

    def test_follows_a_switch_over_at_once_and_the_job_runs(self) -> None:
        """Readers and writers use the target, which the condition shows."""
        _, begun = copying_back()
        decision = checked(at_work())

        assert launches(begun) == [(3, "FollowBack")]
        assert (decision.status.phase, reason(decision.status, "Ready")) == ("Running", "CopyingBack")
        assert conditions(decision.status)["Switched"] == "True"
        assert decision.status.switch is not None
        assert (decision.status.switch.state, decision.status.switch.step) == ("Switched", "copying back")
        assert commands(decision) == []

    def test_ends_for_an_undo_which_copies_the_last_changes(self) -> None:
        """Afterwards the job follows its source as before."""
        wish, begun = stopped_copy(annotations=UNDO)
        assert launches(begun) == [(4, "UndoSwitch")]
        gone, undone = over(wish, begun, "Undone", 0)
        again = checked(after(gone, undone, pods=(), live=True))

        assert (copy_back(undone), launches(again)) == ("", [(5, None)])

    def test_ends_for_the_end_of_the_switch_over(self) -> None:
        """There is nothing to copy to any more."""
        wish, begun = stopped_copy(annotations=ASKED | {COMPLETE_SWITCH_ANNOTATION: "c"})
        gone, done = over(wish, begun, "Completed", 0)

        assert launches(begun) == [(4, "CompleteSwitch")]
        assert (copy_back(done), done.status.phase) == ("", "Succeeded")
        assert launches(checked(after(gone, done, pods=(), live=True), LATER)) == []

    def test_goes_on_after_a_refused_undo(self) -> None:
        """The target stays in use, and its later changes must reach the source."""
        wish, begun = stopped_copy(annotations=UNDO)
        gone, refused = over(wish, begun, "Refused", 34, reason="SwitchBlocked", message="a comparison differs.")
        again = checked(after(gone, refused, pods=(), live=True))

        assert (refused.status.phase, reason(refused.status, "Switched")) == ("Launching", "SwitchBlocked")
        assert (copy_back(again), launches(again)) == ("Running", [(5, "FollowBack")])

    def test_goes_on_after_an_undo_that_went_forward_again(self) -> None:
        """A write to the target came first."""
        wish, begun = stopped_copy(annotations=UNDO)
        gone, forward = over(wish, begun, "Switched", 34, reason="SwitchBlocked", message="others wrote.")
        again = checked(after(gone, forward, pods=(), live=True))

        assert forward.status.switch is not None
        assert (forward.status.switch.state, forward.status.switch.place) == ("Refused", "Target")
        assert launches(again) == [(5, "FollowBack")]

    def test_begins_after_an_undo_that_finished_a_killed_switch_over(self) -> None:
        """No driver of the switch-over reported that its spec wants a copy back; the one of the undo does."""
        wish, begun = stopped(follows(annotations=ASKED, spec=COPIES_BACK))
        gone, broken = over(wish, begun, "Interrupted", 35, reason="FlipFailed", message="no right.")
        wish = after(gone, broken, pods=(), live=True, annotations=UNDO)
        gone, forward = over(
            wish, checked(wish), "Switched", 34, reason="SwitchBlocked", message="others wrote.", copies_back=True
        )
        again = checked(after(gone, forward, pods=(), live=True))

        assert (copy_back(forward), launches(again)) == ("Running", [(4, "FollowBack")])

    def test_is_not_disturbed_by_another_request(self) -> None:
        """A repair would compare with a source that is no longer the original."""
        decision = checked(at_work(annotations=ASKED | {REPAIR_ANNOTATION: "r"}))

        assert (commands(decision), reason(decision.status, "Repaired")) == ([], "NotRepairable")

    @pytest.mark.parametrize("applied", [True, False])
    def test_leaves_a_requested_receipt_to_the_next_driver_of_the_job(self, applied: bool) -> None:
        """A procedure takes none, so the request would be sent to it every second, and shown as late for weeks."""
        rests, begun = copying_back()
        assert begun.status.control is not None
        command = PendingCommand(revision=7, command=Command(type="Verify"), time="2027-01-15T08:00:00Z")
        owes = {"verify_epoch": 5} if applied else {"pending": (command,)}
        owing = begun.status.model_copy(update={"control": begun.status.control.model_copy(update=owes)})
        works = replace(report(3, table_version=None, reason="copying back"), heard_ms=T0)
        seen = after(rests, begun, status=owing, pods=(replace(running(3), ready=False),), report=works)
        decision = checked(seen)
        later = checked(after(seen, decision), LATER)

        assert (commands(decision), commands(later)) == ([], [])
        assert reason(later.status, "ControlSynced") == "Acknowledged"
        wish, undo = stopped(after(seen, later, annotations=UNDO))
        gone, undone = over(wish, undo, "Undone", 0)
        again_at = after(gone, undone, pods=(), live=True)
        again = checked(again_at)
        ordinary = after(again_at, again, pods=(running(5),), report=replace(report(5), heard_ms=T0))
        assert commands(checked(ordinary)) == ["Verify"]

    def test_stops_for_a_suspension_and_goes_on_after_it(self) -> None:
        """Each commit has its position, so nothing is lost."""
        wish = at_work(spec=COPIES_BACK.model_copy(update={"suspend": True}), generation=2)
        asked = checked(wish)
        gone = after(wish, asked, pods=(ended(10, 3),), report=None)
        halted = checked(gone)
        rests = after(gone, halted, pods=(), live=True)
        again = checked(replace(rests, spec=COPIES_BACK, generation=3), LATER)

        assert (commands(asked), checked(rests).status.phase) == (["Stop"], "Suspended")
        assert launches(again) == [(4, "FollowBack")]


class TestAnUndoOfAnIdleCopyBack:
    """An undo or an end needs no attempt that copies back: it begins instead of the next one."""

    @pytest.mark.parametrize(
        ("annotation", "procedure"),
        [(UNDO_SWITCH_ANNOTATION, "UndoSwitch"), (COMPLETE_SWITCH_ANNOTATION, "CompleteSwitch")],
    )
    def test_begins_at_once_while_the_copy_back_backs_off(self, annotation: str, procedure: str) -> None:
        """The wait after failures is for the next attempt of the same kind."""
        wish = at_work()
        seen = checked(wish)
        lost = Ending(outcome="Failed", reason="Transient", message="no answer.")
        gone = after(wish, seen, pods=(replace(ended(61, 3), ending=lost),), report=None, live=True)
        waits = checked(gone)
        rests = after(gone, waits, pods=(), live=True)
        assert launches(checked(rests)) == []

        begun = checked(replace(rests, annotations=ASKED | {annotation: "u"}))

        assert launches(begun) == [(4, procedure)]

    def test_takes_the_place_of_an_attempt_that_waits_for_its_pod(self) -> None:
        """A quota or a refusal may keep the pod away for a long time, of which an undo would know nothing."""
        rests, begun = copying_back()
        full = LaunchFailed(3, T0, 403, "Forbidden", "exceeded quota: pods")
        waits = after(rests, begun, pods=(), launch_failed=full, live=True)
        assert launches(checked(waits)) == []
        withdrawn = checked(replace(waits, annotations=UNDO))

        assert withdrawn.status.failures == 0
        assert launches(checked(after(waits, withdrawn, annotations=UNDO, live=True))) == [(4, "UndoSwitch")]

    def test_begins_during_a_pause_of_the_job_and_waits_for_one_of_all_jobs(self) -> None:
        """A pause holds the copy; the user who undoes it asks for more. The pause of all jobs holds every launch."""
        held = at_work(spec=TestAPause.PAUSED, generation=2)
        asked = checked(held)
        stop = checked(after(held, asked, pods=(ended(10, 3),), report=None))
        rests = after(held, stop, pods=(), report=None, live=True, annotations=UNDO)

        assert launches(checked(rests)) == [(4, "UndoSwitch")]
        assert launches(checked(replace(rests, pause_all=TestAPause.ALL_JOBS))) == []
        assert launches(checked(replace(rests, spec=TestAPause.PAUSED.model_copy(update={"suspend": True})))) == []


class TestAPause:
    """The driver of a copy back takes no pause, so the operator stops it, and launches none until the pause ends."""

    PAUSED = COPIES_BACK.model_copy(update={"desired_state": "Paused"})
    ALL_JOBS = PauseAll(enabled=True, note="incident 4711", by="anna", time="2027-01-15T08:00:00Z")

    def test_stops_the_copy_is_in_force_and_ends(self) -> None:
        """Nothing writes to the source meanwhile, also after hours."""
        wish = at_work(spec=self.PAUSED, generation=2)
        asked, rests, halted = self._halted(wish)
        again = checked(replace(rests, spec=COPIES_BACK, generation=3), LATER)

        assert (asked.status.phase, commands(asked)) == ("Pausing", ["Stop"])
        assert (halted.status.phase, reason(halted.status), reason(halted.status, "Paused")) == (
            "Paused", "AsRequested", "AsRequested",
        )  # fmt: skip
        assert conditions(halted.status)["Ready"] == conditions(halted.status)["Paused"] == "True"
        assert (launches(halted), halted.status.failures, copy_back(halted)) == ([], 0, "Running")
        assert launches(again) == [(4, "FollowBack")]

    @pytest.mark.parametrize("readable", [True, False])
    def test_of_all_jobs_stops_it_too(self, readable: bool) -> None:
        """An administrator who pauses all jobs waits until none writes, also one whose spec is refused."""
        wish = at_work(pause_all=self.ALL_JOBS, spec=COPIES_BACK if readable else SpecRefused(("a key is missing",)))
        asked, rests, halted = self._halted(wish)

        assert (commands(asked), launches(halted)) == (["Stop"], [])
        if readable:
            resumed = checked(replace(rests, pause_all=PauseAll(enabled=False)), LATER)
            assert (halted.status.phase, reason(halted.status, "Paused")) == ("Paused", "AllJobsPaused")
            assert launches(resumed) == [(4, "FollowBack")]

    def test_withdraws_an_attempt_that_has_no_pod_yet(self) -> None:
        """Otherwise it would start, only to be stopped."""
        rests, begun = copying_back()
        held = after(rests, begun, pods=(), spec=self.PAUSED, generation=2, live=True)
        gone = checked(held)

        assert (launches(gone), gone.status.phase) == ([], "Paused")

    @staticmethod
    def _halted(wish: Observation) -> tuple[Decision, Observation, Decision]:
        """Return the decisions that stop the driver and that follow its end, with the observation of the second."""
        asked = checked(wish)
        stop = checked(after(wish, asked, pods=(ended(10, 3),), report=None))
        rests = after(wish, stop, pods=(), report=None, live=True)
        return asked, rests, checked(rests, LATER)


class TestItsEnd:
    """Only a source that cannot follow any more ends it for good; the job is then complete, and the target in use."""

    def test_by_name_leaves_the_target_in_use_and_is_an_event(self) -> None:
        """A new column of the target, for example; an undo explains itself."""
        wish = at_work()
        gone, done = self._over(wish, "Failed", 59, reason="ReverseEnded", message="the columns differ.")
        later = checked(after(gone, done, pods=(), live=True), LATER)

        assert (copy_back(done), done.status.phase, done.status.failures) == ("Ended", "Succeeded", 0)
        assert (conditions(done.status)["Switched"], reason(done.status, "Switched")) == ("True", "ReverseEnded")
        assert [note.kind for note in done.events if note.reason == "CopyBackEnded"] == ["Warning"]
        assert launches(later) == []
        assert launches(checked(replace(after(gone, done, pods=(), live=True), annotations=UNDO), LATER)) == [
            (4, "UndoSwitch")
        ]

    def test_by_another_command_is_told_by_the_condition_and_an_event(self) -> None:
        """Only the driver knows that another command undid the switch-over on a machine."""
        _, done = self._over(at_work(), "Complete", 0, reason="CopyBackEnded", message="another command came first.")

        assert (copy_back(done), done.status.phase) == ("Ended", "Succeeded")
        assert reason(done.status, "Switched") == "CopyBackEnded"
        assert [note.message for note in done.events if note.reason == "CopyBackEnded"] == [
            "another command came first."
        ]

    def test_by_a_completion_on_a_machine_is_recorded_by_the_same_request(self) -> None:
        """The source has no mark any more, so there is nothing to complete, and the status is right again."""
        gone, done = self._over(at_work(), "Complete", 0, reason="CopyBackEnded", message="another command came first.")
        wish = after(gone, done, pods=(), live=True, annotations=ASKED | {COMPLETE_SWITCH_ANNOTATION: "c"})
        begun = checked(wish)
        assert launches(begun) == [(4, "CompleteSwitch")]
        _, completed = over(wish, begun, "Nothing", 34, reason="SwitchBlocked", message="there is nothing to complete.")

        assert completed.status.switch is not None
        assert (completed.status.switch.state, completed.status.switch.place) == ("Completed", "Released")
        assert completed.status.phase == "Succeeded"

    def test_by_an_edit_of_keep_source_is_no_failure(self) -> None:
        """The driver would refuse the edited spec at its next start, maybe weeks later; an undo may still be possible."""
        fenced = COPIES_BACK.model_copy(update={"switch": FOLLOWS.switch})
        wish = at_work(spec=fenced, generation=2, live=True)
        asked = checked(wish)
        gone = after(wish, asked, pods=(ended(10, 3),), report=None, live=True)
        done = checked(gone)
        rests = after(gone, done, pods=(), live=True)

        assert (commands(asked), reason(asked.status)) == (["Stop"], "SpecChanged")
        assert (copy_back(done), done.status.phase, done.status.failures) == ("Ended", "Succeeded", 0)
        assert (conditions(done.status)["Switched"], reason(done.status, "Switched")) == ("True", "SpecChanged")
        assert launches(checked(rests, LATER)) == []
        assert launches(checked(replace(rests, annotations=UNDO), LATER)) == [(4, "UndoSwitch")]

    def test_by_an_edit_is_decided_before_the_next_launch(self) -> None:
        """An attempt without a pod is withdrawn, and none begins."""
        fenced = COPIES_BACK.model_copy(update={"switch": FOLLOWS.switch})
        rests, begun = copying_back()
        gone = checked(after(rests, begun, pods=(), spec=fenced, generation=2, live=True))

        assert (launches(gone), copy_back(gone), gone.status.phase) == ([], "Ended", "Succeeded")

    def test_by_a_lost_driver_is_none(self) -> None:
        """An ordinary attempt would copy into the table in use."""
        gone, lost = self._over(at_work(), "", 137)
        again = checked(after(gone, lost, pods=(), live=True), LATER)

        assert (copy_back(lost), launches(again)) == ("Running", [(4, "FollowBack")])

    def test_by_errors_that_may_pass_is_none_as_long_as_attempts_copy(self) -> None:
        """Only attempts in a row that copied nothing count against the limit, as for an ordinary driver."""
        waits, idle = at_work(), at_work()
        for _ in range(2):
            begun = checked(waits)
            copied = replace(report(3, table_version=None, reason="copying back", consumed_version=21), heard_ms=T0)
            waits = after(waits, begun, report=copied)
            idle = after(idle, checked(idle))
        waits, idle = (replace(seen, status=seen.status.model_copy(update={"failures": 6})) for seen in (waits, idle))
        _, progressed = self._over(waits, "Failed", 60, reason="Transient", message="no answer.")
        _, stuck = self._over(idle, "Failed", 60, reason="Transient", message="no answer.")

        assert (progressed.status.failures, progressed.status.phase) == (1, "Retrying")
        assert (stuck.status.failures, stuck.status.phase) == (7, "Failed")

    def test_by_another_error_fails_the_job_and_a_restart_or_an_undo_goes_on(self) -> None:
        """A right that is missing, for example: users can give it."""
        gone, broken = self._over(at_work(), "Failed", 35, reason="FlipFailed", message="no right.")
        rests = after(gone, broken, pods=(), live=True)
        restarted = checked(replace(rests, annotations=ASKED | {RESTART_ANNOTATION: "r"}), LATER)
        undone = checked(replace(rests, annotations=UNDO), LATER)

        assert (broken.status.phase, copy_back(broken)) == ("Failed", "Running")
        assert launches(checked(rests, LATER)) == []
        assert launches(restarted) == [(4, "FollowBack")]
        assert launches(undone) == [(4, "UndoSwitch")]

    def test_by_an_error_while_it_stops_for_an_undo_lets_the_undo_begin(self) -> None:
        """A driver that is asked to stop may fail in the same second."""
        gone, broken = self._over(at_work(annotations=UNDO), "Failed", 35, reason="FlipFailed", message="no right.")
        again = checked(after(gone, broken, pods=(), live=True))

        assert (broken.status.phase, broken.status.failures) == ("Launching", 0)
        assert (copy_back(broken), launches(again)) == ("Running", [(4, "UndoSwitch")])

    def test_by_name_while_it_stops_for_an_undo_is_shown_and_the_undo_begins(self) -> None:
        """The undo then explains why it is not possible."""
        gone, over_ = self._over(at_work(annotations=UNDO), "Failed", 59, reason="ReverseEnded", message="they differ.")
        again = checked(after(gone, over_, pods=(), live=True))

        assert (copy_back(over_), over_.status.phase) == ("Ended", "Launching")
        assert launches(again) == [(4, "UndoSwitch")]

    @staticmethod
    def _over(wish: Observation, outcome: str, code: int, **fields: Any) -> tuple[Observation, Decision]:
        seen = checked(wish)
        ending = None if code == 137 else Ending(outcome=outcome, **fields)
        gone = after(wish, seen, pods=(replace(ended(code, 3), ending=ending),), report=None, live=True)
        return gone, checked(gone)


def stopped_copy(**fields: Any) -> tuple[Observation, Decision]:
    """Return the Backfill after its copy back has stopped for a request, and the next decision."""
    return stopped(at_work(**fields))
