"""Plan of a job."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from backfill_api.model import Model
from backfill_api.spec.bounds import Columns, Count, Duration, Message, Percent

PARTITIONS_MAX = 10
WAYS_MAX = 32


class PlanWarning(Model):
    """A doubt to settle before the start."""

    reason: Annotated[str, Field(max_length=64)]
    """Code of the warning in one CamelCase word."""

    message: Message
    """Message of the warning."""

    hint: Message = ""
    """Remedy."""


class PlannedOrder(Model):
    """Separation of the source's files by the values of the column of `order`."""

    column: Annotated[str, Field(max_length=255)]
    """The column."""

    direction: Annotated[str, Field(max_length=64)]
    """Ascending or Descending."""

    overlap_percent: Percent
    """Percent of all pairs of files whose values overlap; 0 if each value is in one file."""

    files_unknown: Count
    """Files of which the log has no values of the column; they are read last, in path order."""


class PlannedFiles(Model):
    """Files of the pinned version that get into the target in the same way."""

    way: Annotated[str, Field(max_length=64)]
    """Whole: their bytes are copied. Projected: columns are left out or renamed. Grafted: columns are computed, and joined
    to those that are copied. Hidden: copied, and a vector hides the rows that the filter leaves out. Decoded: their rows are read and written. Excluded: the filter leaves out all of their rows, and they are not read."""

    files: Count
    """Number of files."""

    reason: Message = ""
    """Reason why they are decoded."""


class PlannedMover(Model):
    """Mover of the bytes of files that are copied whole between object stores."""

    name: Annotated[str, Field(max_length=64)]
    """Store: the object store copies them itself. Driver: they pass through threads of the driver."""

    reason: Message = ""
    """Reason why the store does not copy them."""

    bytes_per_second: Count | None = None
    """Expected rate of the store, from copies of one file; absent: not measured."""

    requests: Count = 0
    """Requests to the store that these copies cost, estimated."""


class PlannedPartition(Model):
    """One partition of a topic."""

    partition: Annotated[str, Field(max_length=64)]
    """Number of the partition."""

    rows: Count
    """Offsets of its history; the topic may leave some of them out."""


class PlannedPartitions(Model):
    """Offsets to read of each partition."""

    largest: Annotated[tuple[PlannedPartition, ...], Field(max_length=PARTITIONS_MAX)]
    """Those with most rows, the largest first."""

    others: Count
    """Number of columns that are not listed."""

    other_rows: Count
    """Offsets of all of these together."""


class PlannedScope(Model):
    """Part of the target that the job replaces."""

    files: Count
    """Files that the publishing commit removes."""

    rows: Count | None = None
    """Their rows; absent if the log does not count them."""

    files_kept: Count
    """Files that stay."""

    names: Columns = ()
    """Some of the files that are removed."""


class PlannedTarget(Model):
    """Layout of the target: the existing one, or that of the table that the job will create."""

    columns: Message
    """Names and types of the columns; only the first ones if there are many."""

    partition_by: Columns = ()
    """Partition columns."""

    cluster_by: Columns = ()
    """Clustering columns of a target that will be made."""

    reader_features: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=32)] = ()
    """Table features that each reader of the target must support."""

    publish: Literal["Continuously", "WhenComplete", "WhenVerified"] = "Continuously"
    """Time at which readers see the copied rows."""

    scope: PlannedScope | None = None
    """Part of it that the job replaces."""


class PlannedStep(Model):
    """One step of the job that takes time."""

    name: Annotated[str, Field(max_length=64)]
    """Start, Copy, KeyProof, CatchUp or Receipt."""

    seconds: Duration
    """Estimated duration on this machine."""


class Plan(Model):
    """Plan of a job: the data to read, the estimated time on this machine, and warnings."""

    rows: Count
    """Rows of the version that would be read."""

    bytes: Count
    """Bytes of its files."""

    files: Count
    """Number of its files."""

    splits: Count
    """Splits, estimated."""

    ways: Annotated[tuple[PlannedFiles, ...], Field(max_length=WAYS_MAX)] = ()
    """Copy modes of the files, the most frequent first; empty if the strategy does not read file by file."""

    mover: PlannedMover | None = None
    """Mover of files that are copied whole; absent: there are none, or no table is on S3."""

    version: Count | None = None
    """Version that would be pinned; absent: none would be."""

    estimated_seconds: Count
    """Estimated duration of the whole job on this machine; with `after: Follow`, until it has caught up."""

    estimated_seconds_low: Count
    """Lower bound of nine jobs in ten."""

    estimated_seconds_high: Count
    """Upper bound of nine jobs in ten."""

    key_columns: Columns = ()
    """Columns that identify a row."""

    key_unique: bool | None = None
    """True if the key is unique in the source; absent if not checked."""

    key_nulls: Count | None = None
    """Rows whose key is null. Absent: not checked."""

    deterministic: bool = True
    """True if the transform is deterministic."""

    change_feed: bool | None = None
    """True if the source has a change feed; absent if it has no versions, or if the strategy reads no change feed."""

    retention_seconds: Count | None = None
    """Retention of the files and changes that the job needs; absent if unknown."""

    target_exists: bool = False
    """True if the target exists."""

    target: PlannedTarget | None = None
    """Layout of the target; absent: the job has ended, or the target does not describe itself."""

    resumes_attempt: Count | None = None
    """Number of the last attempt, whose state would be resumed; absent if the job starts from the beginning."""

    steps: Annotated[tuple[PlannedStep, ...], Field(max_length=8)] = ()
    """The steps of the job in their order, with the time of each."""

    partitions: PlannedPartitions | None = None
    """Offsets to read of each partition; absent if the source has none."""

    read_amplification_percent: Count | None = None
    """Average reads of a source file in percent: 100 is once; absent if rows are not read in the order of a key."""

    order: PlannedOrder | None = None
    """The order of the snapshot; absent: none was asked for."""

    warnings: Annotated[tuple[PlanWarning, ...], Field(max_length=32)] = ()
    """Doubts to settle before the start."""
