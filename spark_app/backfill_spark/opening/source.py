"""Sources that are open at the version or offsets that their strategy requests, with one interface for the driver.

request                    ability            opened
------------------------   ----------------   ------------------------------------------------------------
PinVersion, ReadNewest     SupportsPin        PinnedSource: one version, by file
Subscribe                  SupportsOffsets    SubscribedSource: partitions, from the first offset to the newest

Both kinds have the same methods for the driver. Code for one kind only (a runner of work) requires that kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from backfill_api.spec.strategies import Strategy
from backfill_core.errors import RECREATED_HINT, InvalidSpecError, SnapshotExpiredError, SourceReplacedError
from backfill_core.positions import offsets
from backfill_core.positions.file_order import FileOrder
from backfill_core.positions.file_ranges import FileRange, file_ranges
from backfill_core.positions.offsets import Subscribed
from backfill_core.positions.vnode_positions import KeyBound
from backfill_core.protocol.events import Head
from backfill_core.protocol.strategy import OpenRequest, Pinned, PinVersion, ReadNewest, Subscribe
from backfill_core.protocol.work import Covered, Position
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.compared import ComparedRows, FilesOfRanges, FilesOfVersion
from backfill_spark.ports.source import (
    PinnedTable,
    Source,
    SupportsFiles,
    SupportsOffsets,
    SupportsOldest,
    SupportsPin,
    SupportsRecordSizes,
)
from backfill_spark.rows.key_ranges import within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

SAMPLE_OFFSETS = 100
NO_SNAPSHOT = "no snapshot"
"""Fingerprint of a version of which no row is read."""


@dataclass(frozen=True)
class Start:
    """Start of a new job, as its spec has it."""

    version: Callable[[], int | None] = lambda: None
    """Returns the version; `None` for the newest. It is called once, for a job without a state."""

    skips_snapshot: bool = False
    """True if only the changes after the version are read."""


@dataclass(frozen=True)
class Sample:
    """Some rows for a measurement."""

    rows: DataFrame
    count: int
    parts: int
    """Number of files or partitions that the rows come from, which is the number of cores that read them."""

    files: tuple[FileRange, ...] = ()
    """The files as whole ranges; empty for a source without files."""


@dataclass(frozen=True)
class PinnedSource:
    """One version of a source."""

    source: SupportsPin
    table: PinnedTable
    order: FileOrder | None = None
    """Order in which the files are read; `None` for path order."""

    @property
    def reads_rows(self) -> bool:
        """False if only the changes after the version are read."""
        return self.table.fingerprint != NO_SNAPSHOT

    @property
    def answer(self) -> Pinned:
        """Facts about the version for the strategy."""
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
            partitions=table.partition_of,
        )

    @property
    def schema(self) -> StructType:
        """Columns of the version."""
        return self.table.schema

    @property
    def rows(self) -> int:
        """Rows of history."""
        return self.table.live_rows

    @property
    def description(self) -> str:
        """Name of the version in messages."""
        return f"version {self.table.version} of the source"

    def nothing(self) -> DataFrame:
        """Return an empty frame with the version's columns."""
        return self.source.read(())

    def some(self) -> DataFrame:
        """Return the rows of the first file that has any; lazy."""
        rows = self.table.rows
        first = next(((FileRange(index, 0, count, count),) for index, count in enumerate(rows) if count), ())
        return self.source.read(first)

    def all(self) -> DataFrame:
        """Return all rows of history; lazy."""
        return self.source.read(tuple(FileRange(index, 0, count, count) for index, count in enumerate(self.table.rows)))

    def sample(self, rows_max: int) -> Sample:
        """Return at most about `rows_max` rows, from as many files as needed."""
        rows, ranges = 0, list[FileRange]()
        for index, count in enumerate(self.table.rows):
            if ranges and rows + count > rows_max:
                break
            if count:
                ranges.append(FileRange(index, 0, min(count, rows_max), count))
                rows += min(count, rows_max)
        files = tuple(FileRange(part.file, 0, part.of, part.of) for part in ranges)
        return Sample(self.source.read(ranges), rows, len(ranges), files)

    def check_no_null_key(self, where: str | None) -> None:
        """Reject null keys among the rows that pass a condition."""
        if self.reads_rows:
            self.source.check_no_null_key(where)

    def compared(self, position: Position, covered: Covered, row_offsets: Sequence[int]) -> ComparedRows:
        """Return the rows of a version, or only the covered ones: intervals of the row index, or rows up to positions of a key."""
        if covered is None:
            files = FilesOfVersion(self.source, position) if isinstance(self.source, SupportsFiles) else None
            return ComparedRows(self.source.at(position), lambda: self.source.rows_at(position), None, files=files)
        if isinstance(covered, KeyBound):
            rows = self.source.at(position).where(within(covered))
            return ComparedRows(rows, rows.count, self.rows)
        ranges = tuple(part for start, stop in covered for part in file_ranges(row_offsets, start, stop))
        source = self.source
        of_ranges = (
            FilesOfRanges(source, self.table.version, ranges, source.read)
            if isinstance(source, SupportsFiles)
            else None
        )
        return ComparedRows(source.read(ranges), lambda: self._count(ranges), self.rows, files=of_ranges)

    def _count(self, ranges: Sequence[FileRange]) -> int:
        """Return the number of rows in ranges: exact for whole files, from the metadata; a proportional estimate for parts of files."""
        whole = self.source.live_rows([part for part in ranges if part.whole])
        return whole + sum(
            (part.stop - part.start) * self.source.live_rows([part]) // part.of for part in ranges if not part.whole
        )

    def newer(self, head: Head) -> int:
        """Return the number of newer versions."""
        return int(head.position) - self.table.version


