"""Prefetch under a rate limit: whole files are read early, and sealed in segments at the pace of the bucket (ADR 0026).

A sub-file range reads its whole file, so at a high limit sub-file ranges read more than they write. With prefetch a file is read once. Its
rows are staged in segments, each a fraction of the rows that a second admits, and a segment waits in the buffer until it is admitted.
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
"""Rows per second from which files are prefetched. Below, one sub-file range per barrier costs less than many small files."""

STOCK_S = 2.0
"""Start another prefetch while fewer than this many seconds of rows are buffered or being read, without the new split.

With less, a split that waits for its barrier would leave one of the two slots idle. So prefetch never holds more than these seconds and
two splits."""

FILE_S = 10.0
"""Seconds of rows in the largest file that is read whole; larger files are read in sub-file ranges."""

UNCUT_S = 1.5
"""Seconds of rows in the largest file that is not cut if a cut would delay the next barriers."""

SPLIT_S = 1.0
"""Seconds of rows in a split, rounded to whole files (at least one). In smaller splits the start of the Spark job dominates."""

SEGMENTS_PER_S = 2
"""Cuts per second of rows.

Each segment adds a third of the copy cost of its rows, and one file in the target, so the grid is coarse. A second is still exact, because the
positions of the barriers lie on the grid."""

SNAP_S = 0.025
"""Seconds of rows that a cut may move to reach the border of a file, because a smaller segment would be a tiny file."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Positions at which segments may end."""

    per_s: int
    """Cuts per second of rows, also inside files; 0 to cut only between files."""

    snap_s: float
    border_s: float | None = None
    """Segments also end at borders of files that are at least this many seconds of rows apart; `None` to end segments only at cuts."""


DECODED = Grid(SEGMENTS_PER_S, SNAP_S)
"""Grid for rows that are decoded, whether they are cut or not."""

COPIED = Grid(1, 0.09, 0.05)
"""Grid for files that are copied unless they are cut: as few cuts as ten seconds allow. Both ends are off by 0.09 s, which is within 2 %."""

UNCUT = Grid(0, 0.0, 0.05)
"""Grid for files of which none is cut."""

_BEAT_S = 1.0
"""Expected seconds between barriers. Cuts fall where barriers find them at this pace; at another pace the grid has no special positions."""


class ChargePolicy(Enum):
    """Time at which the rows of a split are charged to the bucket. A split keeps its policy, even if the limit changes."""

    NEVER = auto()
    """The split started without a limit."""

    WHEN_STARTED = auto()
    """The split is a sub-file range."""

    WHEN_SEALED = auto()
    """The split is prefetched."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of the row index that are staged and sealed together."""

    start: int
    stop: int
    files: tuple[StagedFile, ...]
    charge: float
    """Tokens charged to the bucket."""

    last: bool
    """True if the segment is the end of its split."""


def segments_of(
    split: ReadSplit, files: Iterable[StagedFile], costs: RowCosts, *, filtered: bool
) -> tuple[Segment, ...]:
    """Return the staged rows of a split, by segment; under a filter, row counts of files differ from the rows read."""
    by_index = filtered or costs.by_bytes
    by_segment: list[tuple[StagedFile, ...]] = [()] * len(split.segments)
    for file in files:
        by_segment[file.segment] = (*by_segment[file.segment], file)
    return tuple(
        Segment(
            start,
            stop,
            staged,
            costs.of(start, stop) if by_index else sum(file.rows for file in staged),
            last=stop == split.stop,
        )
        for (start, stop), staged in zip(split.segments, by_segment, strict=True)
    )


