"""Switch-overs and repairs of a Backfill: an attempt of its own performs each, and the job goes on after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import (
    T0,
    after,
    checked,
    conditions,
    ended,
    observed,
    reason,
    report,
    running,
    spec,
)

from backfill_api.names import (
    COMPLETE_SWITCH_ANNOTATION,
    REFRESH_ANNOTATION,
    REPAIR_ANNOTATION,
    RESTART_ANNOTATION,
    SWITCH_ANNOTATION,
    UNDO_SWITCH_ANNOTATION,
)
from backfill_api.status.ending import Ending
from backfill_api.status.procedure import ProcedureEnd
from backfill_api.status.receipt import ReceiptSummary
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.actions import Decision, LaunchDriver, SendCommand
from backfill_core.lifecycle.observation import Observation

FOLLOWS = spec(after="Follow")
EQUAL = ReceiptSummary(target_version=3, rows=100, verified_at="2027-01-15T07:59:00Z")
DIFFERS = EQUAL.model_copy(update={"mismatches": 2})


def follows(**fields: Any) -> Observation:
    """Return a Backfill whose driver has caught up."""
    number = fields.pop("attempt", 1)
    given: dict[str, Any] = {
        "spec": FOLLOWS,
        "status": STATUSES["running"].model_copy(update={"receipt": EQUAL}),
        "pods": (running(number),),
        "report": replace(report(number, caught_up=True), heard_ms=T0),
    }
    return observed(**(given | fields))


def launches(decision: Decision) -> list[tuple[int, str | None]]:
    """Return the launched attempts: number and procedure."""
    return [(action.attempt, action.procedure) for action in decision.actions if isinstance(action, LaunchDriver)]


def commands(decision: Decision) -> list[str]:
    """Return the types of the commands that are sent."""
    return [action.request.command.type for action in decision.actions if isinstance(action, SendCommand)]


def stopped(wish: Observation) -> tuple[Observation, Decision]:
    """Return the Backfill after its driver has stopped for a procedure, and the decision that launches the procedure."""
    asked = checked(wish)
    assert commands(asked) == ["Stop"]
    number = asked.status.attempts
    end = checked(after(wish, asked, pods=(ended(10, number),), report=None))
    at_rest = after(wish, end, pods=(), report=None, live=True)
    return at_rest, checked(at_rest)


def over(wish: Observation, begun: Decision, end: str | None, code: int, **fields: Any) -> tuple[Observation, Decision]:
    """Return the Backfill after the end of a procedure's attempt, and the decision about it."""
    attempt = begun.status.attempt
    assert attempt is not None
    kind = attempt.procedure
    assert kind is not None
    up = replace(running(attempt.number), ready=False)
    works = replace(report(attempt.number, table_version=None, reason="Draining"), heard_ms=T0)
    seen = checked(after(wish, begun, pods=(up,), report=works))
    detail = None if end is None else ProcedureEnd(kind=kind, end=end, version=412, unavailable_ms=2400)
    outcome = fields.pop("outcome", "Complete" if code == 0 else "Stopped" if code == 10 else "Failed")
    ending = None if code == 137 else Ending(outcome=outcome, procedure=detail, **fields)
    past = replace(ended(code, attempt.number), ending=ending)
    gone = after(wish, seen, pods=(past,), report=None, live=True)
    return gone, checked(gone)


def switched() -> tuple[Observation, Decision]:
    """Return a Backfill whose switch-over has succeeded."""
    wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}))
    gone, done = over(wish, begun, "Switched", 0)
    return after(gone, done, pods=(), live=True), done


