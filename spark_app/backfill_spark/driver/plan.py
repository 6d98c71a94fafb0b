"""What a job would do, how long it would take on this machine, and warnings.

Nothing is written to source or target: the calibration writes a sample into a temporary folder of this machine, twice,
and the second time counts.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING

from backfill_api.spec.bounds import count as whole
from backfill_api.spec.override import ThrottleSpec
from backfill_api.spec.params import SourceAbility, SplitParams
from backfill_api.spec.spec import Backfill
from backfill_api.status.plan import (
    PARTITIONS_MAX,
    WAYS_MAX,
    Plan,
    PlannedFiles,
    PlannedOrder,
    PlannedPartition,
    PlannedPartitions,
    PlannedStep,
    PlanWarning,
)
from backfill_core.errors import DuplicateKeyError
from backfill_core.job.steps import (
    CATCH_UP,
    COPY,
    KEY_PROOF,
    RECEIPT,
    ROWS_PER_S,
    SCAN_S,
    START,
    catch_up_s,
    copy_s,
    merge_s,
    scan_s,
    slower,
)
from backfill_core.pacing.open_transactions import warn_of_open
from backfill_core.pacing.retention import OF_A_TABLE, SHORT
from backfill_core.pacing.row_costs import mean_row_bytes
from backfill_core.positions.file_order import FileOrder
from backfill_core.positions.offsets import Largest
from backfill_core.protocol.events import LimitSet
from backfill_core.transfer.ways import Decoded, Excluded, Way
from backfill_spark.driver.job_context import CHECK_UNIQUE_ROWS_MAX, JobContext, OpenedJob
from backfill_spark.driver.offline_verify import plan_after_end
from backfill_spark.opening.outlook import outlook
from backfill_spark.opening.source import OpenSource, PinnedSource, SubscribedSource
from backfill_spark.ports.source import PinnedTable
from backfill_spark.settings import DriverSettings
from backfill_spark.stop_signal import StopSignal
from backfill_spark.transfer.calibration import copied_rows_per_s
from backfill_spark.transfer.job_ways import JobWays

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE_ROWS_MAX = 400_000
SPREAD = 0.35
"""How far a sample of a second is off, measured over machines and tables: a third either way."""

FENCE_SECONDS = 3
"""The control server, the table that is made, the fence: what a run's start has and a plan has not."""

TINY_FILE_BYTES = 1 << 20
HUGE_FILE_BYTES = 4 << 30
OVERLAP_WEAK_PERCENT = 50
TOPIC_HINTS = {
    "RetentionEnding": "Let the source keep its records for longer until the job is done, or begin at later offsets.",
    "NonConvergent": "Give the driver more cores, or let the producers write less.",
    "OpenTransaction": "Find the producer with kafka-transactions.sh find-hanging (docs/kafka.md).",
}


def plan_job(
    backfill: Backfill,
    *,
    settings: DriverSettings,
    check_unique: bool = False,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
) -> Plan:
    """Open everything that a job names, and say what would happen.

    Args:
        backfill: The job.
        settings: Of this process.
        check_unique: Prove the key unique; reads the key columns once.
        spark: A session to use; else one is opened and closed again.
        stop: Cancels it when it is asked.

    Raises:
        BackfillError: the job could not start; the same errors as when it is run.
    """
    began_s = time.monotonic()
    stop = stop or StopSignal()
    with (
        JobContext.open(backfill, settings, command="plan", spark=spark, stop=stop) as context,
        stop.cancels_jobs_of(context.spark),
    ):
        state = context.state
        if state is not None and state.finished and not state.dropped(context.stored.txn_version):
            return plan_after_end(context, state)
        with context.open_job() as opened, opened.jobs_explained():
            return _plan(opened, backfill, settings, began_s, check_unique=check_unique)


