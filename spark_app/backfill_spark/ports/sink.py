"""Interfaces of a sink for the driver; each folder below `sinks` implements them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from backfill_api.status.plan import PlannedTarget
from backfill_core.errors import BackfillError
from backfill_core.file_copies.facts import TableFacts
from backfill_core.in_place.files import FillScope, LiveFile
from backfill_core.protocol.publication import ManifestPart
from backfill_core.protocol.removal import TargetEvidence
from backfill_core.protocol.work import RemovedFile, StagedFile
from backfill_spark.ports.committer import Committer, SealedCommit, StoredState

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from backfill_api.spec.spec import BackfillResource
    from backfill_core.log_shipping.schema_changes import Target
    from backfill_core.log_shipping.target_files import TargetFiles
    from backfill_core.positions.change_parts import KeyPart
    from backfill_spark.delta.log import LoggedTable
    from backfill_spark.delta.source_file import LoggedFile


class Sink(Protocol):
    """One target of one job. Safe to stage from several threads; one MERGE at a time."""

    path: str
    job_hash: str

    def committer(self, *, app_id: str, domain: str) -> Committer:
        """Return the committer of this target: `app_id` names the job, `domain` the key of its state."""

    def exists(self) -> bool:
        """Return True if the target exists."""

    def check(self, schema: StructType, *, source_path: str | None, has_state: bool) -> None:
        """Reject a target that cannot be filled, before anything is written; `source_path` is `None` if the source has no folder."""

    def prepare(self, schema: StructType) -> None:
        """Create the target if it is missing."""

    def stage(self, rows: DataFrame, *, attempt: int, work_id: int) -> list[str]:
        """Write files that no reader sees, and return their paths."""

    def as_stored(self, rows: DataFrame) -> DataFrame:
        """Return rows as the target stores them; lazy."""

    def check_staged(self, files: Sequence[StagedFile]) -> None:
        """Reject staged files that are missing or changed."""

    def discard(self, paths: Sequence[str]) -> None:
        """Remove staged files."""

    def discard_work(self, attempt: int, work_id: int) -> None:
        """Remove the files that one unit of work staged."""

    def remove_orphans(self, before_attempt: int) -> int:
        """Remove files that earlier attempts staged and never committed."""

    def at(self, version: int) -> DataFrame:
        """Return the rows as of a version; lazy."""

    def explain_failure(self, error: Exception) -> BackfillError | None:
        """Translate an error of a write; `None` if it is unknown."""


class QuarantineTable(Sink, Protocol):
    """A table of bad records: a second target of the job, which may already contain other rows."""

    def staged_by(self, attempt: int, work_id: int) -> list[str]:
        """Return the files that a unit of work staged, with the paths that `stage` returned."""


@runtime_checkable
class SupportsSegments(Protocol):
    """A sink that stages several segments of a split in one job."""

    def stage_segments(self, rows: DataFrame, *, label: str, attempt: int, work_id: int) -> dict[int, list[str]]:
        """Write rows like `stage`, with separate files for each value of column `label`; return the paths by value."""


@runtime_checkable
class SupportsCopies(Protocol):
    """A sink that commits Parquet files which it did not write. No strategy requires it; it allows the driver to copy files."""

    path: str

    def table_facts(self, schema: StructType) -> TableFacts:
        """Return the requirements for such files; for a table that does not exist yet, with these columns of the transform."""

    def stored_columns(self, rows: DataFrame, only: Collection[str] | None = None) -> list[Column]:
        """Return the columns that the target's files store for these rows, with their names in the files; `only` limits the names.

        The computation fails at a null if the target or its key does not allow nulls.
        """

    def folder_of(self, attempt: int, work_id: int, segment: int | None = None) -> str:
        """Return the folder, relative to `path`, for files that a unit of work stages; each segment has a folder, as it is sealed separately."""


@runtime_checkable
class DescribesTarget(Protocol):
    """A sink that describes its target in a plan."""

    def planned(self, schema: StructType) -> PlannedTarget:
        """Return the layout of the existing target, or the layout that the job will create for these columns of the transform."""


@runtime_checkable
class SupportsShipping(SupportsCopies, Protocol):
    """A sink that follows the log of a source file by file: it has the source's layout, and one job owns it exclusively."""

    def follow(self, layout: LoggedTable) -> None:
        """Adopt the layout of the source, before the table is checked or created."""

    def stage_of(self, rows: DataFrame, folder: str, *, attempt: int, work_id: int) -> list[str]:
        """Write rows like `stage`, into the subfolder `folder` of the work's folder."""

    def columns(self) -> Target:
        """Return the target's columns, and the requirements for new ones."""

    def with_columns(self, schema: str) -> Sink:
        """Return the target as it will be after a commit that sets the columns of `schema` (JSON)."""

    def target_files(self, source_paths: Callable[[], Iterable[str]]) -> TargetFiles:
        """Return the files of the newest version, by the source file that each of them copies.

        Args:
            source_paths: Reads the paths of the source's files; called only if a file of the target is no copy.
        """


@runtime_checkable
class SupportsReplacing(SupportsCopies, Protocol):
    """A sink whose files can be replaced one by one, while other writers change the table; a job then opens it as a `LiveTarget`."""

    def stage_of(self, rows: DataFrame, folder: str, *, attempt: int, work_id: int) -> list[str]:
        """Write rows like `stage`, into the subfolder `folder` of the work's folder."""


@dataclass(frozen=True, slots=True)
class FilledFiles:
    """Files of a version of a live table, as `add` actions."""

    after: tuple[str, ...]
    """The files."""

    before: tuple[str, ...]
    """The same rows before they were filled: the file that each of them replaced, or the file itself if that is not known or removed."""


