"""The one way in: what follows from one look.

Total: an answer for every look, however odd. Deterministic: the same look and moment, the same answer. Without memory: all
that must outlive this call is in the status, and what must not be done twice is on record there before it is done.
"""

from __future__ import annotations

from dataclasses import replace

from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.inputs.context import Sight, see
from backfill_core.lifecycle.observation import Decision, EventNote, Now, Observation
from backfill_core.lifecycle.status.conditions import Face, Fact, conditions_of
from backfill_core.lifecycle.steps.finalizing import depart, rest
from backfill_core.lifecycle.steps.idle import stand
from backfill_core.lifecycle.steps.running import fly
from backfill_core.lifecycle.steps.step import Turn

NOTEWORTHY = frozenset({"AwaitingApproval", "Paused", "Suspended", "Running", "Succeeded"})
SHARED_TARGET = "SharedTarget"
BESIDE_SHOWN_MAX = 3
ALARMING = frozenset({"Retrying", "Failed"})


def decide(observation: Observation, now: Now) -> Decision:
    """Return the status that is true now and the actions that bring the cluster nearer to what is wanted."""
    sight = see(observation, now.wall_ms)
    turn = _turn(sight)
    requeue_after_s = None if turn.requeue_ms is None else turn.requeue_ms / 1000
    if turn.face is None:
        return Decision(observation.status, turn.actions, requeue_after_s)
    turn = replace(turn, face=turn.face.showing(_beside(observation, turn.face)))
    assert turn.face is not None
    status = turn.status.model_copy(
        update={
            "observed_generation": observation.generation,
            "phase": turn.face.phase,
            "conditions": conditions_of(
                turn.face, observation.status.conditions, generation=observation.generation, moment=sight.moment
            ),
        }
    )
    return Decision(status, turn.actions, requeue_after_s, _events(sight, status, turn))


def _beside(observation: Observation, face: Face) -> dict[str, Fact]:
    """Tell of others that write the same target; a job that is over writes no more."""
    if not observation.beside or face.over is not None:
        return {}
    more = len(observation.beside) - BESIDE_SHOWN_MAX
    names = ", ".join(observation.beside[:BESIDE_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    words = f"{names} write the same target: only one of them can have it; delete the others, or give each its own"
    return {SHARED_TARGET: Fact("True", SHARED_TARGET, words)}


def _turn(sight: Sight) -> Turn:
    if sight.seen.deletion_ms is not None:
        return depart(sight)
    attempt, over = sight.attempt, sight.finished
    if attempt is not None:
        # Even when the status says that the job is over: then it is older than this attempt's pod.
        return fly(sight, attempt)
    return stand(sight) if over is None else rest(sight, over)


def _events(sight: Sight, status: BackfillStatus, turn: Turn) -> tuple[EventNote, ...]:
    """Tell of what is new; what goes on is in the conditions."""
    notes = []
    face, before = turn.face, sight.seen.status
    if sight.wanted.override_error:
        notes.append(EventNote("Warning", "OverrideIgnored", sight.wanted.override_error))
    if face is None:
        return tuple(notes)
    shared = face.details.get(SHARED_TARGET)
    if shared is not None and not any(one.type == SHARED_TARGET for one in before.conditions):
        notes.append(EventNote("Warning", shared.reason, shared.message))
    if face.stalled is not None and not any(one.type == "Stalled" for one in before.conditions):
        notes.append(EventNote("Warning", face.stalled.reason, face.stalled.message))
    elif status.phase != before.phase and status.phase in NOTEWORTHY | ALARMING:
        kind = "Warning" if status.phase in ALARMING else "Normal"
        notes.append(EventNote(kind, face.ready.reason, face.ready.message))  # type: ignore[arg-type]
    return tuple(notes)
