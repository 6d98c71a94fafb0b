"""Translates between the control API and the core's commands."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from backfill_api.spec.bounds import MESSAGE_MAX, count
from backfill_api.status import receipt as words
from backfill_api.status.source_head import SourceHead
from backfill_api.wire import Ack, CommandRequest, PauseCommand, StopCommand
from backfill_api.wire import Command as WireCommand
from backfill_core.protocol.actions import Acknowledge
from backfill_core.protocol.commands import Command, Pause, Resume, Stop, Throttle, VerifyNow
from backfill_core.protocol.events import CommandReceived, Head
from backfill_core.protocol.receipt import FileMismatch, PartitionReceipt, Receipt
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
            return Throttle(wire.throttle.rows_per_second, wire.throttle.for_seconds, wire.throttle.bytes_per_second)
        case "Verify":
            return VerifyNow()
        case "Stop":
            return Stop(force=(wire.stop or StopCommand()).force)


def ack_words(ack: Acknowledge) -> Ack:
    """Return the core's acknowledgement in the words of the contract."""
    outcome: Any = ack.outcome
    return Ack(attempt=ack.attempt, epoch=ack.epoch, revision=ack.revision, outcome=outcome, message=ack.message)


def receipt_words(receipt: Receipt) -> words.Receipt:
    """Return the core's receipt in the words of the contract."""
    return words.Receipt(
        source_version=receipt.source_version,
        source_position=receipt.source_position,
        target_version=receipt.target_version,
        epoch=receipt.epoch,
        rows=receipt.rows,
        vnodes=receipt.vnodes,
        digest=receipt.digest,
        mismatches=tuple(
            words.Mismatch(vnode=one.vnode, source_rows=one.source_rows, target_rows=one.target_rows)
            for one in receipt.mismatches
        ),
        verified_at=None if receipt.verified_ms is None else moment_words(receipt.verified_ms),
        seconds=receipt.seconds,
        complete=receipt.complete,
        rows_filtered=receipt.rows_filtered,
        rows_total=receipt.rows_total,
        partitions=tuple(map(_partition_words, receipt.partitions[: words.PARTITIONS_MAX])),
        cut_off=tuple(
            words.CutOff(partition=one.partition, start=one.start, stop=one.stop)
            for one in receipt.cut_off[: words.PARTITIONS_MAX]
        ),
        files_by_bytes=receipt.files_by_bytes,
        rows_by_rows=receipt.rows_by_rows,
        files=tuple(_file_words(one) for one in receipt.files[: words.FILES_MAX]),
    )


def source_head_words(head: Head, position: Position, say: Callable[[Position], str], *, now_ms: int) -> SourceHead:
    """Return the newest position of a source beside the position that a target holds, in the words of the contract."""
    return SourceHead(
        version=count(head.position) if isinstance(head.position, int) else None,
        position=say(head.position)[:MESSAGE_MAX],
        behind=count(head.newer_than(position)),
        committed_at=moment_words(head.timestamp_ms),
        age_seconds=count((now_ms - head.timestamp_ms) // 1000),
    )


def _file_words(one: FileMismatch) -> words.FileMismatch:
    return words.FileMismatch(path=one.path[-MESSAGE_MAX:], what=one.what[:MESSAGE_MAX])


def _partition_words(one: PartitionReceipt) -> words.PartitionReceipt:
    return words.PartitionReceipt(
        partition=one.partition,
        start=one.start,
        stop=one.stop,
        records=one.records,
        first=one.first,
        last=one.last,
        # Compaction may run between the two looks.
        gaps=max(0, one.gaps),
        bad_records=one.bad_records,
        rows=one.rows,
        target_rows=one.target_rows,
        target_first=one.target_first,
        target_last=one.target_last,
        missing=one.missing,
    )


FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_000
"""0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z; the log of a source holds any number."""


def moment_words(ms: int) -> str:
    """Return milliseconds since 1970 as RFC 3339, of the years 1 to 9999."""
    return datetime.fromtimestamp(max(FIRST_MS, min(ms, LAST_MS)) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
