"""The plan of a job: its steps, the estimated duration on this machine, and warnings.

A plan writes nothing to source or target. The calibration writes a sample twice into a temporary folder of this machine,
and measures the second write.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from backfill_api.spec.bounds import count as whole
from backfill_api.spec.params import SourceAbility, SplitParams
from backfill_api.spec.spec import BackfillResource, BackfillSpec
from backfill_api.status.plan import (
    PARTITIONS_MAX,
    WAYS_MAX,
    Plan,
    PlannedFiles,
    PlannedOrder,
    PlannedPartition,
    PlannedPartitions,
    PlannedStep,
    PlannedTarget,
    PlanWarning,
)
from backfill_core.errors import DuplicateKeyError
from backfill_core.file_copies.copy_modes import CopyMode, Decoded, Excluded, Hiding, Whole, name_of
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
from backfill_core.pacing.row_costs import mean_row_bytes
from backfill_core.positions.file_order import FileOrder
from backfill_core.positions.offsets import Largest
from backfill_core.protocol.events import LimitSet
from backfill_core.protocol.publication import Publish
from backfill_core.source_fence.hold import HELD_S
from backfill_spark.driver.fence import planned_hold
from backfill_spark.driver.gauges import gauges
from backfill_spark.driver.job_context import CHECK_UNIQUE_ROWS_MAX, JobContext, OpenedJob
from backfill_spark.driver.offline_verify import plan_after_end
from backfill_spark.file_copies.calibration import copied_rows_per_s, hidden_rows
from backfill_spark.file_copies.mover_trial import MoverTrial, tried
from backfill_spark.file_copies.planner import JobCopyModes
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.opening.plan_warnings import (
    SPREAD,
    doubts,
    emptied,
    executors_idle,
    hold_warnings,
    key_unproven,
    limit_warnings,
    merged_in_order,
    merges_in_order,
    order_warnings,
    partitions_left_out,
    rows_stay,
    source_warnings,
    starts_over,
    store_warnings,
    table_warnings,
)
from backfill_spark.opening.source import OpenSource, PinnedSource, SubscribedSource
from backfill_spark.opening.tables import Tables
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.sink import DescribesTarget, LiveTarget
from backfill_spark.ports.source import SupportsFiles
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

REASON_CHARACTERS = 500
"""Maximum length of the reason why files are decoded."""

SAMPLE_ROWS_MAX = 400_000
FENCE_SECONDS = 3
"""Seconds of a run's start that a plan does not have: the control server, the creation of the table, the fence."""


def plan_job(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    check_unique: bool = False,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
    starting: Callable[[str], None] = lambda _: None,
) -> Plan:
    """Open everything that a job names, and describe the run.

    Args:
        backfill: The job.
        settings: Settings of this process.
        check_unique: Prove the key unique; reads the key columns once.
        spark: A session to use; by default, a session is opened and closed again.
        stop: A requested stop cancels the plan.
        starting: Called before each step.

    Raises:
        BackfillError: the job could not start; a run raises the same errors.
    """
    began_s = time.monotonic()
    stop = stop or StopSignal()
    with (
        JobContext.open(backfill, settings, command="plan", spark=spark, stop=stop, starting=starting) as context,
        stop.cancels_jobs_of(context.spark),
    ):
        state = context.state
        if state is not None and state.finished and not state.dropped(context.stored.txn_version):
            ended = plan_after_end(context, state)
            if ended is not None:
                return ended
        with context.open_job() as opened, opened.tables.jobs_explained():
            gauges(opened)  # raises the error of a run for a target that cannot be measured
            starting("reading and writing a sample")
            return _plan(opened, backfill, settings, began_s, check_unique=check_unique)


