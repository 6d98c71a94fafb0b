"""The object is being deleted, or its job is over: what is left to tidy."""

from __future__ import annotations

from dataclasses import replace

from backfill_api.names import DRAIN_FINALIZER
from backfill_api.status.status import Condition
from backfill_core.lifecycle.inputs.context import Sight
from backfill_core.lifecycle.observation import Action, DeleteObject, DriverPod, RemoveFinalizer
from backfill_core.lifecycle.status import condition_details as details
from backfill_core.lifecycle.status.conditions import Face
from backfill_core.lifecycle.steps.idle import stand
from backfill_core.lifecycle.steps.running import LAST_GRACE_S, fly
from backfill_core.lifecycle.steps.step import Turn, clear_away, look_live, not_retained, stuck_ms


def depart(sight: Sight) -> Turn:
    """Let a deleted object go: after its driver's drain, or at once. Nothing is launched for it any more.

    Without our finalizer nobody waits for us: the garbage collector ends the pods, which stop at a barrier on SIGTERM. So
    does a driver of ours when nothing can be put on record: no status may keep an object that somebody wants gone.
    """
    face = Face.moves("Terminating", "Draining").showing(details.without_driver(sight))
    turn = Turn(sight.status, face)
    if DRAIN_FINALIZER not in sight.seen.finalizers:
        return turn
    alive = _alive(sight)
    if not sight.rules.drains:
        return turn.and_do(*clear_away(sight, alive, grace_s=LAST_GRACE_S), RemoveFinalizer())
    if not alive:
        return turn.and_do(RemoveFinalizer()) if sight.seen.live else look_live(sight)
    attempt = sight.attempt
    if sight.seen.recordable and attempt is not None and sight.pod is not None and not sight.pod.over:
        return fly(sight, attempt, stop="Deleted")
    away = clear_away(sight, alive, grace_s=sight.rules.drain_s)
    return turn.and_do(*away).within(stuck_ms(sight, alive))


def rest(sight: Sight, over: Condition) -> Turn:
    """Look after a job that is over: tidy, wait for its time to live, and take up a failed one whose spec was edited."""
    edited = over.observed_generation is not None and sight.seen.generation > over.observed_generation
    if over.type == "Failed" and edited and not sight.rules.refused:
        fresh = {"failures": 0, "start_time": None, "completion_time": None}
        return stand(replace(sight, status=sight.status.model_copy(update=fresh)))
    face = Face.complete(over.message) if over.type == "Complete" else Face.failed(over.reason, over.message)
    alive = _alive(sight)
    actions: list[Action] = [*clear_away(sight, alive, grace_s=sight.rules.drain_s), *not_retained(sight)]
    if not alive and DRAIN_FINALIZER in sight.seen.finalizers:
        actions.append(RemoveFinalizer())
    turn = Turn(sight.status, face.showing(details.without_driver(sight)), tuple(actions))
    turn = turn.within(stuck_ms(sight, alive))
    ttl_s, ended = sight.rules.ttl_s, sight.status.completion_time
    if ttl_s is None or ended is None or sight.rules.refused:
        return turn
    left_ms = sight.left_ms(ended, ttl_s * 1000)
    return turn.and_do(DeleteObject()) if left_ms <= 0 else turn.within(left_ms)


def _alive(sight: Sight) -> tuple[DriverPod, ...]:
    current = () if sight.pod is None or sight.pod.over else (sight.pod,)
    return (*current, *(pod for pod in sight.strays if pod is not sight.pod))
