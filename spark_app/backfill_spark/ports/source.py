"""What a source promises the driver; each folder below `sources` has one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from backfill_core.errors import BackfillError
from backfill_core.log_shipping.actions import VersionActions
from backfill_core.positions.file_order import FileOrder
from backfill_core.positions.key_line import KeyLine
from backfill_core.positions.key_order import KeyOrder, KeyPosition
from backfill_core.positions.offsets import OffsetRange, Offsets, Subscribed
from backfill_core.positions.vnode_positions import KeySpace
from backfill_core.protocol.events import Head
from backfill_core.protocol.work import FileRange, Position
from backfill_core.transfer.facts import TableFacts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from backfill_spark.delta.log import LoggedFile, LoggedTable
    from backfill_spark.delta.source_file import SourceFile


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """One version of a table, by file."""

    version: int
    timestamp_ms: int
    rows: tuple[int, ...]
    """Rows of each file in path order, deleted ones included."""

    deleted: tuple[int, ...]
    """How many of them a deletion vector hides."""

    bytes: tuple[int, ...]
    table_id: str
    fingerprint: str
    schema: StructType
    partitions: tuple[str, ...]
    change_feed: bool

    @property
    def live_rows(self) -> int:
        """Rows that a reader sees."""
        return sum(self.rows) - sum(self.deleted)


class Source(Protocol):
    """Something that keeps changing: what every source can do. The rest are abilities; a strategy names those that it needs.

    An ability opens the source: `pin` or `subscribe` come first. Everything else may be called from several threads.
    """

    path: str

    def head(self) -> Head:
        """Return the newest position."""

    def check_kept(self, after: Position, head: Head) -> None:
        """Refuse to go on when something that comes after a position, and up to the newest, is gone."""

    def kept_seconds(self) -> int | None:
        """Return how long the source keeps what is not the newest; None: it does not say."""

    def explain_failure(self, error: Exception) -> BackfillError | None:
        """Say in our words why a job on this source failed, or None when it is unknown."""


@runtime_checkable
class SupportsPin(Protocol):
    """A source of which one version can be read again and again, by file."""

    def pin(self, version: int | None) -> PinnedTable:
        """Fix the version that the snapshot is read from; None is the newest."""

    def check_no_null_key(self, where: str | None = None) -> None:
        """Refuse null keys among the rows of the pinned version that pass a condition."""

    def live_rows(self, ranges: Sequence[FileRange]) -> int:
        """Return how many rows whole files must yield."""

    def read(self, ranges: Sequence[FileRange]) -> DataFrame:
        """Return the rows of ranges of the pinned version; lazy."""

    def read_segments(self, parts: Sequence[Sequence[FileRange]]) -> tuple[DataFrame, str]:
        """Return the rows of several segments at once, and the name of a column with each row's segment; lazy.

        Each file is read once, and each part (0, 1, …) has exactly the rows that `read` gives of it alone.
        """

    def file_order(self, column: str, direction: str, *, field: str) -> FileOrder:
        """Return the order of the pinned version's files by the values of a column; `field` of the spec names both."""

    def rows_at(self, version: int) -> int:
        """Return how many rows a version has; from its metadata, where that says so."""

    def at(self, version: int) -> DataFrame:
        """Return all rows as of a version, with the pinned columns; lazy."""


@runtime_checkable
class SupportsFiles(Protocol):
    """A source whose pinned version is made of Parquet files below its path. No strategy needs it: a file may be copied by it."""

    path: str

    def table_facts(self) -> TableFacts:
        """Return what the log says of all files of the pinned version."""

    def source_files(self, files: Sequence[int]) -> tuple[SourceFile, ...]:
        """Return what the log says of some of them, by their index in path order."""

    def files_of(self, version: int) -> Sequence[LoggedFile]:
        """Return the files of a version, in path order."""

    def numbered_rows(self, files: Sequence[SourceFile]) -> tuple[DataFrame, Column, Column]:
        """Return all rows of files of the pinned or a later version, also those that deletion vectors hide, with the pinned columns.

        Beside them: each row's file, by its place among `files`, and its place in the file, counted from 0. A task has the
        rows of a file in this order, and each row group in one task. Lazy.
        """

    def rows_of(self, actions: Sequence[str], version: int) -> DataFrame:
        """Return the rows of files as a version describes them, with the pinned columns; each is told by its `add` action. Lazy."""


