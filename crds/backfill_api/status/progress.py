"""Progress of a job, for users and for the operator."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from backfill_api.model import Model
from backfill_api.spec.bounds import By, Count, Duration, Message, Moment, Percent, ReportedRevision
from backfill_api.status.grid import Grid, GridDigits
from backfill_api.status.losses import Losses

WarningCode = Literal[
    "NonConvergent",
    "RetentionEnding",
    "RetentionShort",
    "ForeignCommits",
    "ExecutorsMissing",
    "ExecutorsUnchanged",
    "CheckpointFailed",
    "OpenTransaction",
    "JavaSilent",
    "CommitStalled",
    "CopiesStreamed",
    "EventLogRefused",
]
"""Code of a warning; programs use it, never the message."""


STEPS_MAX = 8
WARNINGS_MAX = 32
PARTITION_LAGS_MAX = 21
PARTITIONS_SHOWN_MAX = 21
PARTITION_CHARACTERS_MAX = 128
OTHER_PARTITIONS = "other"
"""Name of the entry for all partitions that are not listed. The values of a table's partition contain an equals sign, so none has this name."""


class StepProgress(Model):
    """One step of a job that takes time."""

    name: Annotated[str, Field(max_length=64)]
    """Start, Copy, KeyProof, CatchUp or Receipt."""

    state: Annotated[str, Field(max_length=64)]
    """Pending, Running or Done."""

    seconds: Duration | None = None
    """Time so far, without pauses; absent: not begun, or done by an earlier attempt."""

    seconds_left: Duration | None = None
    """Estimated time left; absent: done, held, or not known yet."""


class Watermark(Model):
    """Value of a column up to which all rows are in the target."""

    column: Annotated[str, Field(max_length=255)]
    """The column of the order."""

    direction: Annotated[str, Field(max_length=64)] = ""
    """`Descending`: all rows with a larger value are copied. `Ascending`: all with a smaller value."""

    value: Message
    """Value in the column's format; a timestamp in UTC."""


class PartitionLag(Model):
    """Lag of the target in one partition."""

    partition: Annotated[str, Field(max_length=64)]
    """Number of the partition, or `other` for all that are not listed."""

    records: Count
    """Offsets that are known and not in the target."""


class PartitionProgress(Model):
    """Finished part of the snapshot in one partition of the source."""

    partition: Annotated[str, Field(max_length=PARTITION_CHARACTERS_MAX)]
    """Values of the partition columns, such as `day=2026-11-01/country=DE`, cut at the end; `other` for all that are not listed."""

    rows_done: Count
    """Rows of the partition that are committed or left out by the filter."""

    rows_total: Count
    """Rows of the partition in the pinned version, with deleted rows of its files."""

    files_done: Count
    """Files of the partition of which all rows are done."""

    files_total: Count
    """Files of the partition."""


class LimitInForce(Model):
    """Limit of the snapshot that is in force."""

    rows_per_second: Count | None = None
    """Rows a second; absent: no limit of rows."""

    bytes_per_second: Count | None = None
    """Bytes of the source's files a second; absent: no limit of bytes."""

    until: Moment | None = None
    """End of the limit, RFC 3339; absent: it has none."""

    origin: Annotated[str, Field(max_length=64, alias="from")] = ""
    """`Spec`, `Override` or `Command`, where it was set; empty: not known."""

    revision: ReportedRevision = 0
    """Command that set it; 0: the spec with which the driver started, or not known."""

    by: By = ""
    """Who set it, as the annotation `backfill.dev/changed-by` claims; empty: no claim."""


class RefreshProgress(Model):
    """A run of a finished job from the position that its target held; its end is `consumedPosition` and `lastCommitTime`."""

    start: Moment
    """Time at which the refresh began, RFC 3339."""

    from_version: Count | None = None
    """Source version that the target held before; absent: the source has no versions."""

    from_position: Message = ""
    """Part of the source that the target held before, for display."""


