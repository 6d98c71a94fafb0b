"""When a Backfill is looked at again: at its own deadlines, and ever more rarely where nothing shows that a wait is over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.lifecycle_space import SPECS, STATUSES
from support.operators.observations import T0, after, checked, conditions, observed, pod, spec

from backfill_api.names import DRAIN_FINALIZER
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.actions import DeleteObject, LaunchDriver
from backfill_core.lifecycle.inputs.timestamps import ms_of
from backfill_core.lifecycle.observation import LaunchFailed, Observation, SpecRefused
from backfill_core.lifecycle.resting import at_rest, forgotten_ms

MINUTE = 60_000


def with_edit(status: BackfillStatus, what: str) -> BackfillStatus:
    """Return a status in which a person changed a condition, the phase, or the generation of all conditions."""
    if what == "phase":
        return status.model_copy(update={"phase": "Running"})
    if what == "generation":
        older = tuple(
            one.model_copy(update={"observed_generation": 0}) for one in status.conditions if one.type == "Ready"
        )
        return status.model_copy(update={"conditions": (*status.conditions[1:], *older)})
    kept = tuple(one for one in status.conditions if one.type != what)
    ready = next(one for one in status.conditions if one.type == "Ready")
    if len(kept) == len(status.conditions):
        return status.model_copy(
            update={"conditions": (*kept, ready.model_copy(update={"type": what, "status": "True"}))}
        )
    return status.model_copy(update={"conditions": kept})


def facts(status: BackfillStatus) -> list[tuple[str, str, str, str]]:
    """Return what conditions say, without their bookkeeping."""
    return [(one.type, one.status, one.reason, one.message) for one in status.conditions]


HOUR = 60 * MINUTE

SETTLED = {
    "complete": observed(status=STATUSES["complete"]),
    "failed": observed(status=STATUSES["failed"]),
    "suspended": observed(spec=spec(suspend=True)),
    "refused": observed(spec=SpecRefused(("spec.source: is required",)), status=STATUSES["planned"]),
}


def settled(observation: Observation, now_ms: int = T0) -> tuple[Observation, int]:
    """Decide until a decision changes nothing any more; return what is then observed."""
    for _ in range(4):
        observation = after(observation, checked(observation, now_ms))
    return observation, now_ms


class TestWhatIsSettledSleeps:
    """Ten thousand of them must cost nothing: no timer wakes them."""

    @pytest.mark.parametrize("name", sorted(SETTLED))
    def test_for_ever_without_a_deadline(self, name: str) -> None:
        """A watch shows every edit, and nothing else can change what is decided."""
        observation, now_ms = settled(SETTLED[name])

        assert checked(observation, now_ms).requeue_after_s is None

    def test_until_its_time_to_live_is_over(self) -> None:
        """Its own next deadline is the only look, and then it goes."""
        kept = replace(SETTLED["complete"], spec=spec(ttlSecondsAfterFinished=7200))
        observation, now_ms = settled(kept)

        first = checked(observation, now_ms).requeue_after_s
        assert first is not None
        assert first > 7000
        assert checked(observation, now_ms + round(first * 1000)).actions != ()

    def test_while_no_node_takes_its_pod(self) -> None:
        """The scheduler's answer comes by a watch; nothing is asked for meanwhile."""
        starting = observed(
            status=STATUSES["starting"], spec=spec(startupTimeoutSeconds=3600), pods=(pod(unscheduled="0/3 nodes"),)
        )
        observation, now_ms = settled(replace(starting, finalizers=(DRAIN_FINALIZER,)))
        decision = checked(observation, now_ms)

        assert decision.actions == ()
        assert decision.requeue_after_s is None


