"""Frames of a local job: from its driver, or from the state in its target."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.progress import LimitInForce, Progress
from backfill_api.status.receipt import Receipt
from backfill_api.status.source_head import SourceHead
from backfill_api.wire import Ack
from backfill_console.frame import CommandNote, JobFrame, Mark, Table, Trend

RESTING = {
    "NotStarted": "not started: the target has no state of this job",
    "Stopped": "stopped; `backfill run` resumes it",
    "Finished": "complete",
}
"""Messages for the states of a local job without a driver."""

ACK_MARKS: dict[str, Mark] = {"Applied": "Good", "Pending": "Waiting", "Superseded": "Idle"}


def frame_of_driver(
    job_id: str,
    progress: Progress,
    *,
    now: datetime,
    spec: BackfillSpec | None = None,
    acks: Sequence[Ack] = (),
    receipt: Receipt | None = None,
    trend: Trend | None = None,
    up_s: float | None = None,
    note: str = "",
    keys: Sequence[tuple[str, str]] = (),
) -> JobFrame:
    """Return the frame of a job whose driver runs or starts on this machine.

    Args:
        job_id: Its id.
        progress: As the driver reports it.
        now: Time of the frame, with a time zone.
        spec: Its spec, which names strategy and tables; `None` if unknown.
        acks: Acknowledgements of commands, oldest first.
        receipt: The newest receipt.
        trend: Samples of rate and lag during a watch.
        up_s: Seconds since the command began.
        note: Message to the user in front of the screen.
        keys: Keys that the screen accepts, each with its action.
    """
    return JobFrame(
        name=job_id,
        now=now,
        progress=progress,
        strategy=strategy_of(spec),
        source=source_of(spec, progress),
        target=target_of(spec, progress),
        limit=limit_of(progress),
        commands=tuple(note_of_ack(ack) for ack in acks),
        receipt=receipt,
        trend=trend or Trend(),
        up_s=up_s,
        note=note,
        keys=tuple(keys),
    )


def frame_of_stored(
    job_id: str,
    state: str,
    progress: Progress,
    *,
    now: datetime,
    spec: BackfillSpec | None = None,
    receipt: Receipt | None = None,
    head: SourceHead | None = None,
) -> JobFrame:
    """Return the frame of a job without a driver, from the state in its target.

    Args:
        job_id: Its id.
        state: `NotStarted`, `Stopped` or `Finished`.
        progress: The fields that the target stores.
        now: Time of the frame, with a time zone.
        spec: Its spec, which names strategy and tables; `None` if unknown.
        receipt: The newest receipt.
        head: Newest position of the source of a job that has ended.
    """
    return JobFrame(
        name=job_id,
        now=now,
        progress=progress,
        phase=state,
        resting=RESTING.get(state, state),
        strategy=strategy_of(spec),
        source=source_of(spec, progress),
        target=target_of(spec, progress),
        limit=limit_of(progress),
        receipt=receipt,
        head=head,
    )


def strategy_of(spec: BackfillSpec | None) -> str:
    """Return the name of the strategy; empty without a spec."""
    return "" if spec is None else spec.strategy.type


def source_of(spec: BackfillSpec | None, progress: Progress) -> Table | None:
    """Return the source with the part of it that the target holds; `None` without a spec."""
    if spec is None:
        return None
    consumed = progress.consumed_version
    return Table(spec.source.params.label, progress.consumed_position if consumed is None else str(consumed))


def target_of(spec: BackfillSpec | None, progress: Progress) -> Table | None:
    """Return the target with the version of the newest commit; `None` without a spec."""
    if spec is None:
        return None
    version = progress.table_version
    return Table(spec.target.params.label, "" if version is None else str(version))


def limit_of(progress: Progress) -> LimitInForce | None:
    """Return the limit in force, also as drivers of earlier versions report it; `None` if there is none."""
    rows, size = progress.throttle_rows_per_second, progress.throttle_bytes_per_second
    if progress.limit is not None or (rows is None and size is None):
        return progress.limit
    return LimitInForce(rows_per_second=rows, bytes_per_second=size, until=progress.throttle_until)


def note_of_ack(ack: Ack) -> CommandNote:
    """Return an acknowledgement of a driver; one that came with its start, or from an older driver, has only a number."""
    mark = ACK_MARKS.get(ack.outcome, "Bad")
    text = f"revision {ack.revision}" if ack.type is None else ack.type.lower()
    return CommandNote(text, mark, ack.outcome.lower(), ack.epoch, time=ack.time, took_ms=ack.ms, note=ack.message)