class ProgressSummary(Model):
    """Progress of a job, bounded in size; counts are those of the newest commit, never ahead of it."""

    phase: Annotated[str, Field(max_length=64)] = ""
    """Phase of the strategy, such as Snapshot, CatchUp or Live."""

    step: Annotated[str, Field(max_length=64)] = ""
    """The step of `steps` that is running; empty: none."""

    percent: Percent = 0
    """Completed part of the whole job; each step is weighted by its time. Rounded down; it never decreases."""

    rows_total: Count = 0
    """Rows of the pinned version; estimated, where the newest version is read."""

    rows_done: Count = 0
    """Rows of the source that are done: committed, or left out by the filter."""

    rows_filtered: Count = 0
    """Rows of `rowsDone` that the filter excluded."""

    bad_records: Count = 0
    """Records that the transform cannot parse: they are in the table of bad records."""

    watermark: Watermark | None = None
    """Value up to which the rows are copied in their order; absent without an order, before a bound is known, and after the copy."""

    position: Message = ""
    """Position in the order of a key per range of vnodes, such as `rows up to id = 5`, or inside a batch that is merged in parts; empty if
    `watermark` applies."""

    changes_done: Count = 0
    """Row changes applied after the snapshot."""

    writer_conflicts: Count = 0
    """Transactions of other writers of the target that may have failed because of the job, estimated; only while columns are filled."""

    splits_total: Count = 0
    """Splits in all, estimated."""

    splits_done: Count = 0
    """Splits committed."""

    rows_per_second: Count = 0
    """Rows a second, the mean of the last commits."""

    consumed_version: Count | None = None
    """Source version that the target holds; absent: history is incomplete, or the source has no versions."""

    head_version: Count | None = None
    """Newest source version; absent: not known yet, or the source has no versions."""

    lag_versions: Count = 0
    """Lag of the target in versions; 0 if the source has no versions."""

    lag_records: Count | None = None
    """Lag of the target behind the last record in offsets, including open transactions; absent if the source has versions."""

    lag_seconds: Count = 0
    """Lag of the target in seconds."""

    eta: Moment | None = None
    """Estimated end of the job, RFC 3339; with `after: Follow`, the estimated time of catching up."""

    eta_seconds: Count | None = None
    """Seconds left of the whole job."""

    eta_seconds_low: Count | None = None
    """Lower bound of nine jobs in ten."""

    eta_seconds_high: Count | None = None
    """Upper bound of nine jobs in ten."""

    steps: Annotated[tuple[StepProgress, ...], Field(max_length=STEPS_MAX)] = ()
    """The steps of the job in their order, with the time of each."""

    reason: Message = ""
    """Reason that limits the speed of the job."""

    warnings: Annotated[tuple[Message, ...], Field(max_length=WARNINGS_MAX)] = ()
    """Warnings of causes that will end the job unless the user acts."""

    warning_codes: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=WARNINGS_MAX)] = ()
    """A `WarningCode` for each of `warnings`, in their order; older drivers report none, newer ones may report others."""

    last_commit_time: Moment | None = None
    """Time of the newest durable commit, RFC 3339."""

    seal_ms_p50: Count | None = None
    """Median of the last commits, milliseconds."""

    seal_ms_p99: Count | None = None
    """99th percentile of the last commits, milliseconds."""

    limit: LimitInForce | None = None
    """Limit in force; absent: none, or the driver is older than this field."""

    partitions: Annotated[tuple[PartitionProgress, ...], Field(max_length=PARTITIONS_SHOWN_MAX)] = ()
    """The partitions with most rows, the largest first, and all others as one; empty: the source is not partitioned, or not a table."""

    grid: GridDigits = ()
    """The snapshot in 64 equal parts, a hexadecimal digit for each: `0` for none of it committed, `f` for all; empty: there are no parts."""

    max_in_flight: Count | None = None
    """Most pieces of the snapshot that run at the same time, in force; absent: the strategy decides, or the driver is older."""

    split_target_seconds: Count | None = None
    """Target duration of a split, in force; absent: the strategy has no splits, or the driver is older."""

    chunk_rows: Count | None = None
    """Rows of a chunk, in force; 0: as many as take about four seconds; absent: the strategy has no chunks, or the driver is older."""

    executors: Count | None = None
    """Requested number of executors, in force; absent: the number cannot change, or the driver is older."""

    epoch: Count = 0
    """Number of the newest barrier; it grows without progress too."""

    refresh: RefreshProgress | None = None
    """The last run of the finished job that wrote to the target; absent: the job ran only once."""


class Progress(ProgressSummary):
    """The state of a running job; counts are those of the newest commit, never ahead of it."""

    attempt: Count = 0
    """Number of the attempt."""

    last_barrier_time: Moment | None = None
    """Time of the newest barrier, RFC 3339: its commit was durable, or it had none."""

    last_look_time: Moment | None = None
    """Time of the newest successful poll of the source, RFC 3339."""

    bytes_done: Count = 0
    """Bytes committed."""

    consumed_position: Message = ""
    """Part of the source in the target, for display."""

    head_position: Message = ""
    """Newest position of the source, in the source's words."""

    lag_by_partition: Annotated[tuple[PartitionLag, ...], Field(max_length=PARTITION_LAGS_MAX)] = ()
    """The partitions with most of `lagRecords`, the largest first, and all others as one; empty: the source has none."""

    caught_up: bool = False
    """True after the target has reached the newest version once; for a topic, without records behind an open transaction."""

    executors_lost: Losses = ()
    """Executors that this driver lost, by reason."""

    non_convergent: bool = False
    """True while the lag does not fall."""

    paused: Annotated[str, Field(max_length=64)] | None = None
    """History or All."""

    stopping: bool = False
    """True after the attempt received a request to end."""

    finished: bool = False
    """True after the end of the job; only with `after: Exit`."""

    quiet: bool = False
    """True while no work runs."""

    throttle_rows_per_second: Count | None = None
    """Limit in force, in rows; absent: none. The same as in `limit`, for readers of earlier versions."""

    throttle_bytes_per_second: Count | None = None
    """Limit in force, in bytes of the source's files; absent: none. The same as in `limit`."""

    throttle_until: Moment | None = None
    """End, RFC 3339. The same as in `limit`."""

    auto_rows_per_second: Count | None = None
    """The automatic limit, in rows; absent: none. The lower one of it and `throttleRowsPerSecond` applies."""

    revision: ReportedRevision = 0
    """Newest command in force."""

    table_version: Count | None = None
    """Target version of the newest commit."""

    grid: Grid = ()
    """At most 64 equal parts of the snapshot, each 0 to 100 percent committed."""