class TestWhatNoWatchShows:
    """A quota, a Role, a missed end: looked for soon at first, and in proportion to the wait later."""

    def test_is_tried_more_rarely_the_longer_it_lasts(self) -> None:
        """Within an eighth of what was waited, and never sooner than at first."""
        refused = LaunchFailed(1, T0 + 2 * HOUR, 403, "", "exceeded quota: compute")
        late = observed(status=STATUSES["planned"], launch_failed=refused)

        decision = checked(late, T0 + 2 * HOUR)

        assert decision.requeue_after_s is not None
        assert 50 <= decision.requeue_after_s <= 100
        assert LaunchDriver(1, "Run") in checked(late, T0 + 2 * HOUR + 100_000).actions

    def test_is_not_decided_again_before_its_next_try(self) -> None:
        """A refusal that is tried again in minutes is not looked at every few seconds."""
        refused = LaunchFailed(1, T0 + 2 * HOUR, 422, "Invalid", "no")
        late = observed(status=STATUSES["planned"], launch_failed=refused)

        decision = checked(late, T0 + 2 * HOUR)

        assert decision.requeue_after_s is not None
        assert 300 <= decision.requeue_after_s <= 600
        again = checked(after(late, decision), T0 + 2 * HOUR + 60_000)
        assert again.requeue_after_s == decision.requeue_after_s - 60
        assert again.actions == ()

    def test_a_place_for_a_driver_is_waited_for_at_a_time_of_its_own(self) -> None:
        """Who ends gives the place on; thousands that wait are not looked at at once, nor every minute."""
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

    def test_a_deadline_comes_before_the_next_look(self) -> None:
        """A look that is rare must not hold up what is due."""
        limit_s = 100 * 3600
        full = observed(no_room="full", spec=spec(activeDeadlineSeconds=limit_s), status=STATUSES["failed once"])
        observation, _ = settled(full, T0 + 20 * HOUR)
        began_ms = ms_of(observation.status.start_time)
        assert began_ms is not None

        decision = checked(observation, began_ms + limit_s * 1000 - MINUTE)

        assert decision.requeue_after_s == 60


class TestWhatIsAtRestNeedsNoDecision:
    """The operator keeps a few words of it and does not decide, so a decision must have been nothing."""

    @pytest.mark.parametrize("spec_name", SPECS)
    @pytest.mark.parametrize("status", sorted(STATUSES))
    def test_until_its_time_is_over(self, spec_name: str, status: str) -> None:
        """Whatever its spec is; and all that is over comes to rest."""
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

    def test_to_the_millisecond(self) -> None:
        """A look that comes too late keeps it, one that comes too early is made again."""
        observation, _ = settled(replace(SETTLED["complete"], spec=spec(ttlSecondsAfterFinished=7200)))
        due_ms = forgotten_ms(observation.status, 7200)
        assert due_ms is not None

        assert checked(observation, due_ms - 1).requeue_after_s == 0.001
        assert checked(observation, due_ms).actions == (DeleteObject(),)

    @pytest.mark.parametrize("status", ["complete", "failed"])
    def test_no_more_after_an_edit(self, status: str) -> None:
        """Of a failed one it is a new beginning, and each status names the generation that it is about."""
        observation, _ = settled(observed(status=STATUSES[status]))

        assert at_rest(observation.status, generation=1)
        assert not at_rest(observation.status, generation=2)

    @pytest.mark.parametrize("status", ["complete", "failed"])
    @pytest.mark.parametrize("edited", ["Ready", "Finished", "Stalled", "Paused", "DriverReady", "phase", "generation"])
    def test_no_more_after_a_person_edited_the_status(self, status: str, edited: str) -> None:
        """No operator may have seen it: who finds it decides, and that says again what is true."""
        observation, now_ms = settled(observed(status=STATUSES[status]))
        before = observation.status
        wrong = replace(observation, status=with_edit(before, edited))

        assert not at_rest(wrong.status, generation=1)
        right = checked(wrong, now_ms)
        assert at_rest(right.status, generation=1)
        assert facts(right.status) == facts(before)

    @pytest.mark.parametrize("state", ["Planned", "Created"])
    def test_never_with_an_attempt_that_may_run(self, state: str) -> None:
        """Whatever the conditions say: they are older than its pod."""
        observation, _ = settled(SETTLED["complete"])
        attempt = observation.status.attempt
        assert attempt is not None
        edited = observation.status.model_copy(update={"attempt": attempt.model_copy(update={"state": state})})

        assert not at_rest(edited, generation=1)
