"""No attempt in flight: suspended, waiting for approval, waiting for its turn, given up; or the next one starts."""

from __future__ import annotations

from backfill_api.names import DRAIN_FINALIZER
from backfill_core.lifecycle.inputs.backoff import backoff_ms
from backfill_core.lifecycle.inputs.context import Sight
from backfill_core.lifecycle.inputs.termination import End
from backfill_core.lifecycle.observation import Action, RemoveFinalizer
from backfill_core.lifecycle.status import condition_details as details
from backfill_core.lifecycle.status.conditions import Face, Fact
from backfill_core.lifecycle.steps.launching import blocked_by, plan_attempt
from backfill_core.lifecycle.steps.step import Turn, not_retained

AT_ONCE = frozenset({"Suspended", "Restarted", "Planned"})
"""Ends that were asked for: the next attempt need not wait."""

NO_ROOM_MS = 60_000
"""Whoever waits for another driver's end is told of it; this is for what is missed."""


def stand(sight: Sight, *, just_ended: End | None = None) -> Turn:
    """Decide what happens while no attempt is in flight.

    Args:
        sight: The look.
        just_ended: How the attempt ended in this very round. Then no new one is planned: first the end is on record.
    """
    turn = _stand(sight, just_ended)
    return turn if turn.face is None else turn.and_do(*not_retained(sight))


def _stand(sight: Sight, just_ended: End | None) -> Turn:
    status, rules, wanted = sight.status, sight.rules, sight.wanted
    why = _why(sight, just_ended)
    if status.failures > rules.backoff_limit:
        words = f"{status.failures} attempts failed; the last: {why}"
        # Without a single retry the reason of the failure says more than that there was none.
        reason = just_ended.reason if just_ended and rules.backoff_limit == 0 else "BackoffLimitExceeded"
        return give_up(sight, reason, words)
    blocked = blocked_by(sight)
    if blocked is not None and sight.strays:
        return blocked
    if rules.refused:
        face = Face.stands_still("Pending", "SpecRefused", rules.refused)
        return Turn(status, face.showing(details.without_driver(sight)))
    if wanted.suspend:
        return _suspended(sight)
    if blocked is not None:
        return blocked
    if sight.plan_first and status.plan is not None:
        return _awaits_approval(sight)
    deadline_left_ms = None
    if status.start_time is not None and rules.deadline_s is not None:
        deadline_left_ms = sight.left_ms(status.start_time, rules.deadline_s * 1000)
        if deadline_left_ms <= 0:
            return give_up(sight, "DeadlineExceeded", f"the job took longer than {rules.deadline_s} s; {why}")
    left_ms = _wait_ms(sight)
    if left_ms > 0 or just_ended is not None:
        again = _ended_as(sight) in AT_ONCE
        face = Face.moves("Launching", _ended_as(sight)) if again else Face.moves("Retrying", "BackingOff", why)
        return Turn(status, face.showing(details.without_driver(sight))).within(left_ms, deadline_left_ms)
    if sight.seen.no_room:
        face = Face.moves("Pending", "DriversLimited", sight.seen.no_room)
        return Turn(status, face.showing(details.without_driver(sight))).within(NO_ROOM_MS, deadline_left_ms)
    return plan_attempt(sight)


def give_up(sight: Sight, reason: str, words: str) -> Turn:
    """End the job badly; an edit of the spec takes it up again."""
    status = sight.status.model_copy(update={"completion_time": sight.moment})
    face = Face.failed(reason, words).showing(details.without_driver(sight))
    return Turn(status, face, _released(sight))


def finish(sight: Sight) -> Turn:
    """End the job well."""
    status = sight.status.model_copy(update={"completion_time": sight.moment})
    return Turn(status, Face.complete().showing(details.without_driver(sight)), _released(sight))


def _awaits_approval(sight: Sight) -> Turn:
    face = Face.waits("AwaitingApproval", "AwaitingApproval", "set spec.approved: true to go on")
    facts = {"AwaitingApproval": Fact("True", "AwaitingApproval")}
    # The deadline is for work, not for people who think.
    status = sight.status.model_copy(update={"start_time": None})
    return Turn(status, face.showing(facts | details.without_driver(sight)), _released(sight))


def _suspended(sight: Sight) -> Turn:
    reason = "Override" if sight.wanted.suspend_overridden else "AsRequested"
    face = Face.holds("Suspended", reason).showing(details.without_driver(sight, suspended=reason))
    # The deadline counts from the resumption, as a Job's does: nobody works meanwhile.
    status = sight.status.model_copy(update={"start_time": None})
    return Turn(status, face, _released(sight))


def _released(sight: Sight) -> tuple[Action, ...]:
    """Let the object go without us while there is nothing to drain: somebody may uninstall the operator."""
    return (RemoveFinalizer(),) if DRAIN_FINALIZER in sight.seen.finalizers and not sight.strays else ()


def _wait_ms(sight: Sight) -> int:
    status = sight.status
    if not status.history or status.attempt is None:
        return 0
    reason = _ended_as(sight)
    if reason in AT_ONCE or (status.failures == 0 and reason != "Stopped"):
        return 0  # asked for; or an edit has wiped the slate
    failures = 1 if reason == "Stopped" else status.failures
    wait_ms = backoff_ms(sight.rules, sight.seen.uid, status.attempt.number, failures)
    return min(sight.left_ms(status.history[-1].end, wait_ms), wait_ms)


def _ended_as(sight: Sight) -> str:
    return sight.status.history[-1].reason if sight.status.history else ""


def _why(sight: Sight, just_ended: End | None) -> str:
    """Return the words for the last end; they are in the condition once the end is on record."""
    history = sight.status.history
    if just_ended is not None:
        return f"attempt {history[-1].number} ended with {just_ended.reason}: {just_ended.message}".rstrip(": ")
    before = sight.condition("Reconciling")
    if before is not None and before.reason == "BackingOff" and before.message:
        return before.message
    return f"attempt {history[-1].number} ended with {history[-1].reason}" if history else "no attempt was made"