class TestARequestedSwitchOver:
    """Each new value of the annotation is one switch-over."""

    def test_an_attempt_of_its_own_performs_it_and_the_job_is_complete(self) -> None:
        """The driver of the job stops at a barrier first; afterwards the job has nothing to follow."""
        wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}))
        assert launches(begun) == [(2, "Switch")]
        assert begun.status.switch is not None
        assert (begun.status.switch.state, begun.status.switch.place) == ("Running", "Source")

        gone, done = over(wish, begun, "Switched", 0)
        later = checked(after(gone, done, pods=(), live=True), T0 + 10**9)

        run = done.status.switch
        assert run is not None
        assert (run.state, run.place, run.version, run.unavailable_ms) == ("Switched", "Target", 412, 2400)
        assert (done.status.phase, conditions(done.status)["Switched"]) == ("Succeeded", "True")
        assert done.status.history[-1].reason == "Switched"
        assert launches(later) == []
        assert [note.reason for note in done.events if note.reason.startswith("Switch")] == ["SwitchSwitched"]

    def test_it_waits_until_the_target_has_caught_up(self) -> None:
        """Writers are refused only for the last changes."""
        behind = replace(report(caught_up=False), heard_ms=T0)
        wish = follows(annotations={SWITCH_ANNOTATION: "a"}, report=behind)
        decision = checked(wish)
        far = checked(replace(wish, report=replace(report(caught_up=True, lag_seconds=31), heard_ms=T0)))

        assert commands(decision) == commands(far) == []
        assert reason(decision.status, "Switched") == "WaitingForCatchUp"
        assert decision.status.control is None or decision.status.control.switch_token == ""

    def test_the_step_of_its_driver_is_in_the_status(self) -> None:
        """A user sees what writers wait for; the progress of the job stays as it was."""
        wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}))
        works = replace(report(2, table_version=None, reason="Draining"), heard_ms=T0)
        decision = checked(after(wish, begun, pods=(replace(running(2), ready=False),), report=works))

        assert decision.status.switch is not None
        assert decision.status.switch.step == "Draining"
        assert (reason(decision.status), conditions(decision.status)["Switched"]) == ("Switching", "False")
        assert commands(decision) == []

    @pytest.mark.parametrize("code", [137, 61])
    def test_a_lost_driver_is_followed_by_one_that_continues(self, code: int) -> None:
        """The state of a switch-over is in the source's log; an ordinary attempt might copy everything again."""
        wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}))
        gone, lost = over(wish, begun, None if code == 137 else "Interrupted", code)
        again = checked(after(gone, lost, pods=(), live=True), T0 + 600_000)

        assert lost.status.switch is not None
        assert lost.status.switch.state == "Running"
        assert launches(again) == [(3, "Switch")]

    def test_a_switch_over_that_gave_up_is_no_failure_and_the_job_goes_on(self) -> None:
        """The source accepts writes again, so the job follows them; the remedy is in the condition."""
        wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}))
        gone, refused = over(wish, begun, "Following", 34, reason="SwitchBlocked", message="too late.", hint="Try.")
        again = checked(after(gone, refused, pods=(), live=True))

        shown = next(condition for condition in refused.status.conditions if condition.type == "Switched")
        assert (shown.status, shown.reason, shown.message) == ("False", "SwitchBlocked", "too late. Try.")
        assert refused.status.failures == 0
        assert launches(again) == [(3, None)]
        assert again.status.switch is not None
        assert again.status.switch.state == "Refused"

    def test_an_interrupted_one_fails_the_job_until_a_user_acts(self) -> None:
        """The name points to the source, which is read-only: no attempt may follow, and an undo or a restart continues."""
        wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}))
        gone, broken = over(wish, begun, "Interrupted", 35, reason="FlipFailed", message="no right.")
        rests = after(gone, broken, pods=(), live=True)
        restarted = checked(replace(rests, annotations={SWITCH_ANNOTATION: "a", RESTART_ANNOTATION: "r"}))
        undone = checked(replace(rests, annotations={SWITCH_ANNOTATION: "a", UNDO_SWITCH_ANNOTATION: "u"}))

        assert broken.status.switch is not None
        assert (broken.status.phase, reason(broken.status)) == ("Failed", "FlipFailed")
        assert (broken.status.switch.state, broken.status.switch.place) == ("Interrupted", "Between")
        assert launches(checked(rests)) == []
        assert launches(restarted) == [(3, "Switch")]
        assert launches(undone) == [(3, "UndoSwitch")]

    def test_an_end_without_a_report_after_a_lost_driver_counts_as_interrupted(self) -> None:
        """The lost driver may have made the source read-only."""
        wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}))
        gone, lost = over(wish, begun, None, 137)
        again = checked(after(gone, lost, pods=(), live=True), T0 + 600_000)
        _, failed = over(after(gone, lost, pods=(), live=True), again, None, 27, reason="PermissionDenied")

        assert failed.status.switch is not None
        assert (failed.status.phase, failed.status.switch.place) == ("Failed", "Between")

    def test_a_suspension_ends_its_attempt_and_the_next_one_begins_again(self) -> None:
        """A user may suspend at any time; before the flip the driver gives up."""
        wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}))
        gone, halted = over(wish, begun, "Following", 10, reason="Stopped")
        again = checked(after(gone, halted, pods=(), live=True), T0 + 600_000)

        assert launches(again) == [(3, "Switch")]

    @pytest.mark.parametrize(
        ("fields", "named"),
        [
            ({}, "spec.after"),
            (
                {"after": "Follow", "target": {"type": "Delta", "delta": {"path": "/b", "writeMode": "Changelog"}}},
                "writeMode",
            ),
            (
                {"after": "Follow", "switch": {"flip": {"type": "Command", "command": ["./flip.sh"]}}},
                "spec.switch.flip.type",
            ),
        ],
    )
    def test_one_that_the_spec_excludes_is_refused_without_an_attempt(self, fields: dict[str, Any], named: str) -> None:
        """The driver is not disturbed, and the refusal is given once."""
        wish = follows(annotations={SWITCH_ANNOTATION: "a"}, spec=spec(**fields))
        decision = checked(wish)
        again = checked(after(wish, decision))

        assert commands(decision) == []
        shown = next(condition for condition in decision.status.conditions if condition.type == "Switched")
        assert (shown.status, shown.reason) == ("False", "InvalidSpec")
        assert named in shown.message
        assert [note.kind for note in decision.events if note.reason == "SwitchRefused"] == ["Warning"]
        assert not [note for note in again.events if note.reason == "SwitchRefused"]


