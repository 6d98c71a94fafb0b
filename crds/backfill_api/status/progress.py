"""How far a job is, for people and for the operator."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from backfill_api.model import Model
from backfill_api.spec.bounds import Count, Duration, Message, Moment, Percent, ReportedRevision
from backfill_api.status.losses import Losses

GRID_CELLS_MAX = 64

WarningCode = Literal[
    "NonConvergent",
    "RetentionEnding",
    "RetentionShort",
    "ForeignCommits",
    "ExecutorsMissing",
    "CheckpointFailed",
    "OpenTransaction",
    "JavaSilent",
]
"""What a warning is about: programs go by this, never by the message."""


STEPS_MAX = 8
WARNINGS_MAX = 32
PARTITION_LAGS_MAX = 21
OTHER_PARTITIONS = "other"


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
    """How far the order of the rows is: all rows beyond a value of its column are in the target."""

    column: Annotated[str, Field(max_length=255)]
    """The column of the order."""

    direction: Annotated[str, Field(max_length=64)] = ""
    """Descending: all rows with a larger value are there. Ascending: all with a smaller one."""

    value: Message
    """In the column's own form; a timestamp in UTC."""


class PartitionLag(Model):
    """How far the target is behind in one partition."""

    partition: Annotated[str, Field(max_length=64)]
    """Which; `other`: all that are not listed."""

    records: Count
    """Offsets that are known and not in the target."""


class ProgressSummary(Model):
    """How far a job is, short enough for a status; counts are those of the newest commit, never ahead of it."""

    phase: Annotated[str, Field(max_length=64)] = ""
    """Phase of the strategy, such as Snapshot, CatchUp or Live."""

    step: Annotated[str, Field(max_length=64)] = ""
    """The step of `steps` that is running; empty: none."""

    percent: Percent = 0
    """How much of the whole job is done, each step weighed by its time; rounded down, never falling."""

    rows_total: Count = 0
    """Rows of the pinned version; estimated, where the newest version is read."""

    rows_done: Count = 0
    """Rows of the source that are done: committed, or left out by the filter."""

    rows_filtered: Count = 0
    """Of these, the rows that the filter left out."""

    bad_records: Count = 0
    """Records that the transform cannot parse: they are in the table of bad records."""

    watermark: Watermark | None = None
    """How far the order of the rows is; absent: there is no order, it cannot be told, or all rows are there."""

    position: Message = ""
    """How far the order of a key is, for each range of vnodes that are equally far, as `rows up to id = 5`; empty: see `watermark`."""

    splits_total: Count = 0
    """Splits in all, estimated."""

    splits_done: Count = 0
    """Splits committed."""

    rows_per_second: Count = 0
    """Rows a second, the mean of the last commits."""

    lag_versions: Count = 0
    """How far the target is behind, in versions; 0 of a source that has none."""

    lag_records: Count | None = None
    """How far the target is behind the last record, in offsets, also behind open transactions; absent: the source has versions."""

    lag_seconds: Count = 0
    """How far the target is behind, in time."""

    eta: Moment | None = None
    """When the whole job will be done, RFC 3339; with `after: Follow`, when it will have caught up."""

    steps: Annotated[tuple[StepProgress, ...], Field(max_length=STEPS_MAX)] = ()
    """The steps of the job in their order, with the time of each."""

    reason: Message = ""
    """What limits the speed of the job."""

    last_commit_time: Moment | None = None
    """When the newest commit was durable, RFC 3339."""

    epoch: Count = 0
    """Number of the newest barrier; it grows without progress too."""


class Progress(ProgressSummary):
    """The state of a running job; counts are those of the newest commit, never ahead of it."""

    attempt: Count = 0
    """Number of the attempt."""

    last_barrier_time: Moment | None = None
    """When the newest barrier passed, RFC 3339: its commit was durable, or nothing had to be committed."""

    last_look_time: Moment | None = None
    """When the source answered the newest look at its newest position, RFC 3339."""

    changes_done: Count = 0
    """Row changes applied after the snapshot."""

    bytes_done: Count = 0
    """Bytes committed."""

    consumed_version: Count | None = None
    """Source version that the target holds; absent: history is incomplete, or the source has no versions."""

    head_version: Count | None = None
    """Newest source version; absent: not known yet, or the source has no versions."""

    consumed_position: Message = ""
    """What of the source the target holds, in the source's words."""

    head_position: Message = ""
    """Newest position of the source, in the source's words."""

    eta_seconds: Count | None = None
    """Seconds left of the whole job."""

    eta_seconds_low: Count | None = None
    """Lower bound of nine jobs in ten."""

    eta_seconds_high: Count | None = None
    """Upper bound of nine jobs in ten."""

    lag_by_partition: Annotated[tuple[PartitionLag, ...], Field(max_length=PARTITION_LAGS_MAX)] = ()
    """The partitions with most of `lagRecords`, the largest first, and all others as one; empty: the source has none."""

    caught_up: bool = False
    """Has the target reached the newest version once? Of a topic: and no record waits behind a transaction that stays open."""

    warnings: Annotated[tuple[Message, ...], Field(max_length=WARNINGS_MAX)] = ()
    """What will end the job unless the user acts."""

    warning_codes: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=WARNINGS_MAX)] = ()
    """A `WarningCode` for each of `warnings`, in their order; older drivers report none, newer ones may report others."""

    executors_lost: Losses = ()
    """Executors that this driver lost, by reason."""

    non_convergent: bool = False
    """Does the lag not fall?"""

    paused: Annotated[str, Field(max_length=64)] | None = None
    """History or All."""

    stopping: bool = False
    """Was the attempt asked to end?"""

    finished: bool = False
    """Has the job ended for good? Only with `after: Exit`."""

    quiet: bool = False
    """Is nothing running?"""

    throttle_rows_per_second: Count | None = None
    """Limit in force, in rows; absent: none."""

    throttle_bytes_per_second: Count | None = None
    """Limit in force, in bytes of the source's files; absent: none."""

    throttle_until: Moment | None = None
    """When it ends, RFC 3339."""

    revision: ReportedRevision = 0
    """Newest command in force."""

    table_version: Count | None = None
    """Target version of the newest commit."""

    seal_ms_p50: Count | None = None
    """Median of the last commits, milliseconds."""

    seal_ms_p99: Count | None = None
    """99th percentile of the last commits, milliseconds."""

    grid: Annotated[tuple[Percent, ...], Field(max_length=GRID_CELLS_MAX)] = ()
    """At most 64 equal parts of the snapshot, each 0 to 100 percent committed."""