def _plan(
    opened: OpenedJob, backfill: BackfillResource, settings: DriverSettings, began_s: float, *, check_unique: bool
) -> Plan:
    # A run opens the same tables, so it needs the same time.
    start_s = time.monotonic() - began_s + FENCE_SECONDS
    tables, spec, by_key = opened.tables, backfill.spec, opened.line is not None
    source = tables.opened
    table, order = (source.table, source.order) if isinstance(source, PinnedSource) else (None, None)
    modes = None if table is None or by_key else JobCopyModes.of(tables)
    filled, rows, files, size = _read(tables)
    counted = Counter[CopyMode]() if modes is None else modes.counts(filled)
    trial, rate = _measured(tables, settings.cores, modes, counted, filled)
    steps = _steps(opened, backfill, settings, start_s, rate, rows)
    seconds = sum(step.seconds for step in steps)
    source.check_no_null_key(spec.transform.where)
    unique = _is_unique(tables) if check_unique and spec.source.params.key and table is not None else None
    retention = _retention(tables, by_key=by_key)
    reads_feed = SourceAbility.CHANGES in spec.strategy.variant.needs
    change_feed = table.change_feed if table is not None and reads_feed else None
    exists, schema = tables.sink.exists(), tables.transform.output_schema(tables.spark, source.schema)
    kept = () if table is None else tuple(name for name in table.partitions if name in schema.names)
    target = _planned_target(tables, schema)
    return Plan(
        rows=rows,
        bytes=size,
        files=files,
        splits=-(-rows // spec.strategy.params.rows_per_split(rate)),
        ways=_planned_modes(counted),
        mover=None if trial is None else trial.planned,
        version=None if table is None else table.version,
        estimated_seconds=whole(seconds),
        estimated_seconds_low=whole(seconds * (1 - SPREAD)),
        estimated_seconds_high=whole(seconds * (1 + SPREAD) + 1),
        key_columns=spec.source.params.key,
        key_unique=unique,
        key_nulls=0 if spec.source.params.key else None,
        change_feed=change_feed,
        retention_seconds=retention,
        target_exists=exists,
        target=target,
        resumes_attempt=None if opened.state is None or opened.start_over is not None else opened.state.attempt,
        steps=steps,
        read_amplification_percent=None if opened.line is None else round(100 * opened.line.read_amplification),
        order=_planned_order(order),
        partitions=_partitions(source),
        warnings=(
            *order_warnings(order),
            *limit_warnings(spec.throttle, unique=unique, now_ms=round(time.time() * 1000)),
            *store_warnings(tables),
            *source_warnings(tables, seconds, rate, retention, began_s),
            *hold_warnings(planned_hold(opened.spark, backfill)),
            *([] if table is None else table_warnings(table, change_feed)),
            *_file_warnings(tables, settings, modes, counted, filled),
            *key_unproven(tables, settings, unique=unique, by_range=by_key, rows_max=CHECK_UNIQUE_ROWS_MAX),
            *starts_over(opened.state, opened.start_over),
            *([] if target is None else partitions_left_out(kept, target, exists=exists)),
            *doubts(spec),
            *merged_in_order(tables),
        ),
    )


def _files_read(tables: Tables) -> list[int]:
    """Return the files with rows; of a live table, those that are left to fill."""
    source, live = tables.opened, tables.sink
    if not isinstance(source, PinnedSource):
        return []
    rows, version = source.table.rows, source.table.version
    if not isinstance(live, LiveTarget):
        return [file for file, count in enumerate(rows) if count]
    listed = ability(tables.source, SupportsFiles).files_of(version)
    return [file for file in live.left_to_fill(version, listed) if rows[file]]


def _read(tables: Tables) -> tuple[list[int], int, int, int]:
    """Return the files with rows that a job reads, and the rows, files and bytes of the plan."""
    source, filled = tables.opened, _files_read(tables)
    if not isinstance(source, PinnedSource):
        return filled, source.rows, 0, 0
    rows, sizes = source.table.rows, source.table.bytes
    if not isinstance(tables.sink, LiveTarget):
        return filled, source.rows, len(rows), sum(sizes)
    return filled, sum(rows[file] for file in filled), len(filled), sum(sizes[file] for file in filled)


def _retention(tables: Tables, *, by_key: bool) -> int | None:
    """Return the seconds for which a run can read the versions that it needs; `None` if it needs only the newest one."""
    # A job that reads by key always reads the newest version, so the source need not keep older versions.
    kept_s = None if by_key else tables.source.kept_seconds()
    return kept_s if kept_s is None or not tables.spec.source.params.extends_retention else max(kept_s, HELD_S)


def _planned_target(tables: Tables, schema: StructType) -> PlannedTarget | None:
    """Return the layout of the target, and when readers see its rows; `None` if the target does not describe itself."""
    if not isinstance(tables.sink, DescribesTarget):
        return None
    return tables.sink.planned(schema).model_copy(update={"publish": tables.spec.target.params.publish})


def _file_warnings(
    tables: Tables,
    settings: DriverSettings,
    modes: JobCopyModes | None,
    counted: Counter[CopyMode],
    filled: Sequence[int],
) -> list[PlanWarning]:
    """Return warnings that follow from the copy modes of the files."""
    if modes is None:
        return []
    files, executors = len(tables.pinned.rows), _executors(tables.spec, settings)
    hides = any(isinstance(mode, Hiding) for mode in counted)
    hidden = hidden_rows(tables, modes, filled, rows_max=SAMPLE_ROWS_MAX) if hides else None
    return [
        *emptied(modes.emptied(range(files))),
        *rows_stay(hidden),
        *executors_idle(executors, counted, merges=tables.mode.merges),
    ]


def _executors(spec: BackfillSpec, settings: DriverSettings) -> int:
    """Return the maximum number of executors that a spec requests; a local Spark has none unless the spec sets them."""
    if spec.executor.dynamic is not None:
        return spec.executor.dynamic.max
    default = 1 if settings.master == "cluster" else 0
    return default if spec.executor.instances is None else spec.executor.instances


def _steps(
    opened: OpenedJob, backfill: BackfillResource, settings: DriverSettings, start_s: float, rate: float, rows: int
) -> tuple[PlannedStep, ...]:
    """Return the steps of a whole job from its start, each with the time it takes for `rows` at the rate of the sample."""
    tables, spec, per_s = opened.tables, backfill.spec, rate or ROWS_PER_S
    # The sample measures the rate of rows on this machine; the duration of the start scales the fixed costs.
    fixed_s = SCAN_S * (slower(start_s) - 1)
    times = {START: start_s, COPY: _copy_s(tables, rows, per_s)}
    # Ranges that contain all rows of a key prove it while they are read, without a separate step.
    publish = Publish(spec.target.params.publish)
    hidden = publish is not Publish.CONTINUOUSLY
    first = settings.check_unique or rows <= CHECK_UNIQUE_ROWS_MAX or opened.splits_keys or hidden
    if tables.proves_key and settings.check_unique is not False and (first or opened.line is None):
        times[KEY_PROOF] = scan_s(KEY_PROOF, rows, per_s) + fixed_s
    if spec.target.params.scope is None:
        times[CATCH_UP] = catch_up_s(tables.opened.newer(tables.source.head()), None)
    if publish is Publish.WHEN_VERIFIED or (spec.verify != "None" and spec.after == "Exit"):
        times[RECEIPT] = scan_s(RECEIPT, rows, per_s) + fixed_s
    return tuple(PlannedStep(name=name, seconds=round(seconds)) for name, seconds in times.items())


def _copy_s(tables: Tables, rows: int, per_s: float) -> float:
    """Return the seconds that the existing rows take; if they are merged in order, they are copied batch by batch."""
    limit, params = _limit(tables), tables.spec.strategy.params
    if merges_in_order(tables) and isinstance(params, SplitParams):
        return merge_s(rows, per_s, limit, batch_s=params.change_batch_seconds)
    return copy_s(rows, per_s, limit)


def _limit(tables: Tables) -> float | None:
    """Return the limit in rows a second, `None` once its `until` is past; a limit of bytes is converted with the average size of a row."""
    source, limits = tables.opened, tables.spec.throttle
    rows_per_s, bytes_per_s = limits.rows_per_second, limits.bytes_per_second
    if limits.until_ms is not None and limits.until_ms <= time.time() * 1000:
        rows_per_s = bytes_per_s = None
    if limits.auto is not None:
        rows_per_s = limits.auto.ceiling if rows_per_s is None else min(rows_per_s, limits.auto.ceiling)
    row_bytes = mean_row_bytes(source.table.rows, source.table.bytes) if isinstance(source, PinnedSource) else None
    return LimitSet(rows_per_s, 0.0, bytes_per_s).in_rows(row_bytes).rows_per_s


def _planned_modes(counted: Counter[CopyMode]) -> tuple[PlannedFiles, ...]:
    """Return the number of files by copy mode, decoded files by reason; of the columns with the same reason, only one is named."""
    files, reasons = Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for mode, count in counted.most_common():
        reason = mode.reason.name if isinstance(mode, Decoded) else ""
        group = name_of(mode), reason
        files[group] += count
        reasons.setdefault(group, str(mode)[:REASON_CHARACTERS] if isinstance(mode, Decoded) else "")
    return tuple(
        PlannedFiles(way=group[0], files=count, reason=reasons[group]) for group, count in files.most_common(WAYS_MAX)
    )


def _calibrate(tables: Tables, cores: int, modes: JobCopyModes | None, counted: Counter[CopyMode]) -> float:
    """Return how many rows a second this machine reads, transforms and writes, or copies; 0 for an empty source."""
    sample = tables.opened.sample(SAMPLE_ROWS_MAX)
    if not sample.count:
        return 0.0
    # A sample of one file uses one core; a job uses all cores.
    busy = min(cores, sample.parts)
    files = max(1, counted.total())
    decoded = sum(count for mode, count in counted.items() if isinstance(mode, Decoded)) / files
    excluded = sum(count for mode, count in counted.items() if isinstance(mode, Excluded)) / files
    with tempfile.TemporaryDirectory(prefix="backfill-plan-") as folder:
        copied = None if modes is None else copied_rows_per_s(tables, modes, sample.files, folder)
        if copied is not None and not decoded:
            return copied * cores / max(1 - excluded, 1 / files)
        frame, seconds = tables.transform.apply(sample.rows), 0.0
        for attempt in range(2):
            began_s = time.monotonic()
            frame.write.parquet(f"{folder}/decoded{attempt}")
            seconds = time.monotonic() - began_s
    per_s = sample.count / seconds * cores / busy
    if copied is None:
        return per_s / max(1 - excluded, 1 / files)
    return 1 / (decoded / per_s + (1 - decoded - excluded) / (copied * cores))


def _measured(
    tables: Tables, cores: int, modes: JobCopyModes | None, counted: Counter[CopyMode], filled: Sequence[int]
) -> tuple[MoverTrial | None, float]:
    """Return the mover of copied files, and the rows per second of the whole job; `filled` are the files with rows."""
    trial = None if modes is None else tried(tables, modes, counted, filled)
    return trial, _rows_per_s(tables, trial, counted) or _calibrate(tables, cores, modes, counted)


def _rows_per_s(tables: Tables, trial: MoverTrial | None, counted: Counter[CopyMode]) -> float | None:
    """Return how many rows a second the store copies; `None` if it does not copy all files that are read."""
    source = tables.opened
    if trial is None or trial.bytes_per_s is None or not isinstance(source, PinnedSource):
        return None
    row_bytes = mean_row_bytes(source.table.rows, source.table.bytes)
    is_all = all(isinstance(mode, Whole | Excluded) for mode in counted)
    return trial.bytes_per_s / row_bytes if row_bytes and is_all else None


def _planned_order(order: FileOrder | None) -> PlannedOrder | None:
    if order is None:
        return None
    return PlannedOrder(
        column=order.column,
        direction=order.direction,
        overlap_percent=order.overlap_percent,
        files_unknown=order.files_unknown,
    )


def _is_unique(tables: Tables) -> bool:
    try:
        tables.check_one_row_a_key()
    except DuplicateKeyError:
        return False
    return True


def _partitions(source: OpenSource) -> PlannedPartitions | None:
    if not isinstance(source, SubscribedSource):
        return None
    rows = {name: end - source.answer.first.get(name, 0) for name, end in source.answer.newest.items()}
    largest = Largest.of(rows, PARTITIONS_MAX)
    return PlannedPartitions(
        largest=tuple(PlannedPartition(partition=name, rows=count) for name, count in largest.shown),
        others=largest.others,
        other_rows=largest.others_sum,
    )
