"""Translates between the control API and the core's commands."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from backfill_api.spec.bounds import MESSAGE_MAX, count
from backfill_api.spec.override import ThrottleSpec, Width
from backfill_api.status import receipt as api
from backfill_api.status.source_head import SourceHead
from backfill_api.wire import Ack, CommandRequest, PauseCommand, StopCommand, ThrottleCommand
from backfill_api.wire import Command as WireCommand
from backfill_core.protocol.actions import Acknowledge
from backfill_core.protocol.commands import Command, Limit, Pause, Rescale, Resume, Stop, Throttle, VerifyNow
from backfill_core.protocol.events import CommandReceived, Head
from backfill_core.protocol.receipt import FileDifference, PartitionComparison, TableReceipt
from backfill_core.protocol.work import Position


def received(request: CommandRequest) -> CommandReceived:
    """Return a request as the core's event."""
    return CommandReceived(request.attempt, request.revision, _command(request.command))


def _command(wire: WireCommand) -> Command:
    match wire.type:
        case "Pause":
            pause = wire.pause or PauseCommand()
            return Pause(everything=pause.scope == "All", force=pause.force)
        case "Resume":
            return Resume()
        case "Throttle":
            assert wire.throttle is not None
            return _throttle(wire.throttle)
        case "Rescale":
            assert wire.rescale is not None
            return Rescale(Width(**wire.rescale.given))
        case "Verify":
            return VerifyNow()
        case "Stop":
            return Stop(force=(wire.stop or StopCommand()).force)


def _throttle(wire: ThrottleCommand) -> Throttle:
    then = (
        None if wire.then is None else Limit(wire.then.rows_per_second, wire.then.bytes_per_second, wire.then.until_ms)
    )
    until_ms = ThrottleSpec(until=wire.until).until_ms
    return Throttle(wire.rows_per_second, wire.for_seconds, wire.bytes_per_second, until_ms, then)


def to_api_ack(ack: Acknowledge, **received: Any) -> Ack:
    """Convert the core's acknowledgement to the API's `Ack`; `received` has the fields that only the server knows."""
    outcome: Any = ack.outcome
    return Ack(
        attempt=ack.attempt, epoch=ack.epoch, revision=ack.revision, outcome=outcome, message=ack.message, **received
    )


def to_api_receipt(receipt: TableReceipt) -> api.Receipt:
    """Convert the core's receipt to the API's `TableReceipt`."""
    return api.Receipt(
        source_version=receipt.source_version,
        source_position=receipt.source_position,
        target_version=receipt.target_version,
        epoch=receipt.epoch,
        rows=receipt.rows,
        vnodes=receipt.vnodes,
        digest=receipt.digest,
        mismatches=tuple(
            api.Mismatch(vnode=mismatch.vnode, source_rows=mismatch.source_rows, target_rows=mismatch.target_rows)
            for mismatch in receipt.mismatches
        ),
        verified_at=None if receipt.verified_ms is None else format_timestamp(receipt.verified_ms),
        seconds=receipt.seconds,
        complete=receipt.complete,
        rows_filtered=receipt.rows_filtered,
        rows_total=receipt.rows_total,
        partitions=tuple(map(_to_api_partition, receipt.partitions[: api.PARTITIONS_MAX])),
        cut_off=tuple(
            api.CutOff(partition=offsets.partition, start=offsets.start, stop=offsets.stop)
            for offsets in receipt.cut_off[: api.PARTITIONS_MAX]
        ),
        files_by_bytes=receipt.files_by_bytes,
        rows_by_rows=receipt.rows_by_rows,
        files=tuple(_to_api_file(file) for file in receipt.files[: api.FILES_MAX]),
        condition=receipt.condition,
        undo_version=receipt.undo_version,
    )


def to_api_source_head(head: Head, position: Position, say: Callable[[Position], str], *, now_ms: int) -> SourceHead:
    """Convert the newest position of a source to the API's `SourceHead`, relative to the position that a target holds."""
    return SourceHead(
        version=count(head.position) if isinstance(head.position, int) else None,
        position=say(head.position)[:MESSAGE_MAX],
        behind=count(head.newer_than(position)),
        committed_at=format_timestamp(head.timestamp_ms),
        age_seconds=count((now_ms - head.timestamp_ms) // 1000),
    )


def _to_api_file(file: FileDifference) -> api.FileMismatch:
    return api.FileMismatch(path=file.path[-MESSAGE_MAX:], what=file.what[:MESSAGE_MAX])


def _to_api_partition(receipt: PartitionComparison) -> api.PartitionReceipt:
    return api.PartitionReceipt(
        partition=receipt.partition,
        start=receipt.start,
        stop=receipt.stop,
        records=receipt.records,
        first=receipt.first,
        last=receipt.last,
        # Negative if compaction ran between the reads of the two sides.
        gaps=max(0, receipt.gaps),
        bad_records=receipt.bad_records,
        rows=receipt.rows,
        target_rows=receipt.target_rows,
        target_first=receipt.target_first,
        target_last=receipt.target_last,
        missing=receipt.missing,
    )


FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_000
"""0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z, the limits for formatting; the log of a source may contain any number."""


def format_timestamp(ms: int) -> str:
    """Format milliseconds since 1970 as RFC 3339; times outside the years 1 to 9999 are clamped."""
    return datetime.fromtimestamp(max(FIRST_MS, min(ms, LAST_MS)) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
