"""Splits of the row index on their way from their start to their seal: running, in the buffer, or staged for the next commit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_core.pacing.row_costs import RowCosts
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.phases.prefetch import (
    COPIED,
    DECODED,
    RATE_MIN,
    UNCUT,
    ChargePolicy,
    Grid,
    PrefetchBuffer,
    segments_of,
)
from backfill_core.positions.intervals import IntervalSet
from backfill_core.protocol.work import FileWay, ReadSplit, StagedFile


@dataclass(frozen=True, slots=True)
class Running:
    """A split that is being read."""

    split: ReadSplit
    since_s: float
    charged: ChargePolicy
    costs: RowCosts
    """What its rows cost under the limit that it was begun under."""

    cuts: bool
    """Is a part of a file of its own in it?"""

    limit: int
    """Number of the limit under which it was begun."""

    @property
    def cost(self) -> float:
        """What its rows cost."""
        return self.costs.of(self.split.start, self.split.stop)

    @property
    def known(self) -> bool:
        """Was it charged for what it takes, however many rows there are: for the bytes of whole files?"""
        return self.costs.by_bytes and all(one.whole for one in self.split.ranges)

    @property
    def rows(self) -> int:
        """Rows of the row index, deleted ones included."""
        return self.split.stop - self.split.start


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows of the row index that a commit may take."""

    start: int
    stop: int
    files: tuple[StagedFile, ...]
    epoch: int | None
    """The one in which it was started; None for a segment, which has waited in the buffer."""

    charged: ChargePolicy
    limit: int
    """Number of the limit under which it was begun; of a segment, under which it was admitted."""

    last: bool = True
    """Is it the end of its split?"""


class Splits:
    """What is begun and not prepared; every row of it is in one place, and charged for once."""

    def __init__(self, *, filtered: bool) -> None:
        """Begin with nothing; `filtered`: files do not tell how many rows were read."""
        self._filtered = filtered
        self.limit = 0
        """Number of the limit in force."""

        self.running: dict[int, Running] = {}
        self.staged: list[Staged] = []
        self.buffer = PrefetchBuffer()
        self._asked_s: float | None = None
        self._copied: bool | None = None
        """Was a file copied as it is? Then one that a limit does not cut costs next to nothing; None: no file was staged whole yet."""

        self._cut_in_time = False
        """Was the last file that was cut staged in the time that its rows last, or in a second?"""

    # -------------------------------------------------------------- what there is
    def taken(self, prepared: IntervalSet) -> IntervalSet:
        """Return the rows of the row index that need not begin any more."""
        spans = [(one.split.start, one.split.stop) for one in self.running.values()]
        spans += [(one.start, one.stop) for one in self.staged]
        spans += [(one.start, one.stop) for one in self.buffer.segments]
        for start, stop in spans:
            prepared = prepared.add(start, stop)
        return prepared

    @property
    def reading_ahead(self) -> tuple[Running, ...]:
        """Splits that are being read ahead of a limit."""
        return tuple(one for one in self.running.values() if one.charged is ChargePolicy.WHEN_SEALED)

    @property
    def anything_ahead(self) -> bool:
        """Is anything charged when it is sealed?"""
        return bool(self.buffer.segments or self.reading_ahead)

    def grid(self, second: float, *, is_short: bool) -> Grid:
        """Return where the segments of the next split may end.

        A file that is cut is decoded. While it is not known whether files are copied, and while a cut could keep the next
        barriers waiting, a short file is left whole: a second is off by a part of it then, and not by all of its rows.

        Args:
            second: Rows of a second, of the file that is next.
            is_short: Is that file small beside a second?
        """
        if self._copied is None:
            # One split tells. Where both were left whole, two seconds would be off.
            return UNCUT if is_short and not self.anything_ahead else DECODED
        if not self._copied:
            return DECODED
        cutting = any(one.cuts for one in self.reading_ahead)
        may_cut = self.buffer.rows >= second and (self._cut_in_time or not cutting)
        return COPIED if may_cut or not is_short else UNCUT

    # -------------------------------------------------------------- the way
    def begin(self, split: ReadSplit, now_s: float, charged: ChargePolicy, costs: RowCosts) -> ReadSplit:
        """Know that a split is being read."""
        cuts = not all(one.whole for ranges in split.segment_ranges for one in ranges)
        self.running[split.work_id] = Running(split, now_s, charged, costs, cuts, self.limit)
        return split

    def finish(
        self, work_id: int, files: tuple[StagedFile, ...], now_s: float, bucket: TokenBucket
    ) -> tuple[TokenBucket, Running]:
        """Take what a split staged; a sub-file range has its rows only in the mean, and is now charged for those there were."""
        one = self.running.pop(work_id)
        split = one.split
        self._learn(one, files, now_s - one.since_s, bucket)
        if one.charged is ChargePolicy.WHEN_SEALED:
            if not _too_slow(bucket):
                self.buffer = self.buffer.add(segments_of(split, files, one.costs, filtered=self._filtered))
            return bucket, one
        self.staged.append(Staged(split.start, split.stop, files, split.epoch, one.charged, one.limit))
        if one.charged is ChargePolicy.WHEN_STARTED and not self._filtered and not one.known:
            read = sum(file.rows for file in files)
            bucket = bucket.take(one.costs.surplus(read, one.rows, one.cost), now_s)
        return bucket, one

    def _learn(self, one: Running, files: tuple[StagedFile, ...], took_s: float, bucket: TokenBucket) -> None:
        if any(file.way is not FileWay.DECODED for file in files):
            self._copied = True
        elif files and not one.cuts and self._copied is None:
            self._copied = False
        if one.cuts and bucket.rate_per_s:
            self._cut_in_time = took_s <= max(1.0, one.cost / bucket.rate_per_s)

    def admit(self, now_s: float, bucket: TokenBucket, *, held: bool) -> TokenBucket:
        """Let segments of the buffer be sealed; once a moment. What will not be sealed soon is given up, and read again later.

        Given up, where history is held and under a limit for sub-file ranges: files that no commit names are not kept for ever
        (VACUUM removes them after a week), and rows that a hold lets pass at once would have to be paid for after it.

        Not beside sub-file ranges that wait for their barrier: a second was charged for their rows, and shows them.
        """
        if held or _too_slow(bucket):
            self.buffer = PrefetchBuffer()
            return bucket
        asked_s, self._asked_s = self._asked_s, now_s
        ranged = any(one.charged is ChargePolicy.WHEN_STARTED for one in self.staged)
        if asked_s == now_s:
            return bucket
        if ranged and bucket.rate_per_s is not None:
            self.buffer = replace(self.buffer, kept=0.0)
            return bucket
        self.buffer, bucket, segments = self.buffer.admit(bucket, now_s)
        self.staged += [
            Staged(segment.start, segment.stop, segment.files, None, ChargePolicy.WHEN_SEALED, self.limit, segment.last)
            for segment in segments
        ]
        return bucket

    def take_ready(self, before_epoch: int | None) -> list[Staged]:
        """Hand over what is staged; with an epoch, no sub-file range that was started in it."""
        ready: list[Staged] = []
        kept: list[Staged] = []
        for one in self.staged:
            held = before_epoch is not None and one.epoch is not None and one.epoch >= before_epoch
            (kept if held else ready).append(one)
        self.staged = kept
        return ready


def _too_slow(bucket: TokenBucket) -> bool:
    return bucket.rate_per_s is not None and bucket.rate_per_s < RATE_MIN
