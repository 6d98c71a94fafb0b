"""What a step answers, and what several steps share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from backfill_api.status.progress import ProgressSummary
from backfill_api.status.status import HISTORY_MAX, BackfillStatus, Control, PastAttempt
from backfill_core.lifecycle.actions import Action, DeletePod, RefetchPods
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.termination import Termination, classify
from backfill_core.lifecycle.observation import DriverPod
from backfill_core.lifecycle.status.conditions import ConditionSet

FORCE_AFTER_MS = 60_000
"""So long after its grace a pod may be stuck before it is removed without its node's consent.

A lost node never confirms. Should the driver still run there, its next seal is refused: the target's fence is the second wall.
"""

STEADY_MS = 3_600_000
"""An attempt that was ready for so long was a good one: its end is the first failure of a new count."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step answers: the status, its conditions, and what is to be done."""

    status: BackfillStatus
    conditions: ConditionSet | None
    """None: the stored status stays."""

    actions: tuple[Action, ...] = ()
    requeue_ms: int | None = None

    def then(self, *actions: Action) -> StepResult:
        """Return the result with more actions at the end."""
        return replace(self, actions=(*self.actions, *actions))

    def requeue_within(self, *limits_ms: int | None) -> StepResult:
        """Return the result with the next decision no later than each of these."""
        given = [ms for ms in (self.requeue_ms, *limits_ms) if ms is not None]
        return replace(self, requeue_ms=max(0, min(given)) if given else None)


def refetch_pods(context: Context, pod_name: str | None = None) -> StepResult:
    """Look again before anything that a stale look would make wrong."""
    return StepResult(context.observation.status, None, (RefetchPods(pod_name or context.pod_name),), 0)


def clear_away(context: Context, pods: Iterable[DriverPod], *, grace_s: int) -> tuple[Action, ...]:
    """Delete pods that are not being deleted yet, and those that are stuck in it."""
    return tuple(action for pod in pods if (action := removal(context, pod, grace_s)) is not None)


def removal(context: Context, pod: DriverPod, grace_s: int | None) -> DeletePod | None:
    """Return how a pod is to be deleted now, if at all.

    Args:
        context: The classified observation.
        pod: It.
        grace_s: Time that it has to stop; None: delete it only if it is stuck.
    """
    if pod.deletion_ms is not None:
        return DeletePod(pod.name, pod.uid, 0) if context.now_ms - pod.deletion_ms >= FORCE_AFTER_MS else None
    return None if grace_s is None else DeletePod(pod.name, pod.uid, grace_s)


def stuck_ms(context: Context, pods: Iterable[DriverPod]) -> int | None:
    """Return when the first of the pods under deletion is stuck."""
    left = [pod.deletion_ms + FORCE_AFTER_MS - context.now_ms for pod in pods if pod.deletion_ms is not None]
    return max(min(left), 1000) if left else None


def not_retained(context: Context) -> tuple[Action, ...]:
    """Delete the pods of attempts whose end is on record, unless the spec wants to keep them."""
    stored = context.observation.status
    recorded = {one.number for one in stored.history}
    made = []
    for pod in context.ours:
        number = pod.attempt or 0
        current = context.status.attempt is not None and number == context.status.attempt.number
        if not pod.over or pod.deletion_ms is not None:
            continue
        if current and number not in recorded:
            continue
        badly = classify(pod).outcome in ("Retry", "Final")
        kept = context.policy.retain == "Always" or (context.policy.retain == "OnFailure" and badly)
        if not (kept and number in recorded):
            made.append(DeletePod(pod.name, pod.uid, 0))
    return tuple(made)


def close(context: Context, end: Termination) -> BackfillStatus:
    """Put the current attempt into the history and count its failure."""
    status, pod = context.status, context.pod
    attempt = status.attempt
    assert attempt is not None
    past = PastAttempt(
        number=attempt.number, kind=attempt.kind, start=attempt.start_time, end=context.timestamp, reason=end.reason,
        exit_code=end.exit_code,
    )  # fmt: skip
    failures = status.failures
    if end.outcome in ("Retry", "Final"):
        steady = attempt.ready_time is not None and context.left_ms(attempt.ready_time, STEADY_MS) <= 0
        failures = 1 if steady else failures + 1
    ending = pod.ending if pod is not None else None
    progress = (ending.progress if ending else None) or status.progress
    history = [one for one in status.history if one.number != attempt.number]
    return status.model_copy(
        update={
            "attempt": attempt.model_copy(update={"state": "Ended", "stop": None}),
            "failures": failures,
            "control": status.control and _without_driver(status.control),
            "history": (*history, past)[-HISTORY_MAX:],
            "plan": (ending.plan if ending else None) or status.plan,
            "receipt": (ending.receipt if ending else None) or status.receipt,
            "progress": progress and _at_rest(progress),
        }
    )


def _without_driver(control: Control) -> Control:
    """Only a receipt that was asked for waits for the next driver; pause and limit are given to it when it starts."""
    kept = tuple(one for one in control.pending if one.command.type == "Verify")
    return control.model_copy(update={"pending": kept, "pending_since": control.pending_since if kept else None})


def _at_rest(progress: ProgressSummary) -> ProgressSummary:
    """Nobody works, so there is no rate and no expected end."""
    return progress.model_copy(update={"rows_per_second": 0, "eta": None})