class TestAfterTheSwitchOver:
    """Readers and writers use the target: only an undo or the end of the switch-over has anything to do."""

    def test_nothing_else_starts_the_job_again(self) -> None:
        """An ordinary attempt would find a target without a state, and a source that stands still."""
        rests, _ = switched()
        asked = checked(replace(rests, annotations=rests.annotations and {REFRESH_ANNOTATION: "r"}))
        edited = checked(replace(rests, spec=spec(after="Follow", backoffLimit=9), generation=2))
        again = checked(replace(rests, annotations={SWITCH_ANNOTATION: "b"}))

        assert launches(asked) == launches(edited) == launches(again) == []
        assert edited.status.phase == "Succeeded"
        shown = next(condition for condition in again.status.conditions if condition.type == "Switched")
        assert (shown.status, shown.reason) == ("True", "SwitchBlocked")

    def test_an_undo_returns_the_job_to_its_source(self) -> None:
        """The next ordinary attempt follows the source as before."""
        rests, _ = switched()
        wish = replace(rests, annotations={SWITCH_ANNOTATION: "a", UNDO_SWITCH_ANNOTATION: "u"})
        begun = checked(wish)
        gone, undone = over(wish, begun, "Undone", 0)
        again = checked(after(gone, undone, pods=(), live=True))

        assert launches(begun) == [(3, "UndoSwitch")]
        assert undone.status.switch is not None
        assert (undone.status.switch.state, undone.status.switch.place) == ("Undone", "Source")
        assert launches(again) == [(4, None)]

    def test_a_refused_undo_leaves_the_target_in_use(self) -> None:
        """Others wrote to the target, so the source lacks these rows."""
        rests, _ = switched()
        wish = replace(rests, annotations={SWITCH_ANNOTATION: "a", UNDO_SWITCH_ANNOTATION: "u"})
        gone, refused = over(wish, checked(wish), "Refused", 34, reason="SwitchBlocked", message="others wrote.")
        later = checked(after(gone, refused, pods=(), live=True))

        assert refused.status.switch is not None
        assert (refused.status.switch.state, refused.status.switch.place) == ("Refused", "Target")
        assert (later.status.phase, launches(later)) == ("Succeeded", [])

    def test_an_undo_whose_report_was_lost_is_found_done(self) -> None:
        """The next attempt finds nothing to undo, and the job must follow its source."""
        rests, _ = switched()
        wish = replace(rests, annotations={SWITCH_ANNOTATION: "a", UNDO_SWITCH_ANNOTATION: "u"})
        gone, lost = over(wish, checked(wish), None, 137)
        wish = after(gone, lost, pods=(), live=True)
        begun = checked(wish, T0 + 600_000)
        gone, undone = over(wish, begun, "Nothing", 34, reason="SwitchBlocked", message="nothing.")
        again = checked(after(gone, undone, pods=(), live=True))

        assert undone.status.switch is not None
        assert (undone.status.switch.state, undone.status.switch.place) == ("Undone", "Source")
        assert launches(again)[0][1] is None

    def test_an_unfinished_undo_stays_the_goal(self) -> None:
        """Another goal is refused by the log of the source, so it must not replace the one that can go on."""
        rests, _ = switched()
        wish = replace(rests, annotations={SWITCH_ANNOTATION: "a", UNDO_SWITCH_ANNOTATION: "u"})
        gone, broken = over(wish, checked(wish), "Interrupted", 35, reason="FlipFailed", message="no right.")
        wish = after(gone, broken, pods=(), live=True, annotations={SWITCH_ANNOTATION: "b"})
        other = checked(wish)
        restarted = checked(after(wish, other, annotations={RESTART_ANNOTATION: "r"}, live=True))

        assert launches(other) == []
        assert other.status.switch is not None
        assert (other.status.switch.goal, other.status.switch.place) == ("Undo", "Between")
        assert [procedure for _, procedure in launches(restarted)] == ["UndoSwitch"]

    def test_a_completed_one_ends_the_job(self) -> None:
        """There is no undo any more; the source is nobody's."""
        rests, _ = switched()
        wish = replace(rests, annotations={SWITCH_ANNOTATION: "a", COMPLETE_SWITCH_ANNOTATION: "c"})
        begun = checked(wish)
        _, done = over(wish, begun, "Completed", 0)

        assert launches(begun) == [(3, "CompleteSwitch")]
        assert (done.status.phase, reason(done.status, "Switched")) == ("Succeeded", "Completed")

    def test_an_undo_without_a_switch_over_is_refused_while_the_job_runs(self) -> None:
        """The driver of the job is not disturbed."""
        decision = checked(follows(annotations={UNDO_SWITCH_ANNOTATION: "u"}))

        assert commands(decision) == []
        assert reason(decision.status, "Switched") == "SwitchBlocked"