@dataclass(frozen=True)
class SubscribedSource:
    """Partitions with offsets."""

    source: SupportsOffsets
    answer: Subscribed
    """Facts about the offsets for the strategy."""

    @property
    def schema(self) -> StructType:
        """Columns of the source."""
        return self.nothing().schema

    @property
    def rows(self) -> int:
        """Number of offsets of history; a source that skips offsets has fewer rows."""
        return offsets.count(self._history)

    @property
    def _history(self) -> tuple[offsets.OffsetRange, ...]:
        return offsets.between(self.answer.first, self.answer.newest)

    @property
    def description(self) -> str:
        """Name of the history in messages."""
        return "the history of the source"

    def nothing(self) -> DataFrame:
        """Return an empty frame with the source's columns."""
        return self.source.read_offsets(())

    def some(self) -> DataFrame:
        """Return the first rows of one partition; lazy."""
        return self.sample(SAMPLE_OFFSETS).rows

    def all(self) -> DataFrame:
        """Return all rows of history; lazy."""
        return self.source.read_offsets(self._history)

    def sample(self, rows_max: int) -> Sample:
        """Return the rows at `rows_max` offsets, from as many partitions as needed."""
        left, ranges = rows_max, list[offsets.OffsetRange]()
        for history in self._history:
            stop = min(history.stop, history.start + left)
            left -= stop - history.start
            ranges += [offsets.OffsetRange(history.partition, history.start, stop)] if history.start < stop else []
        if isinstance(self.source, SupportsRecordSizes):
            self.source.measure(ranges)
        return Sample(self.source.read_offsets(ranges), rows_max - left, len(ranges))

    def check_no_null_key(self, where: str | None) -> None:
        """Accept all rows: the key of a record exists only after the transform."""
        del where

    def compared(self, position: Position, covered: Covered, row_offsets: Sequence[int]) -> ComparedRows:
        """Return the rows before a position, by partition, or only the covered ranges; without rows that the source has deleted."""
        del row_offsets
        requested = offsets.between(self.answer.first, position) if covered is None else tuple(covered)
        oldest = self.source.oldest() if isinstance(self.source, SupportsOldest) else {}
        ranges = offsets.after(requested, oldest)
        total = None if covered is None else self.rows
        return ComparedRows(
            self.source.read_offsets(ranges),
            lambda: offsets.count(ranges),
            total,
            ranges,
            {
                span.partition: oldest[span.partition]
                for span in requested
                if span.start < oldest.get(span.partition, 0)
            },
            lambda upto: self._after(requested, upto),
        )

    def _after(self, ranges: Sequence[offsets.OffsetRange], upto: Position) -> DataFrame | None:
        """Return the rows after `ranges`, up to a position; `None` if the source is not compacted."""
        if not self.answer.compacts:
            return None
        ends = {**self.answer.first}
        for part in ranges:
            ends[part.partition] = max(part.stop, ends.get(part.partition, 0))
        return self.source.read_offsets(offsets.between(ends, upto))

    def newer(self, head: Head) -> int:
        """Return 0: a source with offsets has no versions to apply."""
        del head
        return 0


