"""Splits of the row index from their start to their seal: running, in the buffer, or staged for the next commit."""

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
from backfill_core.protocol.work import ReadSplit, StagedFile, StagedMode


@dataclass(frozen=True, slots=True)
class RunningSplit:
    """A split that is being read."""

    split: ReadSplit
    since_s: float
    charged: ChargePolicy
    costs: RowCosts
    """Costs of rows under the limit at its start."""

    cuts: bool
    """True if it contains a part of a file."""

    limit: int
    """Number of the limit at its start."""

    @property
    def cost(self) -> float:
        """Cost of its rows."""
        return self.costs.of(self.split.start, self.split.stop)

    @property
    def has_exact_rows(self) -> bool:
        """True if its charge is exact for any number of rows, because it counts the bytes of whole files."""
        return self.costs.by_bytes and all(span.whole for span in self.split.ranges)

    @property
    def rows(self) -> int:
        """Rows of the row index, deleted ones included."""
        return self.split.stop - self.split.start


@dataclass(frozen=True, slots=True)
class StagedSplit:
    """Rows of the row index that a commit may take."""

    start: int
    stop: int
    files: tuple[StagedFile, ...]
    epoch: int | None
    """Epoch in which it was started; `None` for a segment, which has waited in the buffer."""

    charged: ChargePolicy
    limit: int
    """Number of the limit at its start; for a segment, of the limit that admitted it."""

    last: bool = True
    """True if it is the end of its split."""


class Splits:
    """Splits that are started and not prepared. Each row is in one place, and is charged once."""

    def __init__(self, *, filtered: bool) -> None:
        """Start without splits; `filtered` if row counts of files differ from the rows read."""
        self._filtered = filtered
        self.limit = 0
        """Number of the limit in force."""

        self.running: dict[int, RunningSplit] = {}
        self.staged: list[StagedSplit] = []
        self.buffer = PrefetchBuffer()
        self._asked_s: float | None = None
        self._copied: bool | None = None
        """True if a file was copied whole, so that files without a cut cost almost nothing; `None` before the first staged file."""

        self._cut_in_time = False
        """True if the last cut file was staged within the time that its rows last, or within a second."""

    # -------------------------------------------------------------- state
    def taken(self, prepared: IntervalSet) -> IntervalSet:
        """Return the rows of the row index that need no new split."""
        spans = [(running.split.start, running.split.stop) for running in self.running.values()]
        spans += [(staged.start, staged.stop) for staged in self.staged]
        spans += [(segment.start, segment.stop) for segment in self.buffer.segments]
        for start, stop in spans:
            prepared = prepared.add(start, stop)
        return prepared

    @property
    def reading_ahead(self) -> tuple[RunningSplit, ...]:
        """Splits that are being read ahead of a limit."""
        return tuple(running for running in self.running.values() if running.charged is ChargePolicy.WHEN_SEALED)

    @property
    def anything_ahead(self) -> bool:
        """True if any split is charged when it is sealed."""
        return bool(self.buffer.segments or self.reading_ahead)

    def grid(self, second: float, *, is_short: bool) -> Grid:
        """Return the positions at which segments of the next split may end.

        A cut file is decoded. A short file is left whole while it is not known if files are copied, and while a cut could delay
        the next barriers. A second is then off by a part of that file, and not by all of its rows.

        Args:
            second: Rows of one second, in the next file.
            is_short: True if that file is small compared with a second.
        """
        if self._copied is None:
            # One split is enough to find out. With two whole files, two seconds would be off.
            return UNCUT if is_short and not self.anything_ahead else DECODED
        if not self._copied:
            return DECODED
        cutting = any(running.cuts for running in self.reading_ahead)
        may_cut = self.buffer.rows >= second and (self._cut_in_time or not cutting)
        return COPIED if may_cut or not is_short else UNCUT

    # -------------------------------------------------------------- transitions
    def begin(self, split: ReadSplit, now_s: float, charged: ChargePolicy, costs: RowCosts) -> ReadSplit:
        """Record that a split is being read."""
        cuts = not all(span.whole for ranges in split.segment_ranges for span in ranges)
        self.running[split.work_id] = RunningSplit(split, now_s, charged, costs, cuts, self.limit)
        return split

    def finish(
        self, work_id: int, files: tuple[StagedFile, ...], now_s: float, bucket: TokenBucket
    ) -> tuple[TokenBucket, RunningSplit]:
        """Take the staged rows of a split. A sub-file range was charged for its average rows, and is now charged for its actual rows."""
        running = self.running.pop(work_id)
        split = running.split
        self._learn(running, files, now_s - running.since_s, bucket)
        if running.charged is ChargePolicy.WHEN_SEALED:
            if not _too_slow(bucket):
                self.buffer = self.buffer.add(segments_of(split, files, running.costs, filtered=self._filtered))
            return bucket, running
        self.staged.append(StagedSplit(split.start, split.stop, files, split.epoch, running.charged, running.limit))
        if running.charged is ChargePolicy.WHEN_STARTED and not self._filtered and not running.has_exact_rows:
            read = sum(file.rows for file in files)
            bucket = bucket.take(running.costs.surplus(read, running.rows, running.cost), now_s)
        return bucket, running

    def _learn(self, running: RunningSplit, files: tuple[StagedFile, ...], took_s: float, bucket: TokenBucket) -> None:
        if any(file.mode is not StagedMode.DECODED for file in files):
            self._copied = True
        elif files and not running.cuts and self._copied is None:
            self._copied = False
        if running.cuts and bucket.rate_per_s:
            self._cut_in_time = took_s <= max(1.0, running.cost / bucket.rate_per_s)

    def admit(self, now_s: float, bucket: TokenBucket, *, held: bool) -> TokenBucket:
        """Admit segments of the buffer to the next commit, once per point in time.

        The buffer is discarded if history is paused or if the limit is so low that sub-file ranges are used; its rows are read again later.
        Files that no commit contains are not kept indefinitely, because VACUUM removes them after a week. And rows that pass at once during a
        pause would have to be paid for after it.

        Nothing is admitted while sub-file ranges wait for their barrier: a second was charged for their rows, and shows them.
        """
        if held or _too_slow(bucket):
            self.buffer = PrefetchBuffer()
            return bucket
        asked_s, self._asked_s = self._asked_s, now_s
        ranged = any(staged.charged is ChargePolicy.WHEN_STARTED for staged in self.staged)
        if asked_s == now_s:
            return bucket
        if ranged and bucket.rate_per_s is not None:
            self.buffer = replace(self.buffer, kept=0.0)
            return bucket
        self.buffer, bucket, segments = self.buffer.admit(bucket, now_s)
        self.staged += [
            StagedSplit(
                segment.start, segment.stop, segment.files, None, ChargePolicy.WHEN_SEALED, self.limit, segment.last
            )
            for segment in segments
        ]
        return bucket

    def take_ready(self, before_epoch: int | None) -> list[StagedSplit]:
        """Hand over the staged rows; with an epoch, without sub-file ranges that were started in it."""
        ready: list[StagedSplit] = []
        kept: list[StagedSplit] = []
        for staged in self.staged:
            held = before_epoch is not None and staged.epoch is not None and staged.epoch >= before_epoch
            (kept if held else ready).append(staged)
        self.staged = kept
        return ready


def _too_slow(bucket: TokenBucket) -> bool:
    return bucket.rate_per_s is not None and bucket.rate_per_s < RATE_MIN
