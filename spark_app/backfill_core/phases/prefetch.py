"""Ahead of a rate limit: whole files are read before their turn, and sealed in segments at the pace of the bucket (ADR 0026).

A sub-file range costs a look at its whole file, so at a high limit sub-file ranges read more than they write. Here a file is read once; its
rows are staged in segments, each a fraction of what a second admits, and a segment waits in the buffer until it is admitted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from math import ceil

from backfill_core.pacing.row_costs import RowCosts
from backfill_core.pacing.sizing import split_span
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.protocol.work import ReadSplit, StagedFile

RATE_MIN = 100_000
"""Rows a second from which on files are read ahead; below, one sub-file range at a barrier costs less than files in crumbs."""

STOCK_S = 2.0
"""Seconds' worth of rows, being read or in the buffer and the split that would be begun left out, up to which one is
begun: with less, a split that waits for its barrier would keep one of the two slots idle. So there is never more than
these and two splits."""

FILE_S = 10.0
"""Seconds' worth of rows of the largest file that is read whole; larger ones are read in sub-file ranges."""

UNCUT_S = 1.5
"""Seconds' worth of rows of the largest file that is left whole where a cut would keep the next seconds waiting."""

SPLIT_S = 1.0
"""Seconds' worth of rows of a split, rounded to whole files (at least one): less, and the start-up of its Spark job weighs."""

SEGMENTS_PER_S = 2
"""What the grid of the boundaries is. A segment costs its rows a detour (a third of what copying them costs) and the target a
file, so that the grid is coarse; what makes a second exact is that the barriers' own positions lie on it."""

SNAP_S = 0.025
"""Seconds' worth of rows that a cut may be moved to the border of a file: such a segment would be a file of crumbs."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Where segments may end."""

    per_s: int
    """Cuts in a second's worth of rows, also inside files; 0: only between files."""

    snap_s: float
    border_s: float | None = None
    """A segment ends also between two files that are so far apart; None: it does only at a cut."""


DECODED = Grid(SEGMENTS_PER_S, SNAP_S)
"""Of rows that are decoded, whether they are cut or not."""

COPIED = Grid(1, 0.09, 0.05)
"""Of files that are copied unless they are cut: as few cuts as ten seconds bear. They are off by 0.09 s at both ends, which is within 2 %."""

UNCUT = Grid(0, 0.0, 0.05)
"""Of files of which none is cut."""

_BEAT_S = 1.0
"""From one barrier to the next. Cuts fall where barriers will find them at this pace; at another one they are a
grid like any other."""


class ChargePolicy(Enum):
    """When the rows of a split are taken from the bucket; what it began with it keeps, whatever the limit becomes."""

    NEVER = auto()
    """Begun without a limit."""

    WHEN_STARTED = auto()
    """A sub-file range."""

    WHEN_SEALED = auto()
    """Read ahead."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of the row index that are staged and sealed together."""

    start: int
    stop: int
    files: tuple[StagedFile, ...]
    charge: float
    """What the bucket is charged."""

    last: bool
    """Is it the end of its split?"""


def segments_of(
    split: ReadSplit, files: Iterable[StagedFile], costs: RowCosts, *, filtered: bool
) -> tuple[Segment, ...]:
    """Return what a split staged, segment by segment; under a filter files do not tell how many rows were read."""
    by_index = filtered or costs.by_bytes
    found: list[tuple[StagedFile, ...]] = [()] * len(split.segments)
    for file in files:
        found[file.segment] = (*found[file.segment], file)
    return tuple(
        Segment(
            start,
            stop,
            own,
            costs.of(start, stop) if by_index else sum(file.rows for file in own),
            last=stop == split.stop,
        )
        for (start, stop), own in zip(split.segments, found, strict=True)
    )


