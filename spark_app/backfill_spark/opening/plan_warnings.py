"""Warnings of a plan: facts that may end a job, slow it down, or surprise its user."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from backfill_api.amounts import counted, show_seconds
from backfill_api.spec.combinations import counts_requests
from backfill_api.spec.override import ThrottleSpec
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.plan import PlannedTarget, PlanWarning
from backfill_core.file_copies.copy_modes import CopyMode, Decoded, Hiding
from backfill_core.job.state import JobState
from backfill_core.pacing.open_transactions import warn_of_open
from backfill_core.pacing.retention import OF_A_TABLE, SHORT
from backfill_core.positions.file_order import FileOrder
from backfill_core.protocol.strategy import StartOver
from backfill_core.source_fence.hold import HELD_DAYS
from backfill_spark.opening.retention_forecast import outlook
from backfill_spark.opening.source import PinnedSource, SubscribedSource
from backfill_spark.opening.tables import Tables
from backfill_spark.ports.source import PinnedTable
from backfill_spark.settings import DriverSettings

SPREAD = 0.35
"""Error of an estimate from a sample of one second, measured over machines and tables: about a third in both directions."""

TINY_FILE_BYTES = 1 << 20
HUGE_FILE_BYTES = 4 << 30
OVERLAP_WEAK_PERCENT = 50
TOPIC_HINTS = {
    "RetentionEnding": "Raise the source's retention until the job is complete, or start at later offsets.",
    "NonConvergent": "Give the driver more cores, or slow down the producers.",
    "OpenTransaction": "Find the producer with kafka-transactions.sh find-hanging (docs/kafka.md).",
}


def merges_in_order(tables: Tables) -> bool:
    """Return True if a target with one row per key gets the records of a source with offsets."""
    return tables.mode.merges and not isinstance(tables.opened, PinnedSource)


def key_unproven(
    tables: Tables, settings: DriverSettings, *, unique: bool | None, by_range: bool, rows_max: int
) -> tuple[PlanWarning, ...]:
    """Warn that duplicate keys would be found late, or never; with at most `rows_max` rows, the key is proven before the start."""
    if not tables.proves_key or unique is not None or settings.check_unique:
        return ()
    hidden = tables.spec.target.params.publish != "Continuously"
    if (by_range or hidden) and settings.check_unique is None:
        return ()  # proven before the start, or range by range
    if settings.check_unique is False:
        message, hint = (
            "the key is not checked for uniqueness: duplicate keys stay duplicated.",
            "Unset BACKFILL_CHECK_UNIQUE.",
        )
    elif tables.opened.rows > rows_max:
        message = (
            f"the source has more than {rows_max:,} rows: the key is proven unique only after all of them are copied."
        )
        hint = "To prove it before the run, use `backfill plan --check-unique`."
    else:
        return ()
    return (PlanWarning(reason="KeyUnproven", message=message, hint=hint),)


def emptied(files: Counter[str]) -> list[PlanWarning]:
    """Warn that an empty string becomes null, as in a write of Spark."""
    hint = "Partition the target by other columns, or replace the empty string in spec.transform.select."
    return [
        PlanWarning(
            reason="EmptyTextIsNull",
            message=f"the partition column {name} has an empty string in {counted(count, 'file')} of the source: the target stores null.",
            hint=hint,
        )
        for name, count in files.items()
    ]


def rows_stay(rows: int | None) -> list[PlanWarning]:
    """Warn that rows which the filter leaves out stay in the target's files; `None` if all of them are left out of the files."""
    if rows is None:
        return []
    message = f"about {counted(rows, 'row')} that the filter leaves out will stay in the target's files, hidden from readers of the table."
    hint = "Set filteredRows: Rewritten if they must not be there, or purge them after the job (docs/cloning.md)."
    return [PlanWarning(reason="HiddenRowsStay", message=message, hint=hint)]


def partitions_left_out(partitions: Sequence[str], target: PlannedTarget, *, exists: bool) -> list[PlanWarning]:
    """Warn that the new target will have no partitions; `partitions` are the source's partition columns that the target gets."""
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