@runtime_checkable
class SupportsChanges(Protocol):
    """A source that gives the row changes between two versions."""

    def check_versions(self, after: int, upto: int) -> None:
        """Refuse versions that cannot be applied."""

    def changes(self, after: int, upto: int) -> DataFrame:
        """Return the row changes of the versions `(after, upto]`; lazy."""


@runtime_checkable
class SupportsAppends(SupportsFiles, Protocol):
    """A source that tells which files the versions of an append-only table added. No strategy needs it: a file may be copied by it."""

    def appended(self, after: int, upto: int) -> list[tuple[int, str]] | None:
        """Return the `add` action of each file that the versions `(after, upto]` added rows with, and its version.

        None: a version did more than add rows.
        """


@runtime_checkable
class SupportsLog(SupportsFiles, Protocol):
    """A source whose log can be brought into a target as it is: which files came, went, or hide other rows than before."""

    def shippable(self) -> LoggedTable:
        """Return the layout of the pinned version; refuse one whose files alone do not say what a reader sees.

        Raises:
            UnsupportedSourceFeatureError: names what a copy would lack.
        """

    def layout_at(self, version: int) -> LoggedTable:
        """Return the layout of a version, whatever it is."""

    def log_actions(self, after: int, upto: int) -> Iterator[VersionActions]:
        """Yield the file actions of the versions `(after, upto]`, in order; each is read and checked when it is asked for."""


@runtime_checkable
class SupportsOffsets(Protocol):
    """A source whose rows have a partition and an offset. A position is `{partition: offset after the last row}`, as JSON.

    A row has its partition, a whole number, in the column `partition`. `head` gives the offset after the last row that may be read: an open
    transaction ends there. An offset needs no row.
    """

    path: str

    def subscribe(self, after: Position | None) -> Subscribed:
        """Look at the offsets; `after`: what is consumed, None: nothing is. A partition that it does not know begins at 0.

        Raises:
            OffsetsExpiredError: what comes after is gone.
        """

    def read_offsets(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        """Return the rows of ranges, each of them once; lazy. Without ranges: no row, and the columns.

        What is gone is an error when the rows are read, never a hole. If a column of a row cannot be read, it is null, and the frame has
        the column `rows.records.parsing.UNREAD`.
        """


@runtime_checkable
class SupportsMoments(Protocol):
    """A source with offsets that knows how old its rows are."""

    def offsets_at(self, moment_ms: int) -> Offsets:
        """Return the first offset of each partition whose row is no older than a moment; the one after the last where all are older."""


@runtime_checkable
class SupportsClose(Protocol):
    """A source that keeps connections open between two questions."""

    def close(self) -> None:
        """Close them; a question that comes later opens them anew."""


@runtime_checkable
class SupportsKeyRanges(Protocol):
    """A source whose rows can be read in the order of a key, at any version that it still has."""

    def key_order(self, columns: Sequence[tuple[str, bool]], *, field: str) -> KeyOrder:
        """Return an order by columns of the pinned version, each with: is it descending?

        Raises:
            InvalidSpecError: there is no such column, or its type has no order that engines agree on; names the `field`.
        """

    def key_line(self, space: KeySpace, *, cut_rows: int) -> KeyLine:
        """Return places to cut the rows of the pinned version, so many rows apart, by statistics of files or by a sample."""

    def key_line_at(self, version: int, space: KeySpace, *, cut_rows: int) -> KeyLine | None:
        """Return places to cut the rows of another version, by statistics of files; `None` if they do not tell."""

    def key_range(self, version: int, order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None) -> DataFrame:
        """Return the rows of a version after `low`, up to and with `high`: the pinned columns, no order, lazy.

        None: from the first row, to the last row. Files without such rows are not read.
        """
