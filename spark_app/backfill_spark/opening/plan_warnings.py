"""Warnings of a plan: what may end a job, slow it down, or surprise its user."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from backfill_api.amounts import counted, show_seconds
from backfill_api.spec.override import ThrottleSpec
from backfill_api.status.plan import PlannedTarget, PlanWarning
from backfill_core.pacing.open_transactions import warn_of_open
from backfill_core.pacing.retention import OF_A_TABLE, SHORT
from backfill_core.positions.file_order import FileOrder
from backfill_core.transfer.ways import Decoded, Way
from backfill_spark.opening.outlook import outlook
from backfill_spark.opening.source import PinnedSource, SubscribedSource
from backfill_spark.ports.source import PinnedTable
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from backfill_spark.driver.job_context import OpenedJob

SPREAD = 0.35
"""How far a sample of a second is off, measured over machines and tables: a third either way."""

TINY_FILE_BYTES = 1 << 20
HUGE_FILE_BYTES = 4 << 30
OVERLAP_WEAK_PERCENT = 50
TOPIC_HINTS = {
    "RetentionEnding": "Let the source keep its records for longer until the job is done, or begin at later offsets.",
    "NonConvergent": "Give the driver more cores, or let the producers write less.",
    "OpenTransaction": "Find the producer with kafka-transactions.sh find-hanging (docs/kafka.md).",
}


def merges_in_order(opened: OpenedJob) -> bool:
    """Does a target with one row a key get the records of a source with offsets?"""
    return opened.mode.merges and not isinstance(opened.opened, PinnedSource)


def key_unproven(
    opened: OpenedJob, settings: DriverSettings, *, unique: bool | None, rows_max: int
) -> tuple[PlanWarning, ...]:
    """Warn that two rows with one key would be found late, or never; up to `rows_max` rows the key is proven before the start."""
    if not opened.proves_key or unique is not None or settings.check_unique:
        return ()
    if opened.line is not None and settings.check_unique is None:
        return ()  # proven before the start, or range by range
    if settings.check_unique is False:
        words, hint = (
            "the key is not checked for uniqueness: duplicate keys stay duplicated.",
            "Unset BACKFILL_CHECK_UNIQUE.",
        )
    elif opened.opened.rows > rows_max:
        words = f"the key of more than {rows_max:,} rows is proven unique after all of them were copied."
        hint = "Prove it before with `backfill plan --check-unique`."
    else:
        return ()
    return (PlanWarning(reason="KeyUnproven", message=words, hint=hint),)


def emptied(files: Counter[str]) -> list[PlanWarning]:
    """Warn that an empty text becomes null, as in a write of Spark."""
    hint = "Partition the target by other columns, or replace the text in spec.transform.select."
    return [
        PlanWarning(
            reason="EmptyTextIsNull",
            message=f"the partition column {name} has an empty text in {counted(count, 'file')} of the source: the target stores null.",
            hint=hint,
        )
        for name, count in files.items()
    ]


def partitions_left_out(partitions: Sequence[str], target: PlannedTarget, *, exists: bool) -> list[PlanWarning]:
    """Warn that a target will be made without `partitions`: those of its source that it has as columns."""
    if exists or not partitions or target.partition_by or target.cluster_by:
        return []
    by = ", ".join(partitions)
    return [
        PlanWarning(
            reason="PartitionsLeftOut",
            message=f"the source is partitioned by {by}, and the target will have no partitions.",
            hint=f"Set partitionBy: [{by}] of the target to keep them.",
        )
    ]


def executors_idle(executors: int, files: Mapping[Way, int], *, merges: bool) -> list[PlanWarning]:
    """Warn of executors where no file is decoded and no change is merged: the driver copies files itself."""
    if not executors or merges or not files or any(isinstance(way, Decoded) for way in files):
        return []
    return [
        PlanWarning(
            reason="ExecutorsIdle",
            message="no file is decoded, so executors would be idle: the driver copies files itself.",
            hint="Set executor.instances to 0, and give the cores to driver.resources.",
        )
    ]


def starts_over(opened: OpenedJob) -> tuple[PlanWarning, ...]:
    """Say what an attempt of a strategy that cannot go on takes out first."""
    if opened.state is None or opened.start_over is None:
        return ()
    words = f"the strategy does not resume attempt {opened.state.attempt}: the job starts again"
    words += (
        f", and removes {counted(opened.state.rows_done, 'row')} of the target." if opened.start_over.drop_rows else "."
    )
    return (PlanWarning(reason="StartsOver", message=words, hint="Use a strategy that goes on, or let it begin anew."),)


def order_warnings(order: FileOrder | None) -> tuple[PlanWarning, ...]:
    """Warn where the order of the snapshot will not show, or cannot be told."""
    if order is None:
        return ()
    found: list[PlanWarning] = []
    if order.files_unknown:
        words = (
            f"the log has no smallest and largest {order.column} of {order.files_unknown:,} of {counted(len(order.files), 'file')}: "
            "they are read last, in path order, and no watermark is shown."
        )
        hint = "Let the source collect statistics of the column (delta.dataSkippingStatsColumns), then OPTIMIZE it."
        found.append(PlanWarning(reason="OrderUnknown", message=words, hint=hint))
    if order.overlap_percent > OVERLAP_WEAK_PERCENT:
        words = f"the values of {order.column} overlap in {order.overlap_percent} % of all pairs of files: the order says little."
        hint = f"Cluster the source by {order.column}, or leave the order out."
        found.append(PlanWarning(reason="OrderWeak", message=words, hint=hint))
    return tuple(found)


def doubts(opened: OpenedJob) -> tuple[PlanWarning, ...]:
    """Say what the strategy itself cannot promise."""
    doubts = opened.backfill.spec.strategy.params.doubts
    hint = "Use the default strategy for a table that matters."
    return tuple(PlanWarning(reason=reason, message=words, hint=hint) for reason, words in doubts.items())


def merged_in_order(opened: OpenedJob) -> tuple[PlanWarning, ...]:
    """Say what a target with one row a key costs, where the source has offsets."""
    if not merges_in_order(opened):
        return ()
    words = "the records of a partition are merged in their order: new ones are visible once the history of their partition is there."
    hint = "Use writeMode: Append to see new records while history is read."
    return (PlanWarning(reason="NewAfterHistory", message=words, hint=hint),)


def source_warnings(
    opened: OpenedJob, seconds: float, rate: float, retention: int | None, began_s: float
) -> tuple[PlanWarning, ...]:
    """Return the doubts about what a source keeps, and how fast it grows, while a job takes so many seconds."""
    source = opened.opened
    if isinstance(source, SubscribedSource):
        found = outlook(source, needed_s=seconds * (1 + SPREAD), read_per_s=rate, kept_s=retention)
        found += warn_of_open(source.found, opened.source.head(), opened_s=began_s, now_s=time.monotonic())
        return tuple(PlanWarning(reason=one.code, message=one.message, hint=TOPIC_HINTS[one.code]) for one in found)
    if retention is None or retention >= SHORT * seconds:
        return ()
    words = f"the source keeps what the job needs for {show_seconds(retention)}, it may take {show_seconds(round(seconds))}."
    return (PlanWarning(reason="RetentionShort", message=words, hint=f"Raise {OF_A_TABLE}."),)


def limit_warnings(limit: ThrottleSpec, *, unique: bool | None) -> list[PlanWarning]:
    """Return the doubts about any source."""
    found: list[PlanWarning] = []
    if unique is False:
        words = "the key is not unique: the job will refuse to start."
        found.append(PlanWarning(reason="KeyNotUnique", message=words, hint="Choose another key."))
    if 0 in (limit.rows_per_second, limit.bytes_per_second):
        field = "rowsPerSecond" if limit.rows_per_second == 0 else "bytesPerSecond"
        words = f"throttle.{field} is 0: the snapshot will not be read."
        found.append(PlanWarning(reason="HistoryHeld", message=words, hint="Raise it."))
    return found


def table_warnings(table: PinnedTable, change_feed: bool | None) -> list[PlanWarning]:
    """Return the doubts about a table; `change_feed`: `None` if the strategy reads none."""
    files, size_bytes = len(table.rows), sum(table.bytes)
    found: list[PlanWarning] = []
    if change_feed is False:
        words = "the source has no change feed: an update or delete will end the job."
        hint = "Set delta.enableChangeDataFeed = true on the source before the start."
        found.append(PlanWarning(reason="NoChangeFeed", message=words, hint=hint))
    if files > 100 and size_bytes / files < TINY_FILE_BYTES:
        words = f"{files} files of {size_bytes / files / 1e3:.0f} kB each read slowly."
        found.append(PlanWarning(reason="TinyFiles", message=words, hint="OPTIMIZE the source first."))
    if table.bytes and max(table.bytes) > HUGE_FILE_BYTES:
        words = (
            f"a file of {max(table.bytes) / 1e9:.1f} GB is one split, and is read again for each slice under a limit."
        )
        found.append(PlanWarning(reason="HugeFile", message=words, hint="Rewrite the source in files of about 1 GB."))
    return found