def executors_idle(executors: int, files: Mapping[CopyMode, int], *, merges: bool) -> list[PlanWarning]:
    """Warn of idle executors if no file is decoded, no filter is evaluated and no change is merged: the driver copies files itself."""
    if not executors or merges or not files or any(isinstance(mode, Decoded | Hiding) for mode in files):
        return []
    return [
        PlanWarning(
            reason="ExecutorsIdle",
            message="no file is decoded, so executors would be idle: the driver copies files itself.",
            hint="Set executor.instances to 0, and give the cores to driver.resources.",
        )
    ]


def starts_over(state: JobState | None, start_over: StartOver | None) -> tuple[PlanWarning, ...]:
    """Warn that the next attempt starts from the beginning, and name the number of rows that it removes first."""
    if state is None or start_over is None:
        return ()
    message = f"the strategy does not resume attempt {state.attempt}: the job starts again"
    message += f", and removes {counted(state.rows_done, 'row')} of the target." if start_over.drop_rows else "."
    hint = "Use a resumable strategy, or accept the restart."
    return (PlanWarning(reason="StartsOver", message=message, hint=hint),)


def schedule_ignored(spec: BackfillSpec) -> tuple[PlanWarning, ...]:
    """Warn that nothing runs the schedule of a job without an operator, which does not pass it to its drivers."""
    if spec.refresh is None:
        return ()
    message = f"spec.refresh.schedule ({spec.refresh.text}) is ignored: only an operator on Kubernetes starts a refresh at these times."
    hint = "Run `backfill run --refresh` at these times, for example from cron."
    return (PlanWarning(reason="ScheduleIgnored", message=message, hint=hint),)


def order_warnings(order: FileOrder | None) -> tuple[PlanWarning, ...]:
    """Warn if the files have no known order, or if their values overlap so that the order has little effect."""
    if order is None:
        return ()
    warnings: list[PlanWarning] = []
    if order.files_unknown:
        message = (
            f"the log has no minimum and maximum of {order.column} for {order.files_unknown:,} of {counted(len(order.files), 'file')}: "
            "they are read last, in path order, and no watermark is shown."
        )
        hint = "Let the source collect statistics of the column (delta.dataSkippingStatsColumns), then OPTIMIZE it."
        warnings.append(PlanWarning(reason="OrderUnknown", message=message, hint=hint))
    if order.overlap_percent > OVERLAP_WEAK_PERCENT:
        message = f"the values of {order.column} overlap in {order.overlap_percent} % of all pairs of files: the order has little effect."
        hint = f"Cluster the source by {order.column}, or leave the order out."
        warnings.append(PlanWarning(reason="OrderWeak", message=message, hint=hint))
    return tuple(warnings)


def doubts(spec: BackfillSpec) -> tuple[PlanWarning, ...]:
    """Return warnings about guarantees that the strategy itself cannot give, and about a schedule without an operator."""
    doubts = spec.strategy.params.doubts
    hint = "Use the default strategy for a table that matters."
    warnings = [PlanWarning(reason=reason, message=message, hint=hint) for reason, message in doubts.items()]
    return (*warnings, *schedule_ignored(spec))


def merged_in_order(tables: Tables) -> tuple[PlanWarning, ...]:
    """Warn that new records become visible late if records are merged into a target with one row per key."""
    if not merges_in_order(tables):
        return ()
    message = "the records of a partition are merged in their order: new records are visible only after all history of their partition."
    hint = "Use writeMode: Append to see new records while history is read."
    return (PlanWarning(reason="NewAfterHistory", message=message, hint=hint),)


