"""Reconcile times of a Backfill: at its own deadlines, and less and less often while no event ends a wait."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.lifecycle_space import SPECS, STATUSES
from support.operators.observations import T0, after, checked, conditions, observed, pod, spec

from backfill_api.names import DRAIN_FINALIZER
from backfill_api.status.status import BackfillStatus
from backfill_api.timestamps import ms_of
from backfill_core.lifecycle.actions import DeleteObject, LaunchDriver
from backfill_core.lifecycle.observation import LaunchFailed, Observation, SpecRefused
from backfill_core.lifecycle.resting import at_rest, forgotten_ms

MINUTE = 60_000


def with_edit(status: BackfillStatus, what: str) -> BackfillStatus:
    """Return a status in which a user changed a condition, the phase, or the generation of all conditions."""
    if what == "phase":
        return status.model_copy(update={"phase": "Running"})
    if what == "generation":
        older = tuple(
            condition.model_copy(update={"observed_generation": 0})
            for condition in status.conditions
            if condition.type == "Ready"
        )
        return status.model_copy(update={"conditions": (*status.conditions[1:], *older)})
    kept = tuple(condition for condition in status.conditions if condition.type != what)
    ready = next(condition for condition in status.conditions if condition.type == "Ready")
    if len(kept) == len(status.conditions):
        return status.model_copy(
            update={"conditions": (*kept, ready.model_copy(update={"type": what, "status": "True"}))}
        )
    return status.model_copy(update={"conditions": kept})


def facts(status: BackfillStatus) -> list[tuple[str, str, str, str]]:
    """Return the content of conditions without their bookkeeping fields."""
    return [(condition.type, condition.status, condition.reason, condition.message) for condition in status.conditions]


HOUR = 60 * MINUTE

SETTLED = {
    "complete": observed(status=STATUSES["complete"]),
    "failed": observed(status=STATUSES["failed"]),
    "suspended": observed(spec=spec(suspend=True)),
    "refused": observed(spec=SpecRefused(("spec.source: is required",)), status=STATUSES["planned"]),
}


def settled(observation: Observation, now_ms: int = T0) -> tuple[Observation, int]:
    """Decide until a decision changes nothing; return the resulting observation."""
    for _ in range(4):
        observation = after(observation, checked(observation, now_ms))
    return observation, now_ms


class TestWhatIsSettledSleeps:
    """Ten thousand settled objects must cost nothing: no timer wakes them."""

    @pytest.mark.parametrize("name", sorted(SETTLED))
    def test_a_settled_object_without_a_deadline_is_never_requeued(self, name: str) -> None:
        """A watch shows every edit, and no other event can change the decision."""
        observation, now_ms = settled(SETTLED[name])

        assert checked(observation, now_ms).requeue_after_s is None

    def test_a_settled_object_is_requeued_at_the_end_of_its_time_to_live(self) -> None:
        """The deadline causes the only reconcile, and then the object is deleted."""
        kept = replace(SETTLED["complete"], spec=spec(ttlSecondsAfterFinished=7200))
        observation, now_ms = settled(kept)

        first = checked(observation, now_ms).requeue_after_s
        assert first is not None
        assert first > 7000
        assert checked(observation, now_ms + round(first * 1000)).actions != ()

    def test_an_unscheduled_pod_is_not_polled(self) -> None:
        """A watch delivers the scheduler's decision; the operator requests nothing meanwhile."""
        starting = observed(
            status=STATUSES["starting"], spec=spec(startupTimeoutSeconds=3600), pods=(pod(unscheduled="0/3 nodes"),)
        )
        observation, now_ms = settled(replace(starting, finalizers=(DRAIN_FINALIZER,)))
        decision = checked(observation, now_ms)

        assert decision.actions == ()
        assert decision.requeue_after_s is None


