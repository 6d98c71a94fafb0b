"""A complete Backfill that continues: by a refresh, requested or at the times of a schedule, or by `after: Follow`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, after, checked, ended, observed, pod, running, spec
from support.operators.switched_world import over as end_of_procedure

from backfill_api.names import REFRESH_ANNOTATION, REPAIR_ANNOTATION
from backfill_api.spec.change_claim import PauseAll
from backfill_api.status.ending import Ending
from backfill_api.status.procedure import SwitchRun
from backfill_api.status.receipt import ReceiptSummary
from backfill_api.status.status import RefreshRun, RefreshTimes
from backfill_api.timestamps import rfc3339
from backfill_core.lifecycle.actions import Decision, LaunchDriver
from backfill_core.lifecycle.observation import Observation, SpecRefused

ASKED = {REFRESH_ANNOTATION: "monday"}


def complete(**observation: Any) -> Observation:
    """Return a complete Backfill, with these fields of its observation."""
    before = observed(status=STATUSES["complete"])
    return replace(after(before, checked(before)), live=True, **observation)


def launches(decision: Decision) -> list[tuple[int, bool]]:
    """Return the launched attempts: number, and whether the driver continues an ended job."""
    return [(action.attempt, action.refresh) for action in decision.actions if isinstance(action, LaunchDriver)]


def over(wish: Observation, code: int, ending: Ending | None = None) -> Decision:
    """Return the decision about the end of the attempt that a decision launched."""
    begun = checked(wish)
    attempt = begun.status.attempt
    assert attempt is not None
    past = replace(ended(code), name=attempt.pod_name or "", attempt=attempt.number, ending=ending)
    seen = checked(after(wish, begun, pods=(replace(pod(), name=past.name, attempt=past.attempt),), report=None))
    return checked(after(wish, seen, pods=(past,), report=None, live=True))


class TestARequestedRefresh:
    """Each new value of the annotation is one refresh."""

    def test_a_refresh_launches_an_attempt_that_continues_the_job(self) -> None:
        """The driver of an ordinary attempt would find its job complete."""
        wish = complete(annotations=ASKED)
        decision = checked(wish)

        assert launches(decision) == [(2, True)]
        assert decision.status.phase == "Launching"
        assert decision.status.refresh == RefreshRun(start="2027-01-15T08:00:00Z")
        assert decision.status.control is not None
        assert decision.status.control.refresh_token == "monday"

    def test_a_refresh_runs_once(self) -> None:
        """The annotation stays on the object."""
        wish = complete(annotations=ASKED)
        end = over(wish, 0)

        assert end.status.phase == "Succeeded"
        assert end.status.refresh is not None
        assert (end.status.refresh.reason, end.status.refresh.end) == ("Complete", "2027-01-15T08:00:00Z")
        assert launches(checked(after(wish, end, pods=(), report=None, live=True))) == []
        tuesday = after(wish, end, pods=(), report=None, live=True, annotations={REFRESH_ANNOTATION: "tuesday"})
        assert launches(checked(tuesday)) == [(3, True)]

    def test_a_refresh_with_nothing_new_is_recorded(self) -> None:
        """A user sees that it ran, although the target has no new version."""
        end = over(complete(annotations=ASKED), 0, Ending(outcome="Complete", reason="UpToDate"))

        assert end.status.phase == "Succeeded"
        assert end.status.refresh is not None
        assert end.status.refresh.reason == "UpToDate"
        assert end.status.history[-1].reason == "UpToDate"

    def test_a_lost_driver_of_a_refresh_is_followed_by_another_one(self) -> None:
        """The next attempt must not find the job complete before the later changes are in the target."""
        wish = complete(annotations=ASKED)
        lost = over(wish, 137)
        later = checked(after(wish, lost, pods=(), report=None, live=True), 1_800_000_600_000)

        assert lost.status.refresh is not None
        assert lost.status.refresh.end is None
        assert launches(later) == [(3, True)]

    def test_a_failed_refresh_is_tried_again_as_a_refresh(self) -> None:
        """Its remedy may be an edit or a restart, as of any failed job."""
        wish = complete(annotations=ASKED)
        failed = over(wish, 45)
        again = checked(after(wish, failed, pods=(), report=None, live=True, generation=2))

        assert failed.status.phase == "Failed"
        assert failed.status.refresh is not None
        assert failed.status.refresh.reason == "SchemaChanged"
        assert launches(again) == [(3, True)]

    def test_a_suspended_backfill_waits_with_its_refresh(self) -> None:
        """A suspension comes before every attempt."""
        wish = complete(annotations=ASKED, spec=spec(suspend=True), generation=2)
        waiting = checked(wish)
        resumed = checked(after(wish, waiting, spec=spec(), generation=3, live=True))

        assert (waiting.status.phase, launches(waiting)) == ("Suspended", [])
        assert launches(resumed) == [(2, True)]

    def test_a_refresh_that_is_requested_during_the_run_follows_its_end(self) -> None:
        """The request is not lost, and the running attempt is not disturbed."""
        wish = observed(status=STATUSES["running"], pods=(ended(0),), live=True, annotations=ASKED)
        end = checked(wish)
        later = checked(after(wish, end, pods=(), report=None, live=True))

        assert end.status.phase == "Succeeded"
        assert launches(later) == [(2, True)]

    @pytest.mark.parametrize("annotations", [{}, {REFRESH_ANNOTATION: ""}])
    def test_a_complete_backfill_stays_without_a_request(self, annotations: dict[str, str]) -> None:
        """An empty value is no request."""
        assert launches(checked(complete(annotations=annotations))) == []

    def test_a_strategy_that_ends_for_good_reports_the_request(self) -> None:
        """A request without an effect is visible in the condition."""
        wish = complete(annotations=ASKED, spec=spec(strategy={"type": "RearrangedChain"}), generation=2)
        decision = checked(wish)

        assert (decision.status.phase, launches(decision)) == ("Succeeded", [])
        message = next(condition.message for condition in decision.status.conditions if condition.type == "Complete")
        assert message.startswith("the annotation backfill.dev/refresh-requested has no effect")


class TestAJobThatFollowsAfterItsEnd:
    """`after: Follow` on a complete Backfill launches another attempt, which continues from the state in the target."""

    def test_a_complete_backfill_is_launched_again(self) -> None:
        """The edit was once ignored without an error."""
        complete = observed(status=STATUSES["complete"])
        edited = replace(after(complete, checked(complete)), spec=spec(after="Follow"), generation=2, live=True)
        decision = checked(edited)

        assert decision.status.phase == "Launching"
        assert [action.attempt for action in decision.actions if isinstance(action, LaunchDriver)] == [2]
        assert decision.status.completion_time is None

    def test_a_suspended_backfill_waits_before_it_follows(self) -> None:
        """A suspension comes before every attempt."""
        complete = observed(status=STATUSES["complete"])
        edited = replace(
            after(complete, checked(complete)), spec=spec(after="Follow", suspend=True), generation=2, live=True
        )
        decision = checked(edited)

        assert decision.status.phase == "Suspended"
        resumed = checked(replace(after(edited, decision), spec=spec(after="Follow"), generation=3, live=True))
        assert [action.attempt for action in resumed.actions if isinstance(action, LaunchDriver)] == [2]

    def test_an_edit_during_the_run_continues_the_job(self) -> None:
        """The driver had read the previous spec, so the job is not complete for the current one."""
        over = observed(status=STATUSES["running"], pods=(ended(0),), spec=spec(after="Follow"), live=True)
        decision = checked(over)
        later = checked(after(over, decision, pods=(), report=None, live=True))

        assert decision.status.phase == "Launching"
        assert not any(condition.type == "Complete" for condition in decision.status.conditions)
        assert [action.attempt for action in later.actions if isinstance(action, LaunchDriver)] == [2]


NIGHTLY = {"schedule": "0 2 * * *", "timeZone": "Europe/Berlin"}
DAY_MS = 86_400_000
NIGHT_1_MS = T0 + 17 * 3_600_000
"""The first time of the schedule: T0 is 09:00 in Berlin."""


def night(number: int) -> str:
    """Return the n-th time of the schedule, RFC 3339."""
    return rfc3339(NIGHT_1_MS + (number - 1) * DAY_MS)


def scheduled(**fields: Any) -> Observation:
    """Return a complete Backfill that has seen its schedule, with these fields of its spec."""
    wish = complete(spec=spec(refresh=NIGHTLY, **fields))
    return after(wish, checked(wish), live=True)


def times(decision: Decision) -> RefreshTimes:
    """Return the times in a status."""
    assert decision.status.refresh_times is not None
    return decision.status.refresh_times


def events(decision: Decision) -> list[str]:
    """Return the messages of events about a skipped refresh."""
    return [event.message for event in decision.events if event.reason == "RefreshSkipped"]


class TestASchedule:
    """A finished job runs again at the times of its schedule."""

    def test_next_time_is_shown_and_awaited(self) -> None:
        """The operator decides again at this time, and not before."""
        seen = scheduled()
        decision = checked(seen)

        assert times(decision) == RefreshTimes(of="0 2 * * * Europe/Berlin", next=night(1))
        assert decision.requeue_after_s == 17 * 3600
        assert launches(checked(seen, NIGHT_1_MS - 1)) == []

    def test_job_runs_again_at_its_time(self) -> None:
        """It is a refresh, as a requested one is."""
        decision = checked(scheduled(), NIGHT_1_MS)

        assert launches(decision) == [(2, True)]
        assert decision.status.refresh == RefreshRun(start=night(1))
        assert (times(decision).last, times(decision).next) == (night(1), night(2))

    def test_times_without_an_operator_start_one_refresh(self) -> None:
        """The operator was away for three days and an hour."""
        seen = scheduled()
        back_ms = NIGHT_1_MS + 3 * DAY_MS + 3_600_000
        decision = checked(seen, back_ms)
        done = over_at(seen, decision, back_ms + 60_000)

        assert launches(decision) == [(2, True)]
        assert (times(decision).last, times(decision).next) == (night(1), night(5))
        assert done.status.phase == "Succeeded"
        assert launches(checked(after(seen, done, live=True), back_ms + 120_000)) == []

    def test_time_during_a_refresh_is_skipped_with_its_reason(self) -> None:
        """The refresh that runs takes the later changes, too."""
        seen = scheduled()
        begun = checked(seen, NIGHT_1_MS)
        late = checked(after(seen, begun, live=True), NIGHT_1_MS + DAY_MS + 5_000)
        again = checked(after(seen, late, live=True), NIGHT_1_MS + DAY_MS + 6_000)

        assert (times(late).skipped, times(late).next, times(late).last) == (night(2), night(3), night(1))
        assert events(late) == [
            f"no refresh at {night(2)}: the one that began at {night(1)} has not ended; the next time is {night(3)}"
        ]
        assert events(again) == []

    def test_time_during_a_repair_starts_a_refresh_after_it(self) -> None:
        """A repair takes no changes of the source, and nothing else would tell that a night was left out."""
        seen = replace(scheduled(), annotations={REPAIR_ANNOTATION: "r"})
        receipt = ReceiptSummary(target_version=3, rows=100, verified_at="2027-01-15T07:59:00Z")
        seen = replace(seen, status=seen.status.model_copy(update={"receipt": receipt}))
        begun = checked(seen, NIGHT_1_MS - 60_000)
        late = checked(after(seen, begun, live=True), NIGHT_1_MS + 5_000)
        seen = after(seen, late, live=True)
        gone, done = end_of_procedure(seen, late, "Repaired", 0)
        again = checked(after(gone, done, pods=(), live=True), NIGHT_1_MS + 60_000)

        assert (times(late).next, times(late).skipped, events(late)) == (night(1), None, [])
        assert (late.requeue_after_s or 0) > 1
        assert launches(again) == [(3, True)]

    def test_failed_refresh_runs_again_at_the_next_time(self) -> None:
        """An outage of one night does not end a schedule. A first run that failed is for a person."""
        seen = scheduled()
        failed = over_at(seen, checked(seen, NIGHT_1_MS), NIGHT_1_MS + 60_000, code=45)
        later = checked(after(seen, failed, live=True), NIGHT_1_MS + DAY_MS)
        first = after(seen, checked(observed(status=STATUSES["failed"], spec=spec(refresh=NIGHTLY))), live=True)

        assert failed.status.phase == "Failed"
        assert launches(later) == [(3, True)]
        assert launches(checked(first, NIGHT_1_MS + DAY_MS)) == []
        assert checked(first).status.refresh_times is None

    @pytest.mark.parametrize(
        ("held", "why"), [({"suspend": True}, "Suspended"), ({"desiredState": "Paused"}, "Paused")]
    )
    def test_schedule_is_suspended_by_a_pause(self, held: dict[str, Any], why: str) -> None:
        """The job stays complete, no pod waits, and what was missed runs once after the pause."""
        seen = scheduled(**held)
        waits = checked(seen, NIGHT_1_MS + 2 * DAY_MS)
        resumed = after(seen, waits, spec=spec(refresh=NIGHTLY), generation=2, live=True)

        assert (waits.status.phase, launches(waits)) == ("Succeeded", [])
        assert (times(waits).waits, times(waits).next) == (why, night(1))
        assert waits.requeue_after_s is None
        assert launches(checked(resumed, NIGHT_1_MS + 2 * DAY_MS + 1)) == [(2, True)]

    def test_pause_of_all_jobs_holds_a_schedule(self) -> None:
        """The switch comes before each job."""
        seen = replace(scheduled(), pause_all=PauseAll(enabled=True))
        waits = checked(seen, NIGHT_1_MS)
        lifted = after(seen, waits, pause_all=PauseAll(enabled=False), live=True)

        assert (times(waits).waits, launches(waits)) == ("AllJobsPaused", [])
        assert launches(checked(lifted, NIGHT_1_MS + 60_000)) == [(2, True)]

    @pytest.mark.parametrize("place", ["Target", "Released"])
    def test_schedule_of_a_job_that_was_switched_over_starts_nothing(self, place: str) -> None:
        """Its target has other writers, and a driver would end with an error: a requested refresh has no effect either."""
        seen = scheduled()
        run = SwitchRun(goal="Switch", state="Switched", place=place, start=rfc3339(T0))
        decision = checked(replace(seen, status=seen.status.model_copy(update={"switch": run})), NIGHT_1_MS)

        assert launches(decision) == []
        assert (decision.status.phase, decision.status.refresh_times) == ("Succeeded", None)

    def test_edit_of_a_schedule_starts_nothing(self) -> None:
        """Times of the new schedule that passed before the edit do not count as missed."""
        seen = scheduled()
        earlier = after(seen, checked(seen), spec=spec(refresh={"schedule": "0 7 * * *"}), generation=2, live=True)
        decision = checked(earlier)
        removed = checked(after(earlier, decision, spec=spec(), generation=3, live=True))

        assert launches(decision) == []
        assert times(decision).next == "2027-01-16T07:00:00Z"
        assert removed.status.refresh_times is None

    def test_edited_status_does_not_move_a_schedule(self) -> None:
        """A user may write a next time that never comes, or that is no time."""
        for next_time in ("2999-01-01T00:00:00Z", "soon", None):
            seen = scheduled()
            edited = times(checked(seen)).model_copy(update={"next": next_time})
            status = seen.status.model_copy(update={"refresh_times": edited})

            assert times(checked(replace(seen, status=status))).next == night(1)

    def test_requested_refresh_fulfils_a_time_that_has_come(self) -> None:
        """Both are the same run."""
        seen = replace(scheduled(), annotations=ASKED)
        decision = checked(seen, NIGHT_1_MS)
        assert decision.status.control is not None

        assert launches(decision) == [(2, True)]
        assert decision.status.control.refresh_token == "monday"
        assert times(decision).last == night(1)
        # A later time must not forget the token, which would be a new request.
        done = over_at(seen, decision, NIGHT_1_MS + 60_000)
        second = over_at(seen, checked(after(seen, done, live=True), NIGHT_1_MS + DAY_MS), NIGHT_1_MS + DAY_MS + 60_000)
        assert launches(checked(after(seen, second, live=True), NIGHT_1_MS + DAY_MS + 120_000)) == []

    def test_first_run_is_not_disturbed(self) -> None:
        """A job that has never ended has no times."""
        seen = observed(status=STATUSES["running"], pods=(running(),), spec=spec(refresh=NIGHTLY))

        assert checked(seen, NIGHT_1_MS).status.refresh_times is None


def over_at(wish: Observation, begun: Decision, now_ms: int, code: int = 0) -> Decision:
    """Return the decision about the end of the attempt that a decision launched."""
    attempt = begun.status.attempt
    assert attempt is not None
    past = replace(ended(code), name=attempt.pod_name or "", attempt=attempt.number)
    seen = checked(
        after(wish, begun, pods=(replace(pod(), name=past.name, attempt=past.attempt),), report=None), now_ms
    )
    return checked(after(wish, seen, pods=(past,), report=None, live=True), now_ms)


class TestAnyTimesInAStatus:
    """Users edit statuses, and clocks jump."""

    @settings(max_examples=80)
    @given(
        st.sampled_from(["complete", "failed", "running", "new"]),
        st.sampled_from([None, "", "soon", "1970-01-01T00:00:00Z", night(1), night(3), "9999-12-31T23:59:59Z"]),
        st.sampled_from([("", ""), ("0 2 * * * Europe/Berlin", ""), ("0 2 * * * Europe/Berlin", "Paused")]),
        st.sampled_from([None, RefreshRun(start=night(1)), RefreshRun(start="x", end="y", reason="Complete")]),
        st.sampled_from([spec(refresh=NIGHTLY), SpecRefused(("spec.source: is required",))]),
        st.integers(-DAY_MS, 9 * DAY_MS),
    )
    def test_a_decision_follows_and_comes_to_rest(
        self, state: str, next_time: str | None, of: tuple[str, str], run: RefreshRun | None, given: Any, since_ms: int
    ) -> None:
        """Whatever the times are, an operator neither writes nor decides without a pause."""
        times = RefreshTimes.model_validate({"of": of[0], "next": next_time, "waits": of[1]})
        status = STATUSES[state].model_copy(update={"refresh_times": times, "refresh": run})
        seen, now_ms = observed(status=status, spec=given, live=True), T0 + since_ms
        for _ in range(6):
            decision = checked(seen, now_ms)
            if decision.status == seen.status and decision.events == ():
                assert decision.requeue_after_s is None or decision.requeue_after_s >= 1
                return
            seen = after(seen, decision, live=True)
        pytest.fail("the decisions do not come to rest")