@dataclass(frozen=True, slots=True)
class PrefetchBuffer:
    """Segments that are staged and not admitted, lowest first."""

    segments: tuple[Segment, ...] = ()
    next_tokens: float | None = None
    """Tokens of the bucket one second after the last admission; `None` before the first one."""

    kept: float = 0.0
    """Tokens left in the bucket at that time because the next segment is not divided."""

    @property
    def rows(self) -> int:
        """Waiting rows of the row index."""
        return sum(segment.stop - segment.start for segment in self.segments)

    def add(self, segments: tuple[Segment, ...]) -> PrefetchBuffer:
        """Return the buffer with the segments of one more split."""
        return replace(self, segments=tuple(sorted((*self.segments, *segments), key=lambda segment: segment.start)))

    def admit(self, bucket: TokenBucket, now_s: float) -> tuple[PrefetchBuffer, TokenBucket, tuple[Segment, ...]]:
        """Take out the segments that the bucket has tokens for, rounded to whole segments; all of them without a limit.

        Rounding up creates debt, and rounding down leaves tokens in the bucket, so the average rate is exact.
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
        """Return the next split from the start of a gap, and its boundaries.

        `None` if enough is buffered, or if the file must be read in sub-file ranges.

        Args:
            prefix: First row of each file, then the number of all rows.
            gap: Missing interval of the row index, not empty.
            under_way: Rows that are already being prefetched.
            bucket: The limit, above 0.
            now_s: Monotonic seconds.
            row_cost: Cost of a row there; a second contains more rows if they cost less.
            grid: Positions of the cuts.
        """
        quota, ahead = (bucket.rate_per_s or 0) / row_cost, under_way + self.rows
        span = split_span(prefix, gap, int(SPLIT_S * quota), exact=False) if fits(prefix, gap[0], quota) else None
        if span is None or ahead >= STOCK_S * quota + span[1] - span[0]:
            return None
        tokens = bucket.refill(now_s + _BEAT_S).tokens if self.next_tokens is None else self.next_tokens
        boundaries = segment_boundaries(prefix, span, quota, barrier=span[0] - ahead + tokens / row_cost, grid=grid)
        return (span, boundaries) if grid.border_s is None else first_of_one_kind(prefix, span, boundaries)


def _in_a_beat(bucket: TokenBucket) -> float | None:
    return None if bucket.rate_per_s is None else bucket.refill(bucket.at_s + _BEAT_S).tokens


def is_short(prefix: Sequence[int], start: int, quota: float) -> bool:
    """Return whether the file at a position of the row index is small enough to be left whole within a second or two."""
    behind = bisect_right(prefix, start)
    return prefix[behind] - prefix[behind - 1] <= UNCUT_S * quota


def fits(prefix: Sequence[int], start: int, quota: float) -> bool:
    """Return whether the file at a position of the row index is small enough to be read whole."""
    behind = bisect_right(prefix, start)
    return prefix[behind] - prefix[behind - 1] <= FILE_S * quota


def segment_boundaries(
    prefix: Sequence[int], span: tuple[int, int], quota: float, *, barrier: float, grid: Grid = DECODED
) -> tuple[int, ...]:
    """Return the ends of a split's segments, without the last one, on a grid that contains the share of every barrier.

    With equal segments, four or six would be sealed where five do not add up to one second of rows. On this grid each
    barrier finds a cut at the limit of the bucket, and a late or early barrier still takes the same cut.

    Args:
        prefix: First row of each file, then the number of all rows.
        span: The split.
        quota: Rows per second.
        barrier: Position of the row index that a barrier will have reached.
        grid: Number of cuts, and the distance that each may move.
    """
    start, stop = span
    borders = [start, *prefix[bisect_right(prefix, start) : bisect_left(prefix, stop)], stop]
    ends = set() if grid.border_s is None else set(_apart(borders, grid.border_s * quota))
    if not grid.per_s:
        return tuple(sorted(ends - {start, stop}))
    step = quota / grid.per_s
    first = ceil((start - barrier) / step)
    for number in range(first, first + ceil((stop - start) / step) + 1):
        at = round(barrier + number * step)
        near = bisect_left(borders, at)
        border = min(borders[max(0, near - 1) : near + 1], key=lambda candidate: abs(candidate - at))
        ends.add(border if abs(border - at) <= grid.snap_s * quota else at)
    return tuple(sorted(end for end in ends if start < end < stop))


def first_of_one_kind(
    prefix: Sequence[int], span: tuple[int, int], boundaries: tuple[int, ...]
) -> tuple[tuple[int, int], tuple[int, ...]]:
    """Return the first part of a split, with its boundaries: files that are not cut, or one file that is cut.

    A file that is cut is decoded. Copied files need not wait for it in one split.
    """
    start, stop = span
    within = [at for at in (start, *boundaries, stop) if prefix[bisect_left(prefix, at)] != at]
    if within:
        behind = bisect_right(prefix, within[0])
        first, end = prefix[behind - 1], prefix[behind]
        stop = min(stop, end if first <= start else first)
    return (start, stop), tuple(end for end in boundaries if end < stop)


def _apart(borders: Sequence[int], rows: float) -> Iterator[int]:
    """Yield borders that are at least `rows` apart."""
    last = borders[0]
    for border in borders[1:]:
        if border - last >= rows:
            last = border
            yield border