def _plan(
    opened: OpenedJob, backfill: Backfill, settings: DriverSettings, began_s: float, *, check_unique: bool
) -> Plan:
    # A run opens the same things, so it needs the same time.
    start_s = time.monotonic() - began_s + FENCE_SECONDS
    source, spec = opened.opened, backfill.spec
    table, order = (source.table, source.order) if isinstance(source, PinnedSource) else (None, None)
    ways = None if table is None or opened.line is not None else JobWays.of(opened)
    counted = (
        Counter[Way]() if ways is None or table is None else ways.counts([i for i, n in enumerate(table.rows) if n])
    )
    rate = _calibrate(opened, settings.cores, ways, counted)
    steps = _steps(opened, backfill, settings, start_s, rate)
    seconds = sum(one.seconds for one in steps)
    source.check_no_null_key(spec.transform.where)
    unique = _is_unique(opened) if check_unique and spec.source.params.key and table is not None else None
    # Where the newest version is read, none must be kept.
    retention = opened.source.kept_seconds() if opened.line is None else None
    per_split = spec.strategy.params.rows_per_split(rate)
    reads_feed = SourceAbility.CHANGES in spec.strategy.variant.needs
    change_feed = table.change_feed if table is not None and reads_feed else None
    return Plan(
        rows=source.rows,
        bytes=0 if table is None else sum(table.bytes),
        files=0 if table is None else len(table.rows),
        splits=-(-source.rows // per_split),
        ways=_planned_ways(counted),
        version=None if table is None else table.version,
        estimated_seconds=whole(seconds),
        estimated_seconds_low=whole(seconds * (1 - SPREAD)),
        estimated_seconds_high=whole(seconds * (1 + SPREAD) + 1),
        key_columns=spec.source.params.key,
        key_unique=unique,
        key_nulls=0 if spec.source.params.key else None,
        change_feed=change_feed,
        retention_seconds=retention,
        target_exists=opened.sink.exists(),
        resumes_attempt=None if opened.state is None or opened.start_over is not None else opened.state.attempt,
        steps=steps,
        read_amplification_percent=None if opened.line is None else round(100 * opened.line.read_amplification),
        order=_planned_order(order),
        partitions=_partitions(source),
        warnings=(
            *_order_warnings(order),
            *_warnings(spec.throttle, unique=unique),
            *_source_warnings(opened, seconds, rate, retention, began_s),
            *([] if table is None else _table_warnings(table, change_feed)),
            *([] if ways is None or table is None else _emptied(ways.emptied(range(len(table.rows))))),
            *_key_unproven(opened, settings, unique=unique),
            *_starts_over(opened),
            *_doubts(opened),
            *_merged_in_order(opened),
        ),
    )


def _steps(
    opened: OpenedJob, backfill: Backfill, settings: DriverSettings, start_s: float, rate: float
) -> tuple[PlannedStep, ...]:
    """Return the steps of a whole job from its start, each with the time it takes at the rate of the sample."""
    spec, rows, per_s = backfill.spec, opened.opened.rows, rate or ROWS_PER_S
    # The sample measures rows on this machine; the start measures the rest.
    fixed_s = SCAN_S * (slower(start_s) - 1)
    times = {START: start_s, COPY: _copy_s(opened, rows, per_s)}
    # Ranges that hold all rows of a key prove it while they are read.
    first = settings.check_unique or rows <= CHECK_UNIQUE_ROWS_MAX or opened.splits_keys
    if opened.proves_key and settings.check_unique is not False and (first or opened.line is None):
        times[KEY_PROOF] = scan_s(KEY_PROOF, rows, per_s) + fixed_s
    times[CATCH_UP] = catch_up_s(opened.opened.newer(opened.source.head()), None)
    if spec.verify != "None" and spec.after == "Exit":
        times[RECEIPT] = scan_s(RECEIPT, rows, per_s) + fixed_s
    return tuple(PlannedStep(name=name, seconds=round(seconds)) for name, seconds in times.items())


def _copy_s(opened: OpenedJob, rows: int, per_s: float) -> float:
    """Return the seconds that the rows which are there take; where they are merged in order, a batch at a time."""
    spec = opened.backfill.spec
    limit, params = _limit(opened), spec.strategy.params
    if _merges_in_order(opened) and isinstance(params, SplitParams):
        return merge_s(rows, per_s, limit, batch_s=params.change_batch_seconds)
    return copy_s(rows, per_s, limit)


def _limit(opened: OpenedJob) -> float | None:
    """Return the limit in rows a second; one of bytes as rows of the mean size."""
    source, limits = opened.opened, opened.backfill.spec.throttle
    row_bytes = mean_row_bytes(source.table.rows, source.table.bytes) if isinstance(source, PinnedSource) else None
    return LimitSet(limits.rows_per_second, 0.0, limits.bytes_per_second).in_rows(row_bytes).rows_per_s


def _merges_in_order(opened: OpenedJob) -> bool:
    """Does a target with one row a key get the records of a source with offsets?"""
    return opened.mode.merges and not isinstance(opened.opened, PinnedSource)


def _planned_ways(counted: Counter[Way]) -> tuple[PlannedFiles, ...]:
    """Return the files of each way, those that are decoded by their reason; of columns with the same one, one is named."""
    files, words = Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for way, count in counted.most_common():
        reason = way.reason.name if isinstance(way, Decoded) else ""
        group = type(way).__name__, reason
        files[group] += count
        words.setdefault(group, str(way) if isinstance(way, Decoded) else "")
    return tuple(
        PlannedFiles(way=group[0], files=count, reason=words[group]) for group, count in files.most_common(WAYS_MAX)
    )


def _calibrate(opened: OpenedJob, cores: int, ways: JobWays | None, counted: Counter[Way]) -> float:
    """Return rows a second that this machine reads, transforms and writes, or copies; 0 for an empty source."""
    sample = opened.opened.sample(SAMPLE_ROWS_MAX)
    if not sample.count:
        return 0.0
    # A sample of one file keeps one core busy, a job all of them.
    busy = min(cores, sample.parts)
    files = max(1, counted.total())
    decoded = sum(count for way, count in counted.items() if isinstance(way, Decoded)) / files
    excluded = sum(count for way, count in counted.items() if isinstance(way, Excluded)) / files
    with tempfile.TemporaryDirectory(prefix="backfill-plan-") as folder:
        copied = None if ways is None else copied_rows_per_s(opened, ways, sample.files, folder)
        if copied is not None and not decoded:
            return copied * cores / max(1 - excluded, 1 / files)
        frame, seconds = opened.transform.apply(sample.rows), 0.0
        for attempt in range(2):
            began_s = time.monotonic()
            frame.write.parquet(f"{folder}/decoded{attempt}")
            seconds = time.monotonic() - began_s
    per_s = sample.count / seconds * cores / busy
    if copied is None:
        return per_s / max(1 - excluded, 1 / files)
    return 1 / (decoded / per_s + (1 - decoded - excluded) / (copied * cores))


def _key_unproven(opened: OpenedJob, settings: DriverSettings, *, unique: bool | None) -> tuple[PlanWarning, ...]:
    """Warn that two rows with one key would be found late, or never."""
    if not opened.proves_key or unique is not None or settings.check_unique:
        return ()
    if opened.line is not None and settings.check_unique is None:
        return ()  # proven before the start, or range by range
    if settings.check_unique is False:
        words, hint = (
            "the key is not checked for uniqueness: duplicate keys stay duplicated.",
            "Unset BACKFILL_CHECK_UNIQUE.",
        )
    elif opened.opened.rows > CHECK_UNIQUE_ROWS_MAX:
        words = f"the key of more than {CHECK_UNIQUE_ROWS_MAX:,} rows is proven unique after all of them were copied."
        hint = "Prove it before with `backfill plan --check-unique`."
    else:
        return ()
    return (PlanWarning(reason="KeyUnproven", message=words, hint=hint),)


def _emptied(files: Counter[str]) -> list[PlanWarning]:
    """Warn that an empty text becomes null, as in a write of Spark."""
    hint = "Partition the target by other columns, or replace the text in spec.transform.select."
    return [
        PlanWarning(
            reason="EmptyTextIsNull",
            message=f"the partition column {name} has an empty text in {count:,} files of the source: the target stores null.",
            hint=hint,
        )
        for name, count in files.items()
    ]


def _starts_over(opened: OpenedJob) -> tuple[PlanWarning, ...]:
    """Say what an attempt of a strategy that cannot go on takes out first."""
    if opened.state is None or opened.start_over is None:
        return ()
    words = f"the strategy does not go on from attempt {opened.state.attempt}: the job begins anew"
    words += f", and {opened.state.rows_done:,} rows leave the target first." if opened.start_over.drop_rows else "."
    return (PlanWarning(reason="StartsOver", message=words, hint="Use a strategy that goes on, or let it begin anew."),)


def _planned_order(order: FileOrder | None) -> PlannedOrder | None:
    if order is None:
        return None
    return PlannedOrder(
        column=order.column,
        direction=order.direction,
        overlap_percent=order.overlap_percent,
        files_unknown=order.files_unknown,
    )


def _order_warnings(order: FileOrder | None) -> tuple[PlanWarning, ...]:
    """Warn where the order of the snapshot will not show, or cannot be told."""
    if order is None:
        return ()
    found: list[PlanWarning] = []
    if order.files_unknown:
        words = (
            f"the log has no smallest and largest {order.column} of {order.files_unknown:,} of {len(order.files):,} files: "
            "they are read last, in path order, and no watermark is shown."
        )
        hint = "Let the source collect statistics of the column (delta.dataSkippingStatsColumns), then OPTIMIZE it."
        found.append(PlanWarning(reason="OrderUnknown", message=words, hint=hint))
    if order.overlap_percent > OVERLAP_WEAK_PERCENT:
        words = f"the values of {order.column} overlap in {order.overlap_percent} % of all pairs of files: the order says little."
        hint = f"Cluster the source by {order.column}, or leave the order out."
        found.append(PlanWarning(reason="OrderWeak", message=words, hint=hint))
    return tuple(found)


def _doubts(opened: OpenedJob) -> tuple[PlanWarning, ...]:
    """Say what the strategy itself cannot promise."""
    doubts = opened.backfill.spec.strategy.params.doubts
    hint = "Use the default strategy for a table that matters."
    return tuple(PlanWarning(reason=reason, message=words, hint=hint) for reason, words in doubts.items())


def _merged_in_order(opened: OpenedJob) -> tuple[PlanWarning, ...]:
    """Say what a target with one row a key costs, where the source has offsets."""
    if not _merges_in_order(opened):
        return ()
    words = "the records of a partition are merged in their order: new ones are visible once the history of their partition is there."
    hint = "Use writeMode: Append to see new records while history is read."
    return (PlanWarning(reason="NewAfterHistory", message=words, hint=hint),)


def _is_unique(opened: OpenedJob) -> bool:
    try:
        opened.check_one_row_a_key()
    except DuplicateKeyError:
        return False
    return True


def _partitions(source: OpenSource) -> PlannedPartitions | None:
    if not isinstance(source, SubscribedSource):
        return None
    rows = {name: end - source.found.first.get(name, 0) for name, end in source.found.newest.items()}
    largest = Largest.of(rows, PARTITIONS_MAX)
    return PlannedPartitions(
        largest=tuple(PlannedPartition(partition=name, rows=count) for name, count in largest.shown),
        others=largest.others,
        other_rows=largest.others_sum,
    )


def _source_warnings(
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
    words = f"the source keeps what the job needs for {retention} s, it may take {seconds:.0f} s."
    return (PlanWarning(reason="RetentionShort", message=words, hint=f"Raise {OF_A_TABLE}."),)


def _warnings(limit: ThrottleSpec, *, unique: bool | None) -> list[PlanWarning]:
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


def _table_warnings(table: PinnedTable, change_feed: bool | None) -> list[PlanWarning]:
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