class TestWhenVerified:
    """`switch.when: WhenVerified` requests the switch-over once the target is equal."""

    AUTOMATIC = spec(after="Follow", switch={"when": "WhenVerified"})

    def with_receipt(self, receipt: ReceiptSummary | None, **fields: Any) -> Observation:
        """Return a Backfill that follows, with this receipt."""
        status = STATUSES["running"].model_copy(update={"receipt": receipt, **fields})
        return follows(spec=self.AUTOMATIC, status=status)

    def test_an_equal_receipt_begins_it(self) -> None:
        """Nobody must be awake."""
        _, begun = stopped(self.with_receipt(EQUAL))

        assert launches(begun) == [(2, "Switch")]
        assert begun.status.switch is not None
        assert begun.status.switch.automatic

    @pytest.mark.parametrize("receipt", [None, EQUAL.model_copy(update={"complete": False})])
    def test_a_receipt_of_everything_is_requested_once(self, receipt: ReceiptSummary | None) -> None:
        """A job that follows takes none by itself."""
        wish = self.with_receipt(receipt)
        asked = checked(wish)
        behind = checked(replace(wish, report=replace(report(caught_up=False), heard_ms=T0)))
        again = checked(after(wish, asked))

        assert commands(asked) == ["Verify"]
        assert commands(behind) == []
        assert asked.status.control is not None
        assert again.status.control is not None
        assert again.status.control.desired_revision == asked.status.control.desired_revision

    def test_a_difference_begins_nothing(self) -> None:
        """It must be repaired first."""
        assert commands(checked(self.with_receipt(DIFFERS))) == []

    def test_a_refused_one_needs_a_newer_receipt(self) -> None:
        """Each try refuses writes for a while, so it is not repeated without a reason."""
        wish, begun = stopped(self.with_receipt(EQUAL))
        gone, refused = over(wish, begun, "Following", 48, reason="VerificationFailed", message="differ.")
        again = checked(after(gone, refused, pods=(), live=True))
        number = again.status.attempts
        report_ = replace(report(number, caught_up=True), heard_ms=T0)
        follows_again = after(gone, again, pods=(running(number),), report=report_)
        quiet = checked(follows_again)
        newer = EQUAL.model_copy(update={"verified_at": "2027-01-15T09:00:00Z"})
        tried = checked(replace(follows_again, status=again.status.model_copy(update={"receipt": newer})))

        assert commands(quiet) == []
        assert commands(tried) == ["Stop"]

    def test_after_an_undo_it_begins_no_more(self) -> None:
        """A user went back on purpose."""
        rests, _ = switched()
        wish = replace(rests, spec=self.AUTOMATIC, annotations={SWITCH_ANNOTATION: "a", UNDO_SWITCH_ANNOTATION: "u"})
        gone, undone = over(wish, checked(wish), "Undone", 0)
        again = checked(after(gone, undone, pods=(), live=True))
        number = again.status.attempts
        report_ = replace(report(number, caught_up=True), heard_ms=T0)
        newer = EQUAL.model_copy(update={"verified_at": "2027-01-16T09:00:00Z"})
        status = again.status.model_copy(update={"receipt": newer})

        assert commands(checked(replace(gone, status=status, pods=(running(number),), report=report_))) == []