@runtime_checkable
class LiveTarget(SupportsReplacing, Protocol):
    """A table that is also the source: a job fills columns of its rows while other writers use it."""

    def live_files(self, opened: int) -> tuple[int, list[LiveFile], FillScope]:
        """Return the newest version, its files, and the rows to fill.

        Args:
            opened: Version whose columns the caller knows.

        Raises:
            ColumnsFollowedError: a later version changed metadata or protocol; open the table again.
        """

    def recent_rewrites(self, version: int) -> int:
        """Return the number of commits up to a version in which other writers rewrote files less than a minute ago."""

    def left_to_fill(self, version: int, files: Sequence[LoggedFile]) -> list[int]:
        """Return the numbers of those files of a version that are left to fill; the listing is not read again."""

    def files_to_fill(self, version: int) -> FilledFiles:
        """Return a version's files, without those of writers that fill the columns themselves."""

    def filled_files(self, version: int) -> FilledFiles:
        """Return those of `files_to_fill` that the job need not fill, or has filled."""


@runtime_checkable
class SupportsMerge(Protocol):
    """A sink that replaces rows by key; `writeMode: Upsert` requires it."""

    def merge(self, net: DataFrame, *, app_id: str, txn_version: int, part: KeyPart | None = None) -> None:
        """Apply the last image of each key in one commit, unless the target already contains this transaction.

        All keys are in `part`; `None` for no bound.
        """


@runtime_checkable
class SupportsStartOver(Protocol):
    """A sink that can remove the rows of a job; a strategy that cannot resume from its stored state requires it."""

    def drop_rows(self, *, app_id: str, txn_version: int) -> None:
        """Remove every row in one commit, under a transaction version; do nothing if the target already contains this transaction.

        No older attempt can commit afterwards. An empty target needs no commit.

        Raises:
            TargetChangedError: other writers changed rows since the job began; their rows would be removed too.
            UnsupportedTargetFeatureError: the target does not allow the removal of rows.
            StateMovedError: another commit came first; read the target again.
        """


@runtime_checkable
class KeepsFeatures(Protocol):
    """A sink whose table has features that its jobs needed. No strategy requires it; `release` uses it to clean up."""

    def drop_feature(self) -> None:
        """Drop the table feature that the states of jobs need, unless something else needs it."""

    def features(self) -> tuple[str, ...]:
        """Return the features that a writer of the table must support."""


@runtime_checkable
class KeepsAttempts(Protocol):
    """A sink with a folder for each attempt of a job, which stays with the files that were committed."""

    def newest_attempt(self) -> int:
        """Return the largest number of an attempt with a folder; 0 if there is none. Raises the errors of the storage."""


class RepairCommits(Protocol):
    """Commits of one repair: files that were compared are replaced only if no other commit changed files since."""

    def properties(self) -> Mapping[str, str]:
        """Return the table properties of the newest version."""

    def fence(self, txn_version: int, state: str, *, opened: StoredState) -> None:
        """Make an empty commit, after which no driver of the job can commit.

        Raises:
            StateMovedError: a driver of the job committed after the state was read.
            TargetChangedError: another writer changed files after the state was read.
        """

    def replace(
        self, txn_version: int, files: Sequence[StagedFile], state: str, *, removed: Sequence[RemovedFile]
    ) -> SealedCommit:
        """Add and remove files in one commit with the state.

        Raises:
            TargetChangedError: another writer changed files after the fence.
            FencedError: a newer attempt of the job has committed.
        """


@dataclass(frozen=True, slots=True)
class TargetSize:
    """Stored files of a target, with its log."""

    files: int
    bytes: int


class TargetRemoval(Protocol):
    """Removal of a target that its job created; `protocol.removal` decides whether it may be removed."""

    def evidence(self, application: str, other_jobs: tuple[str, ...]) -> TargetEvidence:
        """Return the facts about the target; `application` is the id of the job's transactions."""

    def size(self) -> TargetSize:
        """Return the number and size of all files."""

    def remove(self) -> None:
        """Delete all files, the log last; a removal that was killed is repeated.

        Raises:
            PermissionDeniedError, AwayError, TransientError: the storage failed.
        """


@runtime_checkable
class SupportsPublication(Protocol):
    """A sink whose staged files can become visible together; its committer is a `ports.committer.HidesRows`."""

    def remove_orphans_except(self, before_attempt: int, parts: Sequence[ManifestPart]) -> int:
        """Remove files like `remove_orphans`, but keep those that parts of a manifest name."""

    def staged_table(self, parts: Sequence[ManifestPart], version: int) -> tuple[Sink, int]:
        """Return a table of the files in these parts alone, and its version; its columns are those of a version of the target."""

    def drop_manifest(self) -> None:
        """Remove the manifest of a finished job."""


@dataclass(frozen=True, slots=True)
class SinkPlugin:
    """One kind of target."""

    name: str
    """Its `spec.target.type`."""

    open: Callable[[SparkSession, BackfillResource], Sink]
    """Create the sink of a job; writes nothing."""

    code: Callable[[], type[Sink]]
    """Load the class that `open` creates; it implements the abilities that the `VARIANT` declares."""

    repairs: Callable[[SparkSession, BackfillResource], RepairCommits] | None = None
    """Return the commits of a repair of a target; writes nothing. `None` if such targets cannot be repaired."""

    removal: Callable[[SparkSession, BackfillResource], TargetRemoval] | None = None
    """Return the removal of a target; removes nothing yet. `None` if such targets cannot be removed."""

    quarantine: Callable[[SparkSession, BackfillResource, str], QuarantineTable] | None = None
    """Create the table at a path for the bad records of a job; writes nothing. `None` if such targets have no such table."""
