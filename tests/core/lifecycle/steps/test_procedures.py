"""Switch-overs of a Backfill: an attempt of its own performs each, and the job goes on after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.operators.observations import (
    T0,
    after,
    checked,
    conditions,
    reason,
    report,
    running,
    spec,
)
from support.operators.switched_world import (
    commands,
    follows,
    launches,
    over,
    stopped,
    switched,
)

from backfill_api.names import (
    CHANGED_BY_ANNOTATION,
    COMPLETE_SWITCH_ANNOTATION,
    REFRESH_ANNOTATION,
    RESTART_ANNOTATION,
    SWITCH_ANNOTATION,
    UNDO_SWITCH_ANNOTATION,
)
from backfill_core.lifecycle.actions import DeleteObject
from backfill_core.lifecycle.decide import decide
from backfill_core.lifecycle.resting import forgotten_ms


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

    def test_its_author_and_reason_are_in_the_status_and_in_an_event(self) -> None:
        """Also if it waits until the target has caught up; a claim counts once."""
        claim = '{"by":"anna","note":"move 4711"}'
        wish = follows(annotations={SWITCH_ANNOTATION: "a", CHANGED_BY_ANNOTATION: claim})
        behind = replace(wish, report=replace(report(caught_up=False), heard_ms=T0))
        waiting = checked(behind)
        ready = replace(after(behind, waiting), report=wish.report)

        for _, begun in (stopped(wish), stopped(ready)):
            assert begun.status.switch is not None
            assert (begun.status.switch.by, begun.status.switch.note) == ("anna", "move 4711")
        begins = checked(wish)
        assert [note.message for note in begins.events if note.reason == "SwitchRunning"] == [
            "Switch begins, requested by anna: move 4711"
        ]
        wish, begun = stopped(wish)
        gone, done = over(wish, begun, "Switched", 0)
        undo = replace(
            after(gone, done, pods=(), live=True), annotations=wish.annotations | {UNDO_SWITCH_ANNOTATION: "u"}
        )
        undone = checked(undo).status.switch
        assert undone is not None
        assert (undone.goal, undone.by, undone.note) == ("Undo", "", "")

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

    @pytest.mark.parametrize("limit", [{"backoffLimit": 0}, {"activeDeadlineSeconds": 600}])
    def test_one_of_a_job_that_failed_meanwhile_can_be_undone(self, limit: dict[str, Any]) -> None:
        """Its drivers died without a report, so the source may be read-only; only a restart would continue with the switch-over."""
        wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}, spec=spec(after="Follow", **limit)))
        gone, lost = over(wish, begun, None, 137)
        rests = after(gone, lost, pods=(), live=True)
        failed = checked(rests, T0 + 3_600_000)
        rests = after(rests, failed, pods=(), live=True)
        wish = replace(rests, annotations={SWITCH_ANNOTATION: "a", UNDO_SWITCH_ANNOTATION: "u"})
        undone = checked(wish, T0 + 3_600_000)
        other = checked(replace(rests, annotations={SWITCH_ANNOTATION: "b"}), T0 + 3_600_000)

        assert failed.status.phase == "Failed"
        assert launches(undone) == [(3, "UndoSwitch")]
        assert undone.status.switch is not None
        assert (undone.status.switch.goal, undone.status.switch.attempts) == ("Undo", 1)
        assert launches(other) == []

    def test_an_end_without_a_report_after_a_lost_driver_counts_as_interrupted(self) -> None:
        """The lost driver may have made the source read-only."""
        wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}))
        gone, lost = over(wish, begun, None, 137)
        again = checked(after(gone, lost, pods=(), live=True), T0 + 600_000)
        _, failed = over(after(gone, lost, pods=(), live=True), again, None, 27, reason="PermissionDenied")

        assert failed.status.switch is not None
        assert (failed.status.phase, failed.status.switch.place) == ("Failed", "Between")

    def test_a_suspension_ends_its_attempt_and_the_next_one_begins_again(self) -> None:
        """A user may suspend at any time; before the flip the driver gives up, so its deletion needs no other driver."""
        wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}))
        gone, halted = over(wish, begun, "Following", 10, reason="Stopped")
        rests = after(gone, halted, pods=(), live=True)
        again = checked(rests, T0 + 600_000)
        deleted = checked(replace(rests, deletion_ms=T0, finalizers=("backfill.dev/drain",)), T0 + 600_000)

        assert launches(again) == [(3, "Switch")]
        assert launches(deleted) == []

    @pytest.mark.parametrize(("code", "waits"), [(137, False), (10, True)])
    def test_a_lost_driver_does_not_wait_in_the_line_for_the_next_one(self, code: int, waits: bool) -> None:
        """The source may be read-only: other jobs would get its slot, and writers would be refused for hours."""
        wish, begun = stopped(follows(annotations={SWITCH_ANNOTATION: "a"}))
        gone, lost = over(wish, begun, "Following" if code == 10 else None, code)
        full = after(gone, lost, pods=(), live=True, no_room="the operator's limit of 1 running driver is reached")

        assert launches(checked(full, T0 + 600_000)) == ([] if waits else [(3, "Switch")])

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

    @pytest.mark.parametrize(
        ("state", "place", "policy", "deleted"),
        [
            ("Switched", "Target", "Retain", False),
            ("Interrupted", "Between", "Release", False),
            ("Switched", "Target", "Release", True),
            ("Completed", "Released", "Retain", True),
        ],
    )
    def test_its_time_to_live_does_not_delete_the_only_record_of_a_fence(
        self, state: str, place: str, policy: str, deleted: bool
    ) -> None:
        """The source would stay read-only, without an object that undoes or completes it; `Release` completes it."""
        rests, done = switched()
        assert done.status.switch is not None
        run = done.status.switch.model_copy(update={"state": state, "place": place})
        over = replace(
            rests,
            spec=spec(after="Follow", ttlSecondsAfterFinished=60, deletionPolicy=policy),
            status=done.status.model_copy(update={"switch": run}),
        )
        decision = decide(over, T0 + 3_600_000)
        due_ms = forgotten_ms(over.status, 60)

        assert (DeleteObject() in decision.actions) is deleted
        assert due_ms is not None or place != "Released"
        assert due_ms is None or place not in ("Between", "Target")

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

    @pytest.mark.parametrize(
        ("annotation", "has_state", "state", "place", "follows_again"),
        [
            (UNDO_SWITCH_ANNOTATION, True, "Undone", "Source", True),
            (UNDO_SWITCH_ANNOTATION, False, "Refused", "Released", False),
            (UNDO_SWITCH_ANNOTATION, None, "Refused", "Target", False),
            (COMPLETE_SWITCH_ANNOTATION, True, "Refused", "Source", True),
            (COMPLETE_SWITCH_ANNOTATION, False, "Completed", "Released", False),
            (COMPLETE_SWITCH_ANNOTATION, None, "Completed", "Released", False),
        ],
    )
    def test_an_end_by_a_command_on_a_machine_is_found(
        self, annotation: str, has_state: bool | None, state: str, place: str, follows_again: bool
    ) -> None:
        """The job's state is in the target exactly if the source is in use; a driver of an earlier version does not report it."""
        rests, _ = switched()
        wish = replace(rests, annotations={SWITCH_ANNOTATION: "a", annotation: "u"})
        gone, found = over(
            wish, checked(wish), "Nothing", 34, reason="SwitchBlocked", message="nothing.", has_state=has_state
        )
        again = checked(after(gone, found, pods=(), live=True))

        assert found.status.switch is not None
        assert (found.status.switch.state, found.status.switch.place) == (state, place)
        assert [procedure for _, procedure in launches(again)] == ([None] if follows_again else [])

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
        """There is no undo any more, and the source accepts writes."""
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
