"""A source that was opened at what its strategy asked for, and all that the driver wants of it then.

request                    ability            opened
------------------------   ----------------   ------------------------------------------------------------
PinVersion, ReadNewest     SupportsPin        PinnedSource: one version, by file
Subscribe                  SupportsOffsets    SubscribedSource: partitions, from the first offset to the newest

The driver asks either of them the same things; code that knows one kind (a runner of work) asks for that kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from backfill_api.spec.strategies import Strategy
from backfill_core.errors import InvalidSpecError, SnapshotExpiredError, SourceReplacedError
from backfill_core.positions import offsets
from backfill_core.positions.file_order import FileOrder
from backfill_core.positions.file_ranges import file_ranges
from backfill_core.positions.offsets import Subscribed
from backfill_core.positions.vnode_positions import KeyBound
from backfill_core.protocol.events import Head
from backfill_core.protocol.strategy import OpenRequest, Pinned, PinVersion, ReadNewest, Subscribe
from backfill_core.protocol.work import Covered, FileRange, Position
from backfill_spark.opening.compared import ComparedRows, FilesOfRanges, FilesOfVersion
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import PinnedTable, Source, SupportsFiles, SupportsOffsets, SupportsPin
from backfill_spark.rows.key_ranges import within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

SAMPLE_OFFSETS = 100


@dataclass(frozen=True)
class Sample:
    """Some rows for a measurement."""

    rows: DataFrame
    count: int
    parts: int
    """Files or partitions that it has rows of: so many cores read it."""

    files: tuple[FileRange, ...] = ()
    """The files, whole; none of a source without."""


@dataclass(frozen=True)
class PinnedSource:
    """One version of a source."""

    source: SupportsPin
    table: PinnedTable
    order: FileOrder | None = None
    """In which its files are read; None: in path order."""

    @property
    def found(self) -> Pinned:
        """What a strategy needs to know of it."""
        table = self.table
        return Pinned(
            version=table.version,
            timestamp_ms=table.timestamp_ms,
            table_id=table.table_id,
            fingerprint=table.fingerprint,
            rows=tuple(table.rows),
            rows_live=table.live_rows,
            order=self.order,
            bytes=tuple(table.bytes),
            live=tuple(rows - gone for rows, gone in zip(table.rows, table.deleted, strict=True)),
        )

    @property
    def schema(self) -> StructType:
        """Its columns."""
        return self.table.schema

    @property
    def rows(self) -> int:
        """Rows of history."""
        return self.table.live_rows

    @property
    def words(self) -> str:
        """What it is, in a message."""
        return f"version {self.table.version} of the source"

    def nothing(self) -> DataFrame:
        """Return its columns without rows."""
        return self.source.read(())

    def some(self) -> DataFrame:
        """Return the rows of its first file that has any; lazy."""
        rows = self.table.rows
        return self.source.read(next(((FileRange(at, 0, one, one),) for at, one in enumerate(rows) if one), ()))

    @property
    def some_words(self) -> str:
        """What `some` returns, in a message."""
        return "the first rows"

    def all(self) -> DataFrame:
        """Return all rows of history; lazy."""
        return self.source.read(tuple(FileRange(at, 0, one, one) for at, one in enumerate(self.table.rows)))

    def sample(self, rows_max: int) -> Sample:
        """Return about so many rows, of as many files as it takes."""
        rows, found = 0, list[FileRange]()
        for index, count in enumerate(self.table.rows):
            if found and rows + count > rows_max:
                break
            if count:
                found.append(FileRange(index, 0, min(count, rows_max), count))
                rows += min(count, rows_max)
        files = tuple(FileRange(one.file, 0, one.of, one.of) for one in found)
        return Sample(self.source.read(found), rows, len(found), files)

    def check_no_null_key(self, where: str | None) -> None:
        """Refuse null keys among the rows that pass a condition."""
        self.source.check_no_null_key(where)

    def compared(self, position: Position, covered: Covered, row_offsets: Sequence[int]) -> ComparedRows:
        """Return the rows of a version, or those that are covered: of intervals of the row index, or up to positions of a key."""
        if covered is None:
            files = FilesOfVersion(self.source, position) if isinstance(self.source, SupportsFiles) else None
            return ComparedRows(self.source.at(position), lambda: self.source.rows_at(position), None, files=files)
        if isinstance(covered, KeyBound):
            rows = self.source.at(position).where(within(covered))
            return ComparedRows(rows, rows.count, self.rows)
        ranges = tuple(one for start, stop in covered for one in file_ranges(row_offsets, start, stop))
        source = self.source
        of_ranges = (
            FilesOfRanges(source, self.table.version, ranges, source.read)
            if isinstance(source, SupportsFiles)
            else None
        )
        return ComparedRows(source.read(ranges), lambda: self._count(ranges), self.rows, files=of_ranges)

    def _count(self, ranges: Sequence[FileRange]) -> int:
        """Return the rows of ranges; one below a file has its rows in the mean only, of the rest the metadata knows."""
        whole = self.source.live_rows([one for one in ranges if one.whole])
        return whole + sum(
            (one.stop - one.start) * self.source.live_rows([one]) // one.of for one in ranges if not one.whole
        )

    def newer(self, head: Head) -> int:
        """Return how many versions came after it."""
        return int(head.position) - self.table.version


@dataclass(frozen=True)
class SubscribedSource:
    """Partitions with offsets."""

    source: SupportsOffsets
    found: Subscribed
    """What a strategy needs to know of it."""

    @property
    def schema(self) -> StructType:
        """Its columns."""
        return self.nothing().schema

    @property
    def rows(self) -> int:
        """Offsets of history; a source that leaves offsets out has fewer rows."""
        return offsets.count(self._history)

    @property
    def _history(self) -> tuple[offsets.OffsetRange, ...]:
        return offsets.between(self.found.first, self.found.newest)

    @property
    def words(self) -> str:
        """What it is, in a message."""
        return "the history of the source"

    def nothing(self) -> DataFrame:
        """Return its columns without rows."""
        return self.source.read_offsets(())

    def some(self) -> DataFrame:
        """Return the first rows of one partition; lazy."""
        return self.sample(SAMPLE_OFFSETS).rows

    @property
    def some_words(self) -> str:
        """What `some` returns, in a message."""
        found = self._first(SAMPLE_OFFSETS)
        return offsets.describe_ranges(found) if found else "no row"

    def all(self) -> DataFrame:
        """Return all rows of history; lazy."""
        return self.source.read_offsets(self._history)

    def sample(self, rows_max: int) -> Sample:
        """Return the rows at so many offsets, of as many partitions as it takes."""
        found = self._first(rows_max)
        return Sample(self.source.read_offsets(found), offsets.count(found), len(found))

    def _first(self, rows_max: int) -> tuple[offsets.OffsetRange, ...]:
        left, found = rows_max, list[offsets.OffsetRange]()
        for one in self._history:
            stop = min(one.stop, one.start + left)
            left -= stop - one.start
            found += [offsets.OffsetRange(one.partition, one.start, stop)] if one.start < stop else []
        return tuple(found)

    def check_no_null_key(self, where: str | None) -> None:
        """Accept all: what makes the key of a record is known behind the transform only."""
        del where

    def compared(self, position: Position, covered: Covered, row_offsets: Sequence[int]) -> ComparedRows:
        """Return the rows before a position, by partition, or the ranges that are covered."""
        del row_offsets
        ranges = offsets.between(self.found.first, position) if covered is None else tuple(covered)
        total = None if covered is None else self.rows
        return ComparedRows(
            self.source.read_offsets(ranges),
            lambda: offsets.count(ranges),
            total,
            ranges,
            lambda upto: self._after(ranges, upto),
        )

    def _after(self, ranges: Sequence[offsets.OffsetRange], upto: Position) -> DataFrame | None:
        """Return what came behind some ranges."""
        if not self.found.compacts:
            return None
        ends = {**self.found.first}
        for one in ranges:
            ends[one.partition] = max(one.stop, ends.get(one.partition, 0))
        return self.source.read_offsets(offsets.between(ends, upto))

    def newer(self, head: Head) -> int:
        """Return 0: new records need no versions of theirs to be applied."""
        del head
        return 0


OpenSource = PinnedSource | SubscribedSource


def open_source(source: Source, request: OpenRequest, *, asked: int | None) -> OpenSource:
    """Open a source at what a strategy asks for.

    Args:
        source: Not opened yet.
        request: Of the strategy.
        asked: The version that the spec names, for a job that begins.

    Raises:
        InvalidSpecError: the source has not the ability, or the strategy begins anew without end.
        SnapshotExpiredError: the version is gone, and so is the one that would do.
        SourceReplacedError: another table is at the path.
        BackfillError: whatever else the source says.
    """
    match request:
        case PinVersion():
            return _pinned(source, ability(source, SupportsPin), request, asked)
        case ReadNewest(table_id=known):
            found = PinnedSource(pins := ability(source, SupportsPin), pins.pin(None))
            if known and found.table.table_id != known:
                raise _replaced(source, "an earlier attempt read it")
            return found
        case Subscribe():
            return _subscribed(source, ability(source, SupportsOffsets), request)
        case _:
            raise InvalidSpecError(
                "spec.strategy: the strategy begins anew, and then again.", hint="Use another strategy."
            )


def in_order(opened: OpenSource, strategy: Strategy) -> OpenSource:
    """Return a source with the order in which the strategy is asked to read the files of the pinned version.

    Raises:
        InvalidSpecError: names the field.
    """
    order = strategy.params.history_order
    if order is None:
        return opened
    field = f"spec.strategy.{strategy.member}.order.column"
    if not isinstance(opened, PinnedSource):
        raise InvalidSpecError(f"{field}: the source has no files.", hint="Leave the order out.")
    return replace(opened, order=opened.source.file_order(order.column, order.direction, field=field))


def _subscribed(source: Source, has: SupportsOffsets, request: Subscribe) -> SubscribedSource:
    """Look at the offsets of the source that was read before; where history began is the strategy's to say."""
    found = has.subscribe(request.after)
    if request.source_id and found.source_id != request.source_id:
        raise _replaced(source, "an earlier attempt read it")
    # A partition that the state does not know is a new one, and begins at its first offset, wherever a job would begin now.
    return SubscribedSource(has, found if request.after is None else replace(found, first=request.first or {}))


def _pinned(source: Source, pins: SupportsPin, request: PinVersion, asked: int | None) -> PinnedSource:
    """Pin the version that the strategy asks for; the spec's, or the newest, when it asks for none."""
    if request.version is None:
        return PinnedSource(pins, pins.pin(asked))
    try:
        return PinnedSource(pins, pins.pin(request.version))
    except SnapshotExpiredError:
        if request.or_else is None:
            raise
        pinned = pins.pin(request.or_else)
    if pinned.table_id != request.table_id:
        raise _replaced(source, f"version {request.version} was pinned")
    return PinnedSource(pins, pinned)


def _replaced(source: Source, when: str) -> SourceReplacedError:
    return SourceReplacedError(
        f"{source.path} is another one than when {when}.",
        hint="It was dropped and made again: give the job another jobId and another target.",
    )
