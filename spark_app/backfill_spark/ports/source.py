"""Interfaces of a source for the driver; each folder below `sources` implements them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from backfill_api.spec.bounds import count
from backfill_core.errors import BackfillError
from backfill_core.file_copies.facts import TableFacts
from backfill_core.log_shipping.actions import VersionActions
from backfill_core.positions.file_order import FileOrder
from backfill_core.positions.file_ranges import FileRange
from backfill_core.positions.key_order import KeyOrder, KeyPosition
from backfill_core.positions.key_scan import KeyScan
from backfill_core.positions.offsets import OffsetRange, Offsets, Subscribed
from backfill_core.positions.vnode_positions import KeySpace
from backfill_core.protocol.events import Head
from backfill_core.protocol.work import Position
from backfill_core.source_fence.fence import LogEntry, TableHead

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from backfill_api.spec import sources
    from backfill_spark.delta.listing.logged_files import LoggedFiles
    from backfill_spark.delta.log import LoggedTable
    from backfill_spark.delta.source_file import SourceFile


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """One version of a table, by file."""

    version: int
    timestamp_ms: int
    rows: tuple[int, ...]
    """Rows of each file in path order, deleted ones included."""

    deleted: tuple[int, ...]
    """Number of rows of each file that a deletion vector hides."""

    bytes: tuple[int, ...]
    table_id: str
    fingerprint: str
    schema: StructType
    partitions: tuple[str, ...]
    change_feed: bool
    partition_of: tuple[str, ...] = ()
    """Partition of each file, such as `day=2026-11-01/country=DE`; empty if the table has no partition columns."""

    @property
    def live_rows(self) -> int:
        """Rows that a reader sees."""
        return sum(self.rows) - sum(self.deleted)


class Source(Protocol):
    """Methods that every source has. All other methods are abilities; a strategy names those that it requires.

    An ability opens the source: call `pin` or `subscribe` first. Everything else may be called from several threads.
    """

    path: str

    def head(self) -> Head:
        """Return the newest position."""

    def check_kept(self, after: Position, head: Head) -> None:
        """Raise an error if changes after a position, up to the newest, no longer exist."""

    def kept_seconds(self) -> int | None:
        """Return how many seconds the source keeps old versions or records; `None` if it does not report that."""

    def explain_failure(self, error: Exception) -> BackfillError | None:
        """Translate an error of a job on this source; `None` if it is unknown."""


@runtime_checkable
class SupportsPin(Protocol):
    """A source of which one version can be read repeatedly, by file."""

    def pin(self, version: int | None) -> PinnedTable:
        """Pin the version that the snapshot is read from; `None` pins the newest."""

    def check_no_null_key(self, where: str | None = None) -> None:
        """Reject null keys among the rows of the pinned version that pass a condition."""

    def live_rows(self, ranges: Sequence[FileRange]) -> int:
        """Return the number of rows that whole files must yield."""

    def read(self, ranges: Sequence[FileRange]) -> DataFrame:
        """Return the rows of ranges of the pinned version; lazy."""

    def read_segments(self, parts: Sequence[Sequence[FileRange]]) -> tuple[DataFrame, str]:
        """Return the rows of several segments at once, and the name of a column with each row's segment; lazy.

        Each file is read once, and each part (0, 1, …) has exactly the rows that `read` returns for that part.
        """

    def file_order(self, column: str, direction: str, *, field: str) -> FileOrder:
        """Return the order of the pinned version's files by the values of a column; `field` of the spec names both."""

    def rows_at(self, version: int) -> int:
        """Return the number of rows of a version; from its metadata if that contains the number."""

    def at(self, version: int) -> DataFrame:
        """Return all rows as of a version, with the pinned columns; lazy."""


