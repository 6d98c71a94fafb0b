"""A complete Backfill that continues: by a requested refresh, whose time the status shows, or by `after: Follow`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import after, checked, ended, observed, pod, spec

from backfill_api.names import REFRESH_ANNOTATION
from backfill_api.status.ending import Ending
from backfill_api.status.status import RefreshRun
from backfill_core.lifecycle.actions import Decision, LaunchDriver
from backfill_core.lifecycle.observation import Observation

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