OpenSource = PinnedSource | SubscribedSource


def open_source(source: Source, request: OpenRequest, *, start: Start) -> OpenSource:
    """Open a source at the version or offsets that a strategy requests.

    Args:
        source: The source, not pinned or subscribed yet.
        request: Request of the strategy.
        start: Start of a new job in its spec.

    Raises:
        InvalidSpecError: the source lacks the ability, or the strategy starts over endlessly.
        SnapshotExpiredError: the version no longer exists, nor does the alternative one.
        SourceReplacedError: another table is at the path.
        BackfillError: any other error of the source.
    """
    match request:
        case PinVersion():
            opened = _pinned(source, ability(source, SupportsPin), request, start)
            return replace(opened, table=without_rows(opened.table)) if start.skips_snapshot else opened
        case ReadNewest(table_id=pinned_id):
            newest = PinnedSource(pins := ability(source, SupportsPin), pins.pin(None))
            if pinned_id and newest.table.table_id != pinned_id:
                raise _replaced(source, "an earlier attempt read it")
            return newest
        case Subscribe():
            return _subscribed(source, ability(source, SupportsOffsets), request)
        case _:
            raise InvalidSpecError(
                "spec.strategy: the strategy starts over again and again.", hint="Use another strategy."
            )


def without_rows(table: PinnedTable) -> PinnedTable:
    """Return a version as one without files, so that a job reads only the changes after it."""
    return replace(table, rows=(), deleted=(), bytes=(), partition_of=(), fingerprint=NO_SNAPSHOT)


def in_order(opened: OpenSource, strategy: Strategy) -> OpenSource:
    """Return a source with the order in which the spec's strategy reads the files of the pinned version.

    Raises:
        InvalidSpecError: the source has no files, or the column has no order; names the field.
    """
    order = strategy.params.history_order
    if order is None or (isinstance(opened, PinnedSource) and not opened.reads_rows):
        return opened
    field = f"spec.strategy.{strategy.member}.order.column"
    if not isinstance(opened, PinnedSource):
        raise InvalidSpecError(f"{field}: the source has no files.", hint="Leave the order out.")
    return replace(opened, order=opened.source.file_order(order.column, order.direction, field=field))


def _subscribed(source: Source, has: SupportsOffsets, request: Subscribe) -> SubscribedSource:
    """Read the offsets of the source; for a resumed job, the strategy's request defines the first offsets of the history."""
    subscribed = has.subscribe(request.after)
    if request.source_id and subscribed.source_id != request.source_id:
        raise _replaced(source, "an earlier attempt read it")
    if request.unread:
        ability(source, SupportsRecordSizes).leave_unread(request.unread)
    # A partition that is missing in the state is new. It begins at its first offset, even if a new job would begin later.
    return SubscribedSource(
        has, subscribed if request.after is None else replace(subscribed, first=request.first or {})
    )


def _pinned(source: Source, pins: SupportsPin, request: PinVersion, start: Start) -> PinnedSource:
    """Pin the version that the strategy requests; if it requests none, that of the start."""
    if request.version is None:
        return PinnedSource(pins, pins.pin(start.version()))
    try:
        pinned = _requested(pins, request.version, request.or_else)
    except SnapshotExpiredError as expired:
        # Another table may have fewer versions.
        if request.table_id and source.head().source_id != request.table_id:
            raise _replaced(source, f"version {request.version} was pinned") from expired
        raise
    if request.table_id and pinned.table_id != request.table_id:
        raise _replaced(source, f"version {request.version} was pinned")
    return PinnedSource(pins, pinned)


def _requested(pins: SupportsPin, version: int, or_else: int | None) -> PinnedTable:
    try:
        return pins.pin(version)
    except SnapshotExpiredError:
        if or_else is None:
            raise
        return pins.pin(or_else)


def _replaced(source: Source, when: str) -> SourceReplacedError:
    return SourceReplacedError(
        f"{source.path} is not the same source as when {when}.",
        hint=RECREATED_HINT,
    )