def source_warnings(
    tables: Tables, seconds: float, rate: float, retention: int | None, began_s: float
) -> tuple[PlanWarning, ...]:
    """Return warnings about the source's retention and growth during a job that takes `seconds`."""
    source = tables.opened
    if isinstance(source, SubscribedSource):
        warnings = outlook(source, needed_s=seconds * (1 + SPREAD), read_per_s=rate, kept_s=retention)
        warnings += warn_of_open(source.answer, tables.source.head(), opened_s=began_s, now_s=time.monotonic())
        return tuple(
            PlanWarning(reason=warning.code, message=warning.message, hint=TOPIC_HINTS[warning.code])
            for warning in warnings
        )
    if retention is None or retention >= SHORT * seconds:
        return ()
    kept, needed = show_seconds(retention), show_seconds(round(seconds))
    message = f"the source keeps the versions that the job needs for {kept}, and the job may take {needed}."
    return (PlanWarning(reason="RetentionShort", message=message, hint=f"Raise {OF_A_TABLE}."),)


def hold_warnings(extended: Sequence[str]) -> tuple[PlanWarning, ...]:
    """State that a run changes properties of the source, which are named, until the job's end."""
    if not extended:
        return ()
    names = " and ".join(extended)
    message = (
        f"the run sets {names} of the source to {HELD_DAYS} days, and restores the earlier value at the end of the job."
    )
    hint = "It needs write access to the source's log. hold: Warn changes nothing there."
    return (PlanWarning(reason="RetentionExtended", message=message, hint=hint),)


def limit_warnings(limit: ThrottleSpec, *, unique: bool | None, now_ms: int) -> list[PlanWarning]:
    """Return warnings about the key and the limits, for any source."""
    warnings: list[PlanWarning] = []
    if limit.until_ms is not None and limit.until_ms <= now_ms:
        message = f"throttle.until {limit.until} is past: the limit is not in force."
        warnings.append(PlanWarning(reason="LimitEnded", message=message, hint="Set a later time, or remove throttle."))
        limit = ThrottleSpec()
    if unique is False:
        message = "the key is not unique: the job will refuse to start."
        warnings.append(PlanWarning(reason="KeyNotUnique", message=message, hint="Choose another key."))
    if 0 in (limit.rows_per_second, limit.bytes_per_second):
        field = "rowsPerSecond" if limit.rows_per_second == 0 else "bytesPerSecond"
        message = f"throttle.{field} is 0: the snapshot will not be read."
        warnings.append(PlanWarning(reason="HistoryHeld", message=message, hint="Raise it."))
    return warnings


def store_warnings(tables: Tables) -> list[PlanWarning]:
    """Return a warning for each store whose refused requests `throttle.auto.storeErrors` cannot count."""
    auto = tables.spec.throttle.auto
    if auto is None or auto.store_errors is None:
        return []
    message = "throttle.auto.storeErrors does not count requests to {}, because only S3 stores (s3a://) count them."
    hint = "Add commitSeconds, which any store has, if this one is the busy one."
    return [
        PlanWarning(reason="RequestsUncounted", message=message.format(folder), hint=hint)
        for folder in tables.folders
        if not counts_requests(folder)
    ]


def table_warnings(table: PinnedTable, change_feed: bool | None) -> list[PlanWarning]:
    """Return warnings about a table; `change_feed` is `None` if the strategy reads none."""
    files, size_bytes = len(table.rows), sum(table.bytes)
    warnings: list[PlanWarning] = []
    if change_feed is False:
        message = "the source has no change feed: an update or delete will end the job."
        hint = "Set delta.enableChangeDataFeed = true on the source before the start."
        warnings.append(PlanWarning(reason="NoChangeFeed", message=message, hint=hint))
    if files > 100 and size_bytes / files < TINY_FILE_BYTES:
        message = f"{files} files of {size_bytes / files / 1e3:.0f} kB on average are slow to read."
        warnings.append(PlanWarning(reason="TinyFiles", message=message, hint="OPTIMIZE the source first."))
    if table.bytes and max(table.bytes) > HUGE_FILE_BYTES:
        message = (
            f"a file of {max(table.bytes) / 1e9:.1f} GB is one split, and is read again for each slice under a limit."
        )
        warnings.append(
            PlanWarning(reason="HugeFile", message=message, hint="Rewrite the source in files of about 1 GB.")
        )
    return warnings
