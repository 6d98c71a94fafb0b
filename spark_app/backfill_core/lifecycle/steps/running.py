"""An attempt in flight: follow its pod, steer its driver, tell it to stop, and see it land."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from backfill_api.names import DRAIN_FINALIZER, RESTART_ANNOTATION
from backfill_api.status.conditions import Phase
from backfill_api.status.progress import Progress, ProgressSummary
from backfill_api.status.status import Attempt, Control, StopReason, StopRequest
from backfill_core.lifecycle.inputs.context import Sight
from backfill_core.lifecycle.inputs.termination import IMAGE_OR_CONFIG, End, judge
from backfill_core.lifecycle.inputs.timestamps import ms_of
from backfill_core.lifecycle.observation import (
    Action,
    AddFinalizer,
    DeleteAttemptObjects,
    DriverPod,
    KeepObjects,
    LaunchDriver,
    SendCommand,
    WriteStatusFirst,
)
from backfill_core.lifecycle.status import condition_details as details
from backfill_core.lifecycle.status.conditions import Face
from backfill_core.lifecycle.steps.commands import RESEND_S, TOKEN_CHARACTERS_MAX, Exchange, exchange, settled
from backfill_core.lifecycle.steps.idle import finish, give_up, stand
from backfill_core.lifecycle.steps.launching import launch
from backfill_core.lifecycle.steps.step import Turn, clear_away, close, look_live, not_retained, removal, stuck_ms

MISSING_GRACE_MS = 5_000
"""So long a pod that was there may be unseen before it is asked for live."""

LOST_MS = 600_000
"""So long a driver may be neither ready nor heard of. On a live node its kubelet had ended it after one minute of it, so that
its node is lost; and a pod that tolerates that for ever is never taken away by the cluster. Should the driver still run
there, its next seal is refused: the target's fence is the second wall.
"""

LAST_GRACE_S = 5
"""For a driver that was told to stop and did not within its time."""

STOPPING_FACE: dict[str, Phase] = {
    "Suspended": "Suspending", "Deleted": "Terminating", "Restarted": "Launching", "DeadlineExceeded": "Running",
    "StartupTimeout": "Retrying", "SubmissionFailed": "Retrying",
}  # fmt: skip


NOT_STARTED = frozenset({"StartupTimeout", "SubmissionFailed"})


def fly(sight: Sight, attempt: Attempt, *, stop: StopReason | None = None) -> Turn:
    """Decide about an attempt in flight.

    Args:
        sight: The look.
        attempt: It.
        stop: Why it must end, as its caller knows; other reasons are found here.
    """
    pod = sight.pod
    if pod is None:
        return _unseen(sight, attempt, stop)
    if pod.over:
        return _landed(sight, attempt, _vouched(attempt, pod, judge(pod)))
    return _aloft(sight, attempt, pod, stop or _why_stop(sight, attempt, pod))


# ------------------------------------------------------------------ no pod
def _unseen(sight: Sight, attempt: Attempt, stop: StopReason | None) -> Turn:
    if attempt.stop is not None:
        stop = attempt.stop.reason
    elif stop is None and sight.wanted.suspend and not sight.rules.refused:
        stop = "Suspended"
    if stop is None:
        if attempt.state == "Planned":
            return launch(sight, attempt)
        known = sight.condition("DriverReady")
        since = known.last_transition_time if known is not None and known.reason == "DriverMissing" else None
        left_ms = min(sight.left_ms(since, MISSING_GRACE_MS), MISSING_GRACE_MS)
        if left_ms > 0:
            phase: Phase = sight.status.phase or "Launching"  # it may be there all the same
            fact = details.missing(sight)
            facts = details.with_driver(sight, sight.status.control or Control()) | {"DriverReady": fact}
            return Turn(sight.status, Face.moves(phase, fact.reason, fact.message).showing(facts), (), left_ms)
    if not sight.seen.live:
        return look_live(sight)
    gone = End("Retry", "Infrastructure", f"pod {sight.pod_name} is gone: deleted, or its node is")
    return _landed(sight, attempt.model_copy(update={"stop": attempt.stop or _request(sight, stop)}), gone)


def _request(sight: Sight, stop: StopReason | None) -> StopRequest | None:
    return None if stop is None else StopRequest(reason=stop, time=sight.moment)


# ------------------------------------------------------------------ the end
def _landed(sight: Sight, attempt: Attempt, end: End) -> Turn:
    """Put the end on record; the attempt's objects go first, so that none is forgotten."""
    end = _as_asked(sight, attempt, end)
    status = close(replace(sight, status=sight.status.model_copy(update={"attempt": attempt})), end)
    after = replace(sight, status=status, pod=None, look=None)
    if end.outcome == "Complete":
        turn = finish(after)
    elif end.outcome == "Final":
        turn = give_up(after, end.reason, end.message)
    else:
        turn = stand(after, just_ended=end)
    return replace(turn, actions=(DeleteAttemptObjects(attempt.number), *turn.actions))


