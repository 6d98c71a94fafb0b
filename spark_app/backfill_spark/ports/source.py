"""What a source promises the driver; each folder below `sources` has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from backfill_core.errors import BackfillError
from backfill_core.positions.key_order import KeyOrder, KeyPosition
from backfill_core.positions.vnode_positions import KeySpace
from backfill_core.protocol.events import Head
from backfill_core.protocol.strategy import FileOrder, KeyLine
from backfill_core.protocol.work import FileRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


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
    change_feed: bool

    @property
    def live_rows(self) -> int:
        """Rows that a reader sees."""
        return sum(self.rows) - sum(self.deleted)


class Source(Protocol):
    """Something that keeps changing, with versions. `pin` comes first; the rest may be called from several threads."""

    path: str

    @property
    def version(self) -> int:
        """Number of the pinned version."""

    def head(self) -> Head:
        """Return the newest version; milliseconds."""

    def pin(self, version: int | None) -> PinnedTable:
        """Fix the version that the snapshot is read from; None is the newest."""

    def file_order(self, column: str, direction: str, *, field: str) -> FileOrder:
        """Return the order of the pinned version's files by the values of a column; `field` of the spec names both."""

    def kept_seconds(self) -> int:
        """Return how long the source keeps data and history of older versions."""

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

    @property
    def pinned_rows(self) -> int:
        """Rows of the pinned version that a reader sees."""

    def rows_at(self, version: int) -> int:
        """Return how many rows a version has; from its metadata, where that says so."""

    def at(self, version: int) -> DataFrame:
        """Return all rows as of a version, with the pinned columns; lazy."""

    def check_kept(self, version: int) -> None:
        """Refuse to go on when a version that is not consumed yet is gone."""

    def check_versions(self, after: int, upto: int) -> None:
        """Refuse versions that cannot be applied."""

    def changes(self, after: int, upto: int) -> DataFrame:
        """Return the row changes of the versions `(after, upto]`; lazy."""

    def explain_failure(self, error: Exception) -> BackfillError | None:
        """Say in our words why a job on this source failed, or None when it is unknown."""


@runtime_checkable
class SupportsKeyRanges(Protocol):
    """A source whose rows can be read in the order of a key, at any version that it still has."""

    def key_order(self, columns: Sequence[tuple[str, bool]]) -> KeyOrder:
        """Return an order by columns of the pinned version, each with: is it descending?

        Raises:
            InvalidSpecError: there is no such column, or its type has no order that engines agree on.
        """

    def key_line(self, space: KeySpace) -> KeyLine:
        """Return places at which the rows of the pinned version may be cut, by statistics of files or by a sample."""

    def key_range(self, version: int, order: KeyOrder, low: KeyPosition | None, high: KeyPosition | None) -> DataFrame:
        """Return the rows of a version after `low`, up to and with `high`: the pinned columns, no order, lazy.

        None: from the first row, to the last row. Files without such rows are not read.
        """
