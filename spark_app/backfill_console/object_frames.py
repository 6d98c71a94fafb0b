"""Frame of a Backfill in a cluster: from its spec, its status, its pods and its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.conditions import Condition
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import ReceiptSummary
from backfill_api.status.status import Attempt, BackfillStatus, Control, PastAttempt
from backfill_api.timestamps import ms_of
from backfill_api.wire import Command
from backfill_console.commands.acknowledgements import width_arguments
from backfill_console.frame import CommandNote, EventNote, JobFrame, Mark, TreeNode, Trend
from backfill_console.frames import limit_of, source_of, strategy_of, target_of
from backfill_console.plans import plan_line

PHASE_MARKS: dict[str, Mark] = {
    "Running": "Running", "Succeeded": "Good", "Failed": "Bad", "Paused": "Idle", "Suspended": "Idle",
}  # fmt: skip
"""Marks of phases; all other phases are waits."""

UNREMARKABLE = {"Ready", "Finished", "Complete", "DriverReady", "Reconciling", "Verified", "CaughtUp"}
"""Conditions that the tree does not list: the phase or another line shows them."""


@dataclass(frozen=True)
class PodNote:
    """A pod of the current attempt, as the API server reports it."""

    name: str
    status: str
    """Phase with ready containers, or the reason of its end: `Running 1/1`, `Pending`, `OOMKilled`."""

    mark: Mark
    age_s: float | None = None
    info: str = ""
    """Node, or the reason for which it waits."""


def frame_of_object(
    namespace: str,
    name: str,
    spec: BackfillSpec,
    status: BackfillStatus,
    *,
    now: datetime,
    pods: Sequence[PodNote] = (),
    events: Sequence[EventNote] = (),
    trend: Trend | None = None,
    updated_at: datetime | None = None,
    note: str = "",
    keys: Sequence[tuple[str, str]] = (),
) -> JobFrame:
    """Return the frame of a Backfill in a cluster.

    Args:
        namespace: Its namespace.
        name: Its name.
        spec: Its spec.
        status: As the operator wrote it; a Backfill without one has `BackfillStatus()`.
        now: Time of the frame, with a time zone.
        pods: Pods of the current attempt, the driver first.
        events: Events about the Backfill and its pods, oldest first.
        trend: Samples of rate and lag during a watch.
        updated_at: Time at which the status was received.
        note: Message to the user in front of the screen.
        keys: Keys that the screen accepts, each with its action.
    """
    progress, times = progress_of_status(status), status.refresh_times
    return JobFrame(
        name=name,
        namespace=namespace,
        now=now,
        progress=progress,
        phase=status.phase or "Pending",
        strategy=strategy_of(spec),
        source=source_of(spec, progress),
        target=target_of(spec, progress),
        attempts_max=spec.backoff_limit + 1,
        limit=limit_of(progress),
        next_refresh="" if times is None or ms_of(times.next) is None else times.next or "",
        refresh_waits="" if times is None else times.waits,
        tree=(_tree(name, spec, status, pods, now),),
        commands=commands_of(status.control),
        events=tuple(events),
        plan=plan_line(status.plan) if status.plan is not None and status.progress is None else "",
        receipt=status.receipt,
        trend=trend or Trend(),
        up_s=_seconds_since(status.start_time, now),
        updated_at=updated_at,
        note=note,
        keys=tuple(keys),
    )


def progress_of_status(status: BackfillStatus) -> Progress:
    """Return the progress in a status as the driver reports it; unknown fields have their defaults.

    The attempt is 0 before the first progress of a job.
    """
    if status.progress is None:
        return Progress()
    attempt = status.attempts if status.attempt is None else status.attempt.number
    return Progress.model_validate({**status.progress.model_dump(exclude_unset=True), "attempt": max(1, attempt)})


def commands_of(control: Control | None) -> tuple[CommandNote, ...]:
    """Return the commands in a status, oldest first: those that a driver confirmed, and those that wait."""
    if control is None:
        return ()
    acked = [
        CommandNote(ack.type.lower(), epoch=ack.epoch, time=ack.time, took_ms=ack.ms, by=ack.by, note=ack.note)
        for ack in control.acks
    ]
    pending = [
        CommandNote(
            command_line(each.command), "Waiting", "not acknowledged yet", time=each.time or control.pending_since,
            by=each.by, note=each.note,
        )
        for each in control.pending
    ]  # fmt: skip
    return (*acked, *pending)


def command_line(command: Command) -> str:
    """Return a command as a user types it."""
    match command.type:
        case "Pause" if command.pause is not None and command.pause.scope == "All":
            return "pause --with-changes"
        case "Throttle" if command.throttle is not None:
            limit = command.throttle
            parts = ["throttle"] + ([] if limit.rows_per_second is None else [str(limit.rows_per_second)])
            parts += [] if limit.bytes_per_second is None else [f"--bytes {limit.bytes_per_second}B"]
            parts += ["none"] if len(parts) == 1 else []
            return " ".join(parts + ([] if limit.for_seconds is None else [f"--for {_duration(limit.for_seconds)}"]))
        case "Rescale" if command.rescale is not None:
            return " ".join(("rescale", *width_arguments(command.rescale)))
        case _:
            return command.type.lower()


def _duration(seconds: int) -> str:
    """Return a duration as a user types it: in the largest unit that has a whole number."""
    size, unit = next(((size, unit) for size, unit in ((3600, "h"), (60, "m")) if seconds % size == 0), (1, "s"))
    return f"{seconds // size}{unit}"


def _tree(name: str, spec: BackfillSpec, status: BackfillStatus, pods: Sequence[PodNote], now: datetime) -> TreeNode:
    phase = status.phase or "Pending"
    info = "; ".join(_remarks(status.conditions))
    current = [] if status.attempt is None else [_attempt(status.attempt, phase, pods, now)]
    past = [_past_attempt(each) for each in reversed(status.history)]
    below = (*current, *past, _receipt(spec, status.receipt))
    mark = PHASE_MARKS.get(phase, "Waiting")
    return TreeNode(name, "Backfill", mark, phase, _seconds_since(status.start_time, now), info, below)


def _remarks(conditions: Sequence[Condition]) -> list[str]:
    """Return the conditions that are true and remarkable, and the newest command without an acknowledgement."""
    remarks = [each.type for each in conditions if each.status == "True" and each.type not in UNREMARKABLE]
    return [remark for remark in remarks if remark != "Failed"]


def _attempt(attempt: Attempt, phase: str, pods: Sequence[PodNote], now: datetime) -> TreeNode:
    running = attempt.state == "Created"
    mark: Mark = "Running" if running and phase == "Running" else "Waiting" if attempt.state != "Ended" else "Idle"
    below = tuple(TreeNode(pod.name, "Pod", pod.mark, pod.status, pod.age_s, pod.info) for pod in pods)
    kind = "Attempt" if attempt.kind == "Run" else "Plan"
    word = phase if running else attempt.state
    return TreeNode(f"attempt {attempt.number}", kind, mark, word, _seconds_since(attempt.start_time, now), "", below)


def _past_attempt(attempt: PastAttempt) -> TreeNode:
    mark: Mark = "Good" if attempt.exit_code == 0 else "Bad"
    took = None if attempt.end is None else _seconds_since(attempt.start, datetime.fromisoformat(attempt.end))
    info = "" if attempt.exit_code is None else f"exit {attempt.exit_code}"
    kind = "Attempt" if attempt.kind == "Run" else "Plan"
    return TreeNode(f"attempt {attempt.number}", kind, mark, attempt.reason or "ended", took, info)


def _receipt(spec: BackfillSpec, receipt: ReceiptSummary | None) -> TreeNode:
    if receipt is None:
        waits = spec.verify != "None" and spec.after == "Exit"
        return TreeNode("receipt", "Receipt", "Idle", "at the end" if waits else "none", info=f"verify: {spec.verify}")
    if not receipt.equal:
        return TreeNode("receipt", "Receipt", "Bad", "differs")
    return TreeNode("receipt", "Receipt", "Good", "equal" if receipt.complete else "equal so far")


def _seconds_since(moment: str | None, now: datetime) -> float | None:
    return None if moment is None else max(0.0, (now - datetime.fromisoformat(moment)).total_seconds())