def _vouched(attempt: Attempt, pod: DriverPod, end: End) -> End:
    """Believe that a job is complete only to the pod that is on record, or to a driver's last words."""
    if end.outcome != "Complete" or pod.ending is not None or pod.uid == attempt.pod_uid:
        return end
    words = f"pod {pod.name} ended well before anybody saw it run, and left no last words"
    return End("Retry", "Unexpected", words, end.exit_code)


def _as_asked(sight: Sight, attempt: Attempt, end: End) -> End:
    """An attempt that was asked to end did not fail by ending, unless it says that no other one will do better."""
    if attempt.stop is None or end.outcome in ("Complete", "Planned", "Final"):
        return end
    reason = attempt.stop.reason
    if reason not in NOT_STARTED:
        return End("Stopped", reason, "", end.exit_code)
    words = sight.condition("Reconciling")
    message = words.message if words is not None and words.reason in (reason, "Launching") else ""
    outcome: Literal["Retry", "Final"] = "Final" if reason == "SubmissionFailed" else "Retry"
    return End(outcome, reason, message or "the driver did not start in time", end.exit_code)


# ------------------------------------------------------------------ a pod
def _why_stop(sight: Sight, attempt: Attempt, pod: DriverPod) -> StopReason | None:
    rules, annotations = sight.rules, sight.seen.annotations
    token = annotations.get(RESTART_ANNOTATION, "")[:TOKEN_CHARACTERS_MAX]
    if rules.refused:
        return None
    if sight.wanted.suspend:
        return "Suspended"
    if token and token != (sight.status.control or Control()).restart_token:
        return "Restarted"
    if rules.deadline_s is not None and sight.left_ms(sight.status.start_time, rules.deadline_s * 1000) <= 0:
        return "DeadlineExceeded"
    if attempt.ready_time is None and not _up(attempt, pod) and _startup_left_ms(sight, attempt, pod) <= 0:
        return "SubmissionFailed" if pod.waiting in IMAGE_OR_CONFIG else "StartupTimeout"
    return None


def _aloft(sight: Sight, attempt: Attempt, pod: DriverPod, stop: StopReason | None) -> Turn:
    fresh = attempt.stop is None and stop is not None
    ready_time = attempt.ready_time or (sight.moment if _up(attempt, pod) else None)
    tellable = pod.ready and sight.reachable and sight.progress is not None and attempt.kind == "Run"
    steer = attempt.stop is None and stop is None and not sight.rules.refused and attempt.kind == "Run"
    talk = exchange(sight, attempt.number, stop=fresh and tellable, steer=steer)
    control = talk.control
    if fresh and stop is not None:
        token = sight.seen.annotations.get(RESTART_ANNOTATION, "")[:TOKEN_CHARACTERS_MAX]
        control = control.model_copy(update={"restart_token": token or control.restart_token})
        request = StopRequest(reason=stop, time=sight.moment, revision=talk.revision_of("Stop"))
        attempt = attempt.model_copy(update={"stop": request})
    attempt = attempt.model_copy(
        update={
            "state": "Created", "pod_name": pod.name[:253], "pod_uid": pod.uid[:64], "ready_time": ready_time,
            "start_time": attempt.start_time or sight.moment,
        }
    )  # fmt: skip
    status = sight.status.model_copy(
        update={
            "attempt": attempt,
            "control": control,
            "start_time": sight.status.start_time or sight.moment,
            **_heard(sight),
        }
    )
    sight = replace(sight, status=status)
    actions = _actions(sight, attempt, pod, talk, first=fresh or talk.decided)
    turn = Turn(status, _face(sight, attempt, pod, control), actions)
    return turn.within(*_limits(sight, attempt, pod, talk))


def _actions(sight: Sight, attempt: Attempt, pod: DriverPod, talk: Exchange, *, first: bool) -> tuple[Action, ...]:
    made: list[Action] = [WriteStatusFirst()] if first else []
    grace_s = _pod_grace_s(sight, attempt)
    if grace_s is None and _lost_in_ms(sight, attempt, pod) == 0:
        grace_s = sight.rules.drain_s
    made += [SendCommand(request) for request in talk.requests if pod.deletion_ms is None and grace_s is None]
    gone = removal(sight, pod, grace_s)
    if gone is not None:
        made.append(gone)
    made += clear_away(sight, sight.strays, grace_s=sight.rules.drain_s)
    made += not_retained(sight)
    if attempt.stop is None and pod.deletion_ms is None and not sight.rules.refused:
        wanted = sight.wanted
        made.append(KeepObjects(LaunchDriver(attempt.number, attempt.kind, wanted.paused, wanted.rows_per_second)))
    drains = sight.rules.drains and not sight.rules.refused
    if sight.seen.deletion_ms is None and drains and DRAIN_FINALIZER not in sight.seen.finalizers:
        made.append(AddFinalizer())
    return tuple(made)


def _pod_grace_s(sight: Sight, attempt: Attempt) -> int | None:
    """Return the grace with which the pod of a stopping attempt is to be deleted; None: not, or not yet."""
    stop = attempt.stop
    if stop is None:
        return None
    if stop.revision is None:
        return sight.rules.drain_s
    return LAST_GRACE_S if sight.left_ms(stop.time, sight.rules.drain_s * 1000) <= 0 else None