class TestARequestedRepair:
    """Each new value of the annotation is one repair."""

    def test_the_job_goes_on_after_it(self) -> None:
        """The repair needs the target for itself."""
        wish, begun = stopped(follows(annotations={REPAIR_ANNOTATION: "a"}))
        gone, done = over(wish, begun, "Repaired", 0, outcome="Stopped", receipt=EQUAL)
        again = checked(after(gone, done, pods=(), live=True))

        assert launches(begun) == [(2, "Repair")]
        assert done.status.repair is not None
        assert (done.status.repair.state, done.status.repair.version) == ("Repaired", 412)
        assert conditions(again.status)["Repaired"] == "True"
        assert launches(again) == [(3, None)]

    def test_a_failed_verification_can_be_repaired(self) -> None:
        """That is what users repair most often."""
        failed = observed(status=STATUSES["failed"], annotations={REPAIR_ANNOTATION: "a"}, live=True)

        assert launches(checked(failed)) == [(2, "Repair")]

    def test_a_complete_job_stays_complete(self) -> None:
        """No further attempt is needed."""
        complete = observed(status=STATUSES["complete"], annotations={REPAIR_ANNOTATION: "a"}, live=True)
        begun = checked(complete)
        gone, done = over(complete, begun, "Equal", 0)

        assert launches(begun) == [(2, "Repair")]
        assert done.status.repair is not None
        assert (done.status.phase, done.status.repair.state) == ("Succeeded", "Equal")
        assert launches(checked(after(gone, done, pods=(), live=True))) == []

    def test_a_refused_one_is_no_failure_of_the_job(self) -> None:
        """The job copies and follows as before."""
        wish, begun = stopped(follows(annotations={REPAIR_ANNOTATION: "a"}))
        gone, refused = over(wish, begun, None, 36, reason="NotRepairable", message="a topic.")
        again = checked(after(gone, refused, pods=(), live=True))

        assert (reason(refused.status, "Repaired"), refused.status.failures) == ("NotRepairable", 0)
        assert launches(again) == [(3, None)]

    def test_without_a_receipt_it_is_refused_without_an_attempt(self) -> None:
        """Nothing states which version both sides should have."""
        decision = checked(follows(annotations={REPAIR_ANNOTATION: "a"}, status=STATUSES["running"]))

        assert (commands(decision), reason(decision.status, "Repaired")) == ([], "NotRepairable")


class TestTwoRequests:
    """Procedures are performed one after the other."""

    def test_the_second_one_begins_after_the_first(self) -> None:
        """No request is lost."""
        wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a", REPAIR_ANNOTATION: "b"}))
        gone, refused = over(wish, begun, "Following", 34, reason="SwitchBlocked", message="blocked.")
        again = checked(after(gone, refused, pods=(), live=True))
        number = again.status.attempts
        ready = replace(report(number, caught_up=True), heard_ms=T0)
        second = checked(after(gone, again, pods=(running(number),), report=ready))

        assert isinstance(second.status, BackfillStatus)
        assert commands(second) == ["Stop"]
        assert second.status.repair is not None
        assert second.status.repair.state == "Running"