@runtime_checkable
class SupportsFiles(Protocol):
    """A source whose pinned version consists of Parquet files below its path. No strategy requires it; it allows copies of files."""

    path: str

    def table_facts(self) -> TableFacts:
        """Return the facts that the log records about all files of the pinned version."""

    def source_files(self, files: Sequence[int]) -> tuple[SourceFile, ...]:
        """Return the log entries of some files, by their index in path order."""

    def files_of(self, version: int) -> LoggedFiles:
        """Return the files of a version, in path order. Their log entries are not in memory."""

    def numbered_rows(self, files: Sequence[SourceFile]) -> tuple[DataFrame, Column, Column]:
        """Return the rows of files of the pinned or a later version that the files' deletion vectors do not hide, with the pinned columns.

        The two columns are each row's file (its index in `files`) and its row index in the file, from 0; hidden rows count. Each
        task has the rows of a file in this order, and each row group is in one task. Lazy.
        """

    def split_rows(self, files: Sequence[SourceFile], split_bytes: int) -> tuple[DataFrame, Column, Column]:
        """Return the rows of files like `numbered_rows`; each task has one split of one file, in the order of its rows. Lazy.

        A split has the row groups whose middle byte is in it. The two columns are each row's file (its index in `files`) and the
        offset of the first byte of its split.
        """

    def rows_of(self, actions: Sequence[str], version: int) -> DataFrame:
        """Return the rows of files of a version, with the pinned columns; `actions` are the files' `add` actions. Lazy."""


@runtime_checkable
class SupportsChanges(Protocol):
    """A source that returns the row changes between two versions."""

    def check_versions(self, after: int, upto: int) -> None:
        """Reject versions that cannot be applied."""

    def changes(self, after: int, upto: int) -> DataFrame:
        """Return the row changes of the versions `(after, upto]`; lazy."""


@runtime_checkable
class SupportsChangeSizes(Protocol):
    """A source that knows the size of changes without reading them. No strategy requires it; without it no batch is merged in parts."""

    def changed_bytes(self, after: int, upto: int) -> int:
        """Return the bytes of the files that hold the changes of the versions `(after, upto]`."""


@runtime_checkable
class SupportsAppends(SupportsFiles, Protocol):
    """A source that lists the files that versions of an append-only table added. No strategy requires it; it allows copies of files."""

    def appended(self, after: int, upto: int) -> list[tuple[int, str]] | None:
        """Return the version and the `add` action of each file that the versions `(after, upto]` added.

        Return `None` if a version did more than add rows.
        """


@runtime_checkable
class SupportsLog(SupportsFiles, Protocol):
    """A source whose log can be applied to a target: added files, removed files, and changed deletion vectors."""

    def shippable(self) -> LoggedTable:
        """Return the layout of the pinned version; reject a version whose files do not fully define the rows that a reader sees.

        Raises:
            UnsupportedSourceFeatureError: a copy would lack a feature; names it.
        """

    def layout_at(self, version: int) -> LoggedTable:
        """Return the layout of a version without checking it."""

    def log_actions(self, after: int, upto: int) -> Iterator[VersionActions]:
        """Yield the file actions of the versions `(after, upto]`, in order; each version is read and checked lazily."""


