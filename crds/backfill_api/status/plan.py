"""What a job would do."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from backfill_api.model import Model
from backfill_api.spec.bounds import Columns, Count, Duration, Message, Percent

PARTITIONS_MAX = 10
WAYS_MAX = 32


class PlanWarning(Model):
    """A doubt to settle before the start."""

    reason: Annotated[str, Field(max_length=64)]
    """Which warning, in one CamelCase word."""

    message: Message
    """What is doubtful."""

    hint: Message = ""
    """What would help."""


class PlannedOrder(Model):
    """How well the files of the source separate the values of the column of `order`."""

    column: Annotated[str, Field(max_length=255)]
    """The column."""

    direction: Annotated[str, Field(max_length=64)]
    """Ascending or Descending."""

    overlap_percent: Percent
    """Of all pairs of files, those whose values overlap; 0: each value is in one file."""

    files_unknown: Count
    """Files of which the log has no values of the column; they are read last, in path order."""


class PlannedFiles(Model):
    """Files of the pinned version that get into the target in the same way."""

    way: Annotated[str, Field(max_length=64)]
    """Whole: their bytes are copied. Projected: columns are left out or renamed. Grafted: columns are computed, and joined
    to those that are copied. Decoded: their rows are read and written. Excluded: the filter leaves out all of their rows, and they are not read."""

    files: Count
    """How many."""

    reason: Message = ""
    """Why they are decoded."""


class PlannedPartition(Model):
    """One partition of a topic."""

    partition: Annotated[str, Field(max_length=64)]
    """Which."""

    rows: Count
    """Offsets of its history; the topic may leave some of them out."""


class PlannedPartitions(Model):
    """What there is to read of each partition."""

    largest: Annotated[tuple[PlannedPartition, ...], Field(max_length=PARTITIONS_MAX)]
    """Those with most rows, the largest first."""

    others: Count
    """How many more there are."""

    other_rows: Count
    """Offsets of all of these together."""


class PlannedTarget(Model):
    """Layout of the target, as it is or as the job will make it."""

    columns: Message
    """Names and types of the columns; of many only the first."""

    partition_by: Columns = ()
    """Partition columns."""

    cluster_by: Columns = ()
    """Clustering columns of a target that will be made."""

    reader_features: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=32)] = ()
    """Table features that each reader of the target must support."""


class PlannedStep(Model):
    """One step of the job that takes time."""

    name: Annotated[str, Field(max_length=64)]
    """Start, Copy, KeyProof, CatchUp or Receipt."""

    seconds: Duration
    """How long it would take here."""


class Plan(Model):
    """What a job would read, how long it would take on this machine, and what is doubtful about it."""

    rows: Count
    """Rows of the version that would be read."""

    bytes: Count
    """Bytes of its files."""

    files: Count
    """Number of its files."""

    splits: Count
    """Splits, estimated."""

    ways: Annotated[tuple[PlannedFiles, ...], Field(max_length=WAYS_MAX)] = ()
    """How the files get into the target, the most frequent way first; empty where the strategy does not read file by file."""

    version: Count | None = None
    """Version that would be pinned; absent: none would be."""

    estimated_seconds: Count
    """How long the whole job would take here; with `after: Follow`, until it has caught up."""

    estimated_seconds_low: Count
    """Lower bound of nine jobs in ten."""

    estimated_seconds_high: Count
    """Upper bound of nine jobs in ten."""

    key_columns: Columns = ()
    """Columns that identify a row."""

    key_unique: bool | None = None
    """Is the key unique in the source? Absent: not checked."""

    key_nulls: Count | None = None
    """Rows whose key is null. Absent: not checked."""

    deterministic: bool = True
    """Does the transform give the same rows each time?"""

    change_feed: bool | None = None
    """Does the source have a change feed? Absent: it has no versions, or the strategy reads no change feed."""

    retention_seconds: Count | None = None
    """How long the source keeps the files and changes that the job needs; absent: not known."""

    target_exists: bool = False
    """Does the target exist?"""

    target: PlannedTarget | None = None
    """Layout of the target; absent: the job has ended, or the target does not describe itself."""

    resumes_attempt: Count | None = None
    """Number of the last attempt, whose state would be continued; absent: the job starts anew."""

    steps: Annotated[tuple[PlannedStep, ...], Field(max_length=8)] = ()
    """The steps of the job in their order, with the time of each."""

    partitions: PlannedPartitions | None = None
    """What there is to read of each partition; absent: the source has none."""

    read_amplification_percent: Count | None = None
    """How often a file of the source is read, in the mean: 100 is once; absent: rows are not read in the order of a key."""

    order: PlannedOrder | None = None
    """The order of the snapshot; absent: none was asked for."""

    warnings: Annotated[tuple[PlanWarning, ...], Field(max_length=32)] = ()
    """Doubts to settle before the start."""