class TestWhatNoWatchShows:
    """The operator checks a quota, a Role or a missed end soon at first, and later in proportion to the wait."""

    def test_a_refused_launch_is_retried_less_often_the_longer_it_lasts(self) -> None:
        """The delay is at most an eighth of the wait so far, and never shorter than the first delay."""
        refused = LaunchFailed(1, T0 + 2 * HOUR, 403, "", "exceeded quota: compute")
        late = observed(status=STATUSES["planned"], launch_failed=refused)

        decision = checked(late, T0 + 2 * HOUR)

        assert decision.requeue_after_s is not None
        assert 50 <= decision.requeue_after_s <= 100
        assert LaunchDriver(1, "Run") in checked(late, T0 + 2 * HOUR + 100_000).actions

    def test_a_refused_launch_is_not_decided_again_before_its_next_try(self) -> None:
        """A refusal with a retry in minutes is not checked every few seconds."""
        refused = LaunchFailed(1, T0 + 2 * HOUR, 422, "Invalid", "no")
        late = observed(status=STATUSES["planned"], launch_failed=refused)

        decision = checked(late, T0 + 2 * HOUR)

        assert decision.requeue_after_s is not None
        assert 300 <= decision.requeue_after_s <= 600
        again = checked(after(late, decision), T0 + 2 * HOUR + 60_000)
        assert again.requeue_after_s == decision.requeue_after_s - 60
        assert again.actions == ()

    def test_jobs_that_wait_for_a_driver_slot_are_checked_at_different_times(self) -> None:
        """A job that ends passes its slot on; thousands of waiting jobs are not checked at once or every minute."""
        waits = set()
        for number in range(20):
            full = observed(uid=f"uid-{number}", no_room="10 of 10 drivers run")
            full = after(full, checked(full))
            assert checked(full).requeue_after_s == 60
            later = checked(full, T0 + 10 * HOUR).requeue_after_s
            assert later is not None
            assert 900 <= later <= 1800
            waits.add(later)

        assert len(waits) > 15

    def test_a_deadline_takes_precedence_over_the_next_check(self) -> None:
        """A rare check must not delay a deadline."""
        limit_s = 100 * 3600
        full = observed(no_room="full", spec=spec(activeDeadlineSeconds=limit_s), status=STATUSES["failed once"])
        observation, _ = settled(full, T0 + 20 * HOUR)
        began_ms = ms_of(observation.status.start_time)
        assert began_ms is not None

        decision = checked(observation, began_ms + limit_s * 1000 - MINUTE)

        assert decision.requeue_after_s == 60


class TestWhatIsAtRestNeedsNoDecision:
    """The operator stores only a short record of a resting object and does not decide, so a decision must change
    nothing."""

    @pytest.mark.parametrize("spec_name", SPECS)
    @pytest.mark.parametrize("status", sorted(STATUSES))
    def test_a_resting_object_needs_no_decision_until_its_time_is_over(self, spec_name: str, status: str) -> None:
        """The rule holds for any spec, and every finished object comes to rest."""
        observation, now_ms = settled(observed(spec=SPECS[spec_name], status=STATUSES[status]))
        rests = at_rest(observation.status, generation=1)
        ttl_s = getattr(observation.spec, "ttl_seconds_after_finished", None)

        assert rests == (conditions(observation.status).get("Finished") == "True")
        assert rests or status not in ("complete", "failed")
        due_ms = forgotten_ms(observation.status, ttl_s)
        for at_ms in (now_ms, now_ms + 24 * HOUR) if rests else ():
            decision = checked(observation, at_ms)
            if due_ms is not None and due_ms <= at_ms:
                assert decision.actions == (DeleteObject(),)
            else:
                assert (decision.actions, decision.events, decision.status) == ((), (), observation.status)

    def test_the_time_to_live_is_exact_to_the_millisecond(self) -> None:
        """A late check would keep the object too long; an early check is repeated."""
        observation, _ = settled(replace(SETTLED["complete"], spec=spec(ttlSecondsAfterFinished=7200)))
        due_ms = forgotten_ms(observation.status, 7200)
        assert due_ms is not None

        assert checked(observation, due_ms - 1).requeue_after_s == 0.001
        assert checked(observation, due_ms).actions == (DeleteObject(),)

    @pytest.mark.parametrize("status", ["complete", "failed"])
    def test_an_edited_object_is_not_at_rest(self, status: str) -> None:
        """An edit restarts a failed job, and each status names its generation."""
        observation, _ = settled(observed(status=STATUSES[status]))

        assert at_rest(observation.status, generation=1)
        assert not at_rest(observation.status, generation=2)

    @pytest.mark.parametrize("status", ["complete", "failed"])
    @pytest.mark.parametrize("edited", ["Ready", "Finished", "Stalled", "Paused", "DriverReady", "phase", "generation"])
    def test_an_object_with_an_edited_status_is_not_at_rest(self, status: str, edited: str) -> None:
        """No operator may have seen the edit: the next operator decides again, and that restores the correct status."""
        observation, now_ms = settled(observed(status=STATUSES[status]))
        before = observation.status
        wrong = replace(observation, status=with_edit(before, edited))

        assert not at_rest(wrong.status, generation=1)
        right = checked(wrong, now_ms)
        assert at_rest(right.status, generation=1)
        assert facts(right.status) == facts(before)

    @pytest.mark.parametrize("state", ["Planned", "Created"])
    def test_an_object_with_a_running_attempt_is_never_at_rest(self, state: str) -> None:
        """The conditions do not matter: they are older than the pod."""
        observation, _ = settled(SETTLED["complete"])
        attempt = observation.status.attempt
        assert attempt is not None
        edited = observation.status.model_copy(update={"attempt": attempt.model_copy(update={"state": state})})

        assert not at_rest(edited, generation=1)