@dataclass(frozen=True, slots=True)
class PrefetchBuffer:
    """Segments that are staged and not admitted, lowest first."""

    segments: tuple[Segment, ...] = ()
    next_tokens: float | None = None
    """What the bucket will have a second after it was last asked; None: it was not asked yet."""

    kept: float = 0.0
    """What was left in the bucket then because the next segment stays together."""

    @property
    def rows(self) -> int:
        """Rows of the row index that wait."""
        return sum(segment.stop - segment.start for segment in self.segments)

    def add(self, segments: tuple[Segment, ...]) -> PrefetchBuffer:
        """Return the buffer with the segments of one more split."""
        return replace(self, segments=tuple(sorted((*self.segments, *segments), key=lambda segment: segment.start)))

    def admit(self, bucket: TokenBucket, now_s: float) -> tuple[PrefetchBuffer, TokenBucket, tuple[Segment, ...]]:
        """Take out what the bucket has rows for, rounded to whole segments; all of it without a limit.

        What rounding gave too much is debt, what it kept back stays in the bucket: the long run is exact.
        """
        count = 0
        for segment in self.segments:
            if not bucket.covers_most(segment.charge, now_s):
                break
            bucket = bucket.take(segment.charge, now_s)
            count += 1
        left = self.segments[count:]
        kept = max(0.0, bucket.tokens) if left else 0.0
        return PrefetchBuffer(left, _in_a_beat(bucket.passing(now_s, kept=kept)), kept), bucket, self.segments[:count]

    def next_split(
        self,
        prefix: Sequence[int],
        gap: tuple[int, int],
        *,
        under_way: int,
        bucket: TokenBucket,
        now_s: float,
        row_cost: float = 1.0,
        grid: Grid = DECODED,
    ) -> tuple[tuple[int, int], tuple[int, ...]] | None:
        """Return the next split from the start of a gap and its boundaries; None while there is enough, or to be read in sub-file ranges.

        Args:
            prefix: First row of each file, then the number of all rows.
            gap: Missing interval of the row index, not empty.
            under_way: Rows that are being read ahead already.
            bucket: The limit, above 0.
            now_s: Monotonic seconds.
            row_cost: What a row costs there; a second has the more of them the less they cost.
            grid: Where cuts may lie.
        """
        quota, ahead = (bucket.rate_per_s or 0) / row_cost, under_way + self.rows
        span = split_span(prefix, gap, int(SPLIT_S * quota), exact=False) if fits(prefix, gap[0], quota) else None
        if span is None or ahead >= STOCK_S * quota + span[1] - span[0]:
            return None
        tokens = bucket.refill(now_s + _BEAT_S).tokens if self.next_tokens is None else self.next_tokens
        found = segment_boundaries(prefix, span, quota, barrier=span[0] - ahead + tokens / row_cost, grid=grid)
        return (span, found) if grid.border_s is None else first_of_one_kind(prefix, span, found)


def _in_a_beat(bucket: TokenBucket) -> float | None:
    return None if bucket.rate_per_s is None else bucket.refill(bucket.at_s + _BEAT_S).tokens


def is_short(prefix: Sequence[int], start: int, quota: float) -> bool:
    """Is the file at a position of the row index so small that a second or two bear it whole?"""
    behind = bisect_right(prefix, start)
    return prefix[behind] - prefix[behind - 1] <= UNCUT_S * quota


def fits(prefix: Sequence[int], start: int, quota: float) -> bool:
    """Is the file at a position of the row index small enough to be read whole?"""
    behind = bisect_right(prefix, start)
    return prefix[behind] - prefix[behind - 1] <= FILE_S * quota


def segment_boundaries(
    prefix: Sequence[int], span: tuple[int, int], quota: float, *, barrier: float, grid: Grid = DECODED
) -> tuple[int, ...]:
    """Return where the segments of a split end, but for the last: on a grid that has every barrier's share on it.

    Equal segments would be sealed in fours and in sixes where five do not make a second's rows. On this grid each
    barrier finds a cut just where the bucket ends, and one that is late or early still takes the same one.

    Args:
        prefix: First row of each file, then the number of all rows.
        span: The split.
        quota: Rows a second.
        barrier: Position of the row index that a barrier will have come to.
        grid: How many cuts there are, and how far each may be moved.
    """
    start, stop = span
    borders = [start, *prefix[bisect_right(prefix, start) : bisect_left(prefix, stop)], stop]
    found = set() if grid.border_s is None else set(_apart(borders, grid.border_s * quota))
    if not grid.per_s:
        return tuple(sorted(found - {start, stop}))
    step = quota / grid.per_s
    first = ceil((start - barrier) / step)
    for number in range(first, first + ceil((stop - start) / step) + 1):
        at = round(barrier + number * step)
        near = bisect_left(borders, at)
        border = min(borders[max(0, near - 1) : near + 1], key=lambda one: abs(one - at))
        found.add(border if abs(border - at) <= grid.snap_s * quota else at)
    return tuple(sorted(one for one in found if start < one < stop))


def first_of_one_kind(
    prefix: Sequence[int], span: tuple[int, int], boundaries: tuple[int, ...]
) -> tuple[tuple[int, int], tuple[int, ...]]:
    """Return what a split begins with and its boundaries: files that are not cut, or one that is.

    A file that is cut is decoded. What is copied need not wait for that in one split.
    """
    start, stop = span
    within = [one for one in (start, *boundaries, stop) if prefix[bisect_left(prefix, one)] != one]
    if within:
        behind = bisect_right(prefix, within[0])
        first, end = prefix[behind - 1], prefix[behind]
        stop = min(stop, end if first <= start else first)
    return (start, stop), tuple(one for one in boundaries if one < stop)


def _apart(borders: Sequence[int], rows: float) -> Iterator[int]:
    """Pick borders that are at least so many rows apart."""
    last = borders[0]
    for one in borders[1:]:
        if one - last >= rows:
            last = one
            yield one