def _limits(sight: Sight, attempt: Attempt, pod: DriverPod, talk: Exchange) -> tuple[int | None, ...]:
    """Return when something would be due although nothing changes."""
    rules, stop = sight.rules, attempt.stop
    deadline_s = rules.deadline_s if stop is None and not rules.refused else None
    return (
        round(RESEND_S * 1000) if talk.requests else None,
        None if stop is None else max(sight.left_ms(stop.time, rules.drain_s * 1000), 1000),
        None if deadline_s is None else sight.left_ms(sight.status.start_time, deadline_s * 1000),
        _startup_left_ms(sight, attempt, pod) if attempt.ready_time is None and stop is None else None,
        stuck_ms(sight, (pod, *sight.strays)),
        sight.patience_left_ms,
        _lost_in_ms(sight, attempt, pod),
    )


def _lost_in_ms(sight: Sight, attempt: Attempt, pod: DriverPod) -> int | None:
    """Return when a silent driver will be given up, 0: now; None: it is not silent, or goes for another reason."""
    known = sight.condition("DriverReady")
    if attempt.ready_time is None or attempt.stop is not None or pod.deletion_ms is not None:
        return None
    if pod.ready or sight.reachable or known is None or known.status == "True":
        return None
    return max(0, min(sight.left_ms(known.last_transition_time, LOST_MS), LOST_MS))


def _startup_left_ms(sight: Sight, attempt: Attempt, pod: DriverPod) -> int:
    since_ms = pod.created_ms or ms_of(attempt.start_time) or sight.now_ms
    limit_ms = sight.rules.startup_s * 1000
    return min(since_ms + limit_ms - sight.now_ms, limit_ms)


def _up(attempt: Attempt, pod: DriverPod) -> bool:
    """Did the driver start? A plan serves nothing, so it is up when it runs."""
    return pod.ready or (attempt.kind == "Plan" and pod.phase == "Running")


# ------------------------------------------------------------------ how it looks
def _heard(sight: Sight) -> dict[str, object]:
    """Return the fields of the status that the driver's words fill."""
    heard: dict[str, object] = {}
    progress = sight.progress
    # Before its fence is sealed a driver says what it read, not what it stands by.
    if progress is not None and progress.table_version is not None:
        heard["progress"] = summary(progress)
    if sight.look is not None and sight.look.receipt is not None:
        heard["receipt"] = sight.look.receipt
    return heard


def summary(progress: Progress) -> ProgressSummary:
    """Return the part of a progress that a status keeps."""
    return ProgressSummary.model_construct(**{name: getattr(progress, name) for name in ProgressSummary.model_fields})


def _face(sight: Sight, attempt: Attempt, pod: DriverPod, control: Control) -> Face:
    face = _looks(sight, attempt, pod, control)
    if sight.rules.refused:
        face = Face.stands_still(face.phase, "SpecRefused", sight.rules.refused)
    return face.showing(details.with_driver(sight, control))


def _looks(sight: Sight, attempt: Attempt, pod: DriverPod, control: Control) -> Face:
    wanted = sight.wanted
    if attempt.stop is not None:
        reason = "Draining" if attempt.stop.reason == "Deleted" else attempt.stop.reason
        words = _waiting_words(pod) if reason in NOT_STARTED else "the driver stops at a barrier"
        before = sight.condition("Reconciling")
        if not words and before is not None and before.reason in (reason, "Launching"):
            words = before.message  # why it did not start is seen no more, once its pod is going
        if not words and reason == "StartupTimeout":
            words = _late_words(pod)
        return Face.moves(STOPPING_FACE[attempt.stop.reason], reason, words)
    if attempt.kind == "Plan":
        return Face.moves("Pending", "Planning", _waiting_words(pod))
    if attempt.ready_time is None:
        return Face.moves("Launching", "Launching", _waiting_words(pod))
    at_rest = wanted.paused is not None and settled(sight, control)
    phase: Phase = "Paused" if at_rest else "Pausing" if wanted.paused is not None else "Running"
    if pod.deletion_ms is not None:
        return Face.moves(phase, "DriverStopping", "the driver's pod is being deleted")
    if sight.unreachable or not (pod.ready or sight.reachable):
        return Face.moves(phase, "DriverUnreachable", "its control server does not answer")
    if not settled(sight, control):
        return Face.moves(phase, "AcknowledgementPending", f"waiting for revision {control.desired_revision}")
    if at_rest:
        return Face.holds(phase, "Override" if wanted.pause_overridden else "AsRequested")
    return Face.holds(phase, "Running")


def _waiting_words(pod: DriverPod) -> str:
    return ": ".join(word for word in (pod.waiting, pod.waiting_message, pod.unscheduled) if word)


def _late_words(pod: DriverPod) -> str:
    """Say where to look when the pod itself does not say what it waits for."""
    if pod.phase == "Running":
        return f"it runs and is not ready: kubectl logs {pod.name} says why"
    if not pod.scheduled:
        return "no scheduler has looked at it"
    missing = "a volume, Secret or ConfigMap of its template may be missing"
    return f"its node cannot make its containers: {missing}; the events of kubectl describe pod {pod.name} say which"