@runtime_checkable
class SupportsOffsets(Protocol):
    """A source whose rows have a partition and an offset. A position is `{partition: offset after the last row}`, as JSON.

    The column `partition` contains a row's partition, a whole number. `head` returns the offset after the last readable row, which lies
    before any open transaction. Not every offset has a row.
    """

    def subscribe(self, after: Position | None) -> Subscribed:
        """Read the offsets; `after` is the consumed position, or `None`. A partition that is missing in `after` begins at 0.

        Raises:
            OffsetsExpiredError: records after the position no longer exist.
        """

    def read_offsets(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        """Return the rows of ranges, each row once; lazy. Without ranges, return an empty frame with the columns.

        Missing offsets cause an error when the rows are read, never a gap. If a column of a row cannot be read, it is null, and the
        frame has the column `rows.records.parsing.UNREAD`.
        """


@runtime_checkable
class SupportsRecordSizes(Protocol):
    """A source with offsets that can measure records without reading their content. No strategy requires it."""

    def measure(self, ranges: Sequence[OffsetRange]) -> None:
        """Measure the records of ranges before `read_offsets` reads them.

        `read_offsets` then returns those that need too much memory without their content, with the column `UNREAD`.
        """

    def unread(self, ranges: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
        """Return the parts of ranges whose records `read_offsets` returns without their content."""

    def leave_unread(self, ranges: Sequence[OffsetRange]) -> None:
        """Let `read_offsets` return the records of ranges without their content: `unread` returned them in an earlier attempt."""


@runtime_checkable
class SupportsOldest(Protocol):
    """A source with offsets that deletes its oldest rows. No strategy requires it; with it a receipt leaves out what is gone."""

    def oldest(self) -> Offsets:
        """Return the offset of the oldest row that each partition still has; rows before it can no longer be read."""


@runtime_checkable
class SupportsMoments(Protocol):
    """A source with offsets whose rows have timestamps."""

    def offsets_at(self, moment_ms: int) -> Offsets:
        """Return each partition's first offset whose row is not older than a timestamp; the end offset if all rows are older."""


@runtime_checkable
class SupportsClose(Protocol):
    """A source that keeps connections open between two requests."""

    def close(self) -> None:
        """Close the connections; a later request opens them again."""


@runtime_checkable
class SupportsKeyRanges(Protocol):
    """A source whose rows can be read in the order of a key, at any version that it still has."""

    def key_order(self, columns: Sequence[tuple[str, bool]], *, field: str) -> KeyOrder:
        """Return an order by columns of the pinned version; each column has a flag that is True for descending order.

        Raises:
            InvalidSpecError: a column does not exist, or engines disagree on the order of its type; names the `field`.
        """

    def key_line(self, space: KeySpace, *, cut_rows: int) -> KeyScan:
        """Return cut points of the pinned version, `cut_rows` rows apart, from file statistics or a sample."""

    def key_line_at(self, version: int, space: KeySpace, *, cut_rows: int) -> KeyScan | None:
        """Return cut points of another version, from file statistics; `None` if the statistics do not suffice."""

    def key_range(self, version: int, order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None) -> DataFrame:
        """Return the rows of a version in `(low, high]`: with the pinned columns, unordered, lazy.

        `None` means the first row as `low`, and the last row as `high`. Files without such rows are not read.
        """


def format_version(position: Position) -> str:
    """Format the position of a source with versions."""
    return f"version {position}"


def version_of(position: Position | None) -> int | None:
    """Return a position as a version; `None` if it is not one."""
    return count(position) if isinstance(position, int) else None


class FencedLog(Protocol):
    """Log of a table that can be made read-only for all writers; `source_fence.fence` decides on its entries."""

    @property
    def path(self) -> str:
        """Folder of the table, without a read of its log."""

    def check(self) -> None:
        """Check that an entry cannot replace another writer's commit, and that this user may write to the log.

        A log that passed is not checked again: on S3 the check takes three requests, and writers wait while a fence holds.

        Raises:
            UnsupportedSourceFeatureError: the store ignores the condition that a version must not exist.
            PermissionDeniedError, AwayError: the storage failed.
        """

    def head(self) -> TableHead:
        """Return the newest version.

        Raises:
            BackfillError: the log cannot be read; its class shows whether a retry may help.
        """

    def time_of(self, version: int) -> int | None:
        """Return the time of a commit, in milliseconds; `None` if it is not in the log, or has no time."""

    def retention_s(self, name: str, value: str | None) -> int:
        """Return the seconds of a retention by the name of its property and its value; `None` stands for the default."""

    def at(self, path: str) -> FencedLog:
        """Return the log of another table of the same kind."""

    def put(self, entry: LogEntry) -> None:
        """Write an entry unless its version exists; the next `head` shows the result.

        Raises:
            PermissionDeniedError, StorageFullError, AwayError, TransientError: the storage failed.
        """


@dataclass(frozen=True, slots=True)
class SourcePlugin:
    """One kind of source."""

    name: str
    """Its `spec.source.type`."""

    open: Callable[[SparkSession, sources.Source], Source]
    """Create the source of a spec; reads only the catalog, to resolve a name."""

    code: Callable[[], type[Source]]
    """Load the class that `open` creates; it implements the abilities that the `VARIANT` declares."""

    format_position: Callable[[Position], str] = format_version
    """Format a position for users, in at most 256 characters; needs no open source."""

    fenced_log: Callable[[SparkSession, sources.Source], FencedLog] | None = None
    """Open the log of a source for a fence; `None` if the source has no log of its own."""

    doubt_of_absence: Callable[[SparkSession, sources.Source, BackfillError, str | None], str] = lambda *_: ""
    """Return the next step for users if a source that `fenced_log` did not find may exist; empty if it is certainly gone.

    The last arguments are the error, and the location of a target that the session reads; `None` if it has no table.
    """

    version_at: Callable[[SparkSession, sources.Source, int], int] | None = None
    """Return the version of a source as of a time, in milliseconds since 1970; `None` if its versions have no times.

    Raises an `InvalidSpecError` for a time in the future or before the first version, and `SnapshotExpiredError` if the version is gone.
    """
