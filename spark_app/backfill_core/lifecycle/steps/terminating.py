"""Situation of a finished attempt: record its end in the history, and count a failure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from backfill_api.status.progress import ProgressSummary
from backfill_api.status.status import HISTORY_MAX, Attempt, BackfillStatus, PastAttempt
from backfill_core.errors import EXIT_COMPLETE
from backfill_core.lifecycle.actions import DeleteAttemptObjects
from backfill_core.lifecycle.commands import carried_over
from backfill_core.lifecycle.inputs.approval import plan_of_pod
from backfill_core.lifecycle.inputs.context import Context
from backfill_core.lifecycle.inputs.termination import NOT_STARTED, UNCOUNTED, Termination
from backfill_core.lifecycle.inputs.token_hash import hash_of
from backfill_core.lifecycle.status import losses
from backfill_core.lifecycle.status.procedure_ends import termination_of, with_end
from backfill_core.lifecycle.status.write_policy import not_less
from backfill_core.lifecycle.steps.step import Ended

STEADY_MS: Final = 3_600_000
"""An attempt that was ready for this long was healthy: its end is the first failure of a new count."""


def on_terminated(context: Context) -> Ended[Literal["Recorded"]]:
    """Record the attempt's end. Its objects are deleted first, so that none is left behind."""
    attempt, termination = context.attempt, context.termination
    assert attempt is not None
    assert termination is not None
    if not _is_genuine(context, attempt):
        # Its termination message is ignored: any user who may create pods may have written it.
        unsigned = None if context.pod is None else replace(context.pod, ending=None)
        context = replace(context, pod=unsigned)
    of_driver = _as_requested(context, attempt, _confirmed(context, attempt, termination))
    ending = None if context.pod is None else context.pod.ending
    termination = termination_of(context.status, attempt, ending, of_driver)
    status = with_end(_closed(context, attempt, termination), attempt, ending, of_driver, context.timestamp)
    after = replace(context, status=status, termination=termination, pod=None, report=None)
    return Ended("Recorded", after, (DeleteAttemptObjects(attempt.number),))


def _confirmed(context: Context, attempt: Attempt, termination: Termination) -> Termination:
    """Accept the end of a job as complete or final only from a genuine pod.

    Accept a rejection only if its driver never was ready: some kubelets forget that a pod ran.
    """
    pod = context.pod
    if termination.outcome == "Rejected" and attempt.ready_time is not None:
        return Termination("Retry", "Infrastructure", termination.message, counts=False)
    if termination.outcome not in ("Complete", "Planned", "Final") or pod is None or _is_genuine(context, attempt):
        return termination
    message = (
        f"pod {pod.name} ended before it was seen to run, and its termination message does not have the attempt's token"
    )
    return Termination("Retry", "Unexpected", message, termination.exit_code)


def _is_genuine(context: Context, attempt: Attempt) -> bool:
    """Return whether the pod is the one on record, or its termination message contains the attempt's token.

    Users who may create pods may give one the name of the next attempt. Only its driver reads the token, from its Secret.
    """
    pod, stored = context.pod, context.observation.status.attempt
    if pod is None or pod.uid == attempt.pod_uid:
        return True
    hashes = attempt.token_hashes
    if hashes is None:
        # An earlier version of the operator recorded it, and its pods have no proof: a successful end needs at least a message.
        reported = pod.ending is not None or pod.exit_code not in (None, EXIT_COMPLETE)
        return reported and stored is not None and stored.number == attempt.number
    return pod.ending is not None and hash_of(pod.ending.token) in hashes


def _as_requested(context: Context, attempt: Attempt, termination: Termination) -> Termination:
    """Return the end of an attempt that was stopped on request, which is no failure unless its driver reports a final error."""
    if attempt.stop is None or termination.outcome in ("Complete", "Planned", "Final"):
        return termination
    reason = attempt.stop.reason
    if reason not in NOT_STARTED:
        return Termination("Stopped", reason, "", termination.exit_code)
    before = context.condition("Reconciling")
    message = before.message if before is not None and before.reason in (reason, "Launching") else ""
    outcome: Literal["Retry", "Final"] = "Final" if reason == "SubmissionFailed" else "Retry"
    counts = reason not in UNCOUNTED
    return Termination(outcome, reason, message or "the driver did not start in time", termination.exit_code, counts)


def _closed(context: Context, attempt: Attempt, termination: Termination) -> BackfillStatus:
    """Return the status with the attempt in the history, its failure counted, and the driver's final report."""
    status = context.status
    attempt, lost_executors = losses.with_executors(status, attempt, context.progress)
    start, history = attempt.start_time, [past for past in status.history if past.number != attempt.number]
    if termination.outcome == "Rejected" and history and history[-1].reason == termination.reason:
        # A node may reject pods for hours: one entry represents all consecutive rejections, so earlier failures stay in the history.
        start = history.pop().start
    past = PastAttempt(
        number=attempt.number, kind=attempt.kind, start=start, end=context.timestamp, reason=termination.reason,
        exit_code=termination.exit_code,
    )  # fmt: skip
    failures = status.failures
    if termination.outcome in ("Retry", "Final"):
        steady = attempt.ready_time is not None and context.left_ms(attempt.ready_time, STEADY_MS) <= 0
        before = 0 if steady or attempt.committed else failures
        failures = before + 1 if termination.counts else before
    pod = context.pod
    ending = pod.ending if pod is not None else None
    plan = ending.plan if ending is not None else None
    plan_of = status.plan_of if plan is None or pod is None else plan_of_pod(pod, context.observation.spec)
    last = ending.progress if ending else None
    progress = not_less(last, status.progress) if last else status.progress
    if termination.outcome == "Complete" and last is None:
        # A driver that finds its job complete reads nothing, so it has no progress.
        progress = (progress or ProgressSummary()).model_copy(update={"percent": 100})
    return status.model_copy(
        update={
            "attempt": attempt.model_copy(update={"state": "Ended", "stop": None}),
            "failures": failures,
            "lost_drivers": losses.with_driver(status.lost_drivers, context.pod, termination),
            "lost_executors": lost_executors,
            "control": status.control and carried_over(status.control),
            "history": (*history, past)[-HISTORY_MAX:],
            "plan": plan or status.plan,
            "plan_of": plan_of,
            "receipt": (ending.receipt if ending else None) or status.receipt,
            "progress": progress and _at_rest(progress),
        }
    )


def _at_rest(progress: ProgressSummary) -> ProgressSummary:
    """Return the progress of a job without a driver, which has no rate, no ETA and no limit in force."""
    gone = dict.fromkeys(("eta", "eta_seconds", "eta_seconds_low", "eta_seconds_high", "limit"))
    return progress.model_copy(update={"rows_per_second": 0, **gone})
