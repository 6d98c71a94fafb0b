"""What a sink promises the driver; each folder below `sinks` has one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from backfill_api.status.plan import PlannedTarget
from backfill_core.errors import BackfillError
from backfill_core.protocol.work import StagedFile
from backfill_core.transfer.facts import TableFacts
from backfill_spark.ports.committer import Committer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from backfill_core.log_shipping.schema_changes import Target
    from backfill_core.log_shipping.target_files import TargetFiles
    from backfill_spark.delta.log import LoggedTable


class Sink(Protocol):
    """One target of one job. Safe to stage from several threads; one MERGE at a time."""

    path: str
    job_hash: str

    def committer(self, *, app_id: str, domain: str) -> Committer:
        """Return what commits to this target: `app_id` names the job, `domain` the place of its state."""

    def exists(self) -> bool:
        """Is it there?"""

    def check(self, schema: StructType, *, source_path: str | None, has_state: bool) -> None:
        """Refuse a target that cannot be filled, before anything is written; `source_path` is None of a source in no folder."""

    def prepare(self, schema: StructType) -> None:
        """Make the target when it is missing."""

    def stage(self, rows: DataFrame, *, attempt: int, work_id: int) -> list[str]:
        """Write files that no reader sees, and return their paths."""

    def as_stored(self, rows: DataFrame) -> DataFrame:
        """Return rows as the target keeps them; lazy."""

    def check_staged(self, files: Sequence[StagedFile]) -> None:
        """Refuse staged files that are gone or changed."""

    def discard(self, paths: Sequence[str]) -> None:
        """Remove staged files."""

    def discard_work(self, attempt: int, work_id: int) -> None:
        """Remove what one piece of work staged."""

    def remove_orphans(self, before_attempt: int) -> int:
        """Remove files that earlier attempts staged and never committed."""

    def at(self, version: int) -> DataFrame:
        """Return the rows as of a version; lazy."""

    def explain_failure(self, error: Exception) -> BackfillError | None:
        """Say in our words why writing failed, or None when it is unknown."""


class Quarantine(Sink, Protocol):
    """A table of bad records: a target of the same job, to which rows are added, whatever is in it already."""

    def staged_by(self, attempt: int, work_id: int) -> list[str]:
        """Return the files that a piece of work staged, as `stage` returned them."""


@runtime_checkable
class SupportsSegments(Protocol):
    """A sink that stages several segments of a split in one job."""

    def stage_segments(self, rows: DataFrame, *, label: str, attempt: int, work_id: int) -> dict[int, list[str]]:
        """Write as `stage`, the rows of each value of column `label` into files of their own; return these by value."""


@runtime_checkable
class SupportsCopies(Protocol):
    """A sink that commits Parquet files which it did not write. No strategy needs it: a file may be copied by it."""

    path: str

    def table_facts(self, schema: StructType) -> TableFacts:
        """Return what such files must keep to; of a table that is not there yet, with these columns of the transform."""

    def stored_columns(self, rows: DataFrame, only: Collection[str] | None = None) -> list[Column]:
        """Return the columns that files of the target have of such rows, under their names there; `only`: those of these names.

        Computing them fails at a null where the target or its key takes none.
        """

    def folder_of(self, attempt: int, work_id: int, segment: int | None = None) -> str:
        """Return the folder for what a piece of work stages, below `path`; with a segment, the one of that, which is sealed alone."""


@runtime_checkable
class DescribesTarget(Protocol):
    """A sink that describes its target in a plan."""

    def planned(self, schema: StructType) -> PlannedTarget:
        """Return the layout of the target, as it is or as the job will make it with these columns of the transform."""


@runtime_checkable
class SupportsShipping(SupportsCopies, Protocol):
    """A sink that follows the log of a source file by file: it is laid out as its source, and one job alone keeps it."""

    def follow(self, layout: LoggedTable) -> None:
        """Take the layout of the source, before the table is checked or made."""

    def stage_of(self, rows: DataFrame, folder: str, *, attempt: int, work_id: int) -> list[str]:
        """Write as `stage`, into a folder of that name below that of the work."""

    def columns(self) -> Target:
        """Return its columns, and what those to come must keep to."""

    def with_columns(self, schema: str) -> Sink:
        """Return the target as it is once a commit gave it other columns; as JSON."""

    def target_files(self) -> TargetFiles:
        """Return the files of the newest version by the source file that each was made of."""


@runtime_checkable
class SupportsMerge(Protocol):
    """A sink that replaces rows by key; `writeMode: Upsert` needs it."""

    def merge(self, net: DataFrame, *, app_id: str, txn_version: int) -> None:
        """Apply the last image of each key in one commit, unless this transaction is in it already."""


@runtime_checkable
class SupportsStartOver(Protocol):
    """A sink that takes the rows of a job out again; a strategy that cannot go on from what is stored needs it."""

    def drop_rows(self, *, app_id: str, txn_version: int) -> None:
        """Take out every row in one commit, under a transaction version; nothing when this transaction is in it already.

        No older attempt can commit afterwards. Of an empty target there need not be a commit.

        Raises:
            TargetChangedError: others changed rows since the job began: theirs would go too.
            UnsupportedTargetFeatureError: the target lets no row go.
            StateMovedError: another commit was quicker; look again.
        """


@runtime_checkable
class KeepsFeatures(Protocol):
    """A sink whose table has features that its jobs needed. No strategy needs it; `release` tidies up by it."""

    def drop_feature(self) -> None:
        """Drop the feature that only the states of jobs need, where nothing else needs it."""

    def features(self) -> tuple[str, ...]:
        """Return the features that a writer of the table must know."""
