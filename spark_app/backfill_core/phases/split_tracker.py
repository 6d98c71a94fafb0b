"""Splits of the line on their way from their start to their seal: running, in the stock, or staged for the next harvest."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_core.pacing.throttle import TokenBucket
from backfill_core.phases.prefetch import RATE_MIN, Charged, Stock, parts_of
from backfill_core.positions.intervals import IntervalSet
from backfill_core.protocol.messages import ReadSplit, StagedFile


@dataclass(frozen=True, slots=True)
class Running:
    """A split that is being read."""

    split: ReadSplit
    since_s: float
    charged: Charged

    @property
    def rows(self) -> int:
        """Rows of the line, deleted ones included."""
        return self.split.stop - self.split.start


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows of the line that a harvest may take."""

    start: int
    stop: int
    files: tuple[StagedFile, ...]
    epoch: int | None
    """The one in which it was started; None for a part, which has waited in the stock."""

    charged: Charged
    last: bool = True
    """Is it the end of its split?"""


class Splits:
    """What is begun and not harvested; every row of it is in one place, and charged for once."""

    def __init__(self, *, filtered: bool) -> None:
        """Begin with nothing; `filtered`: files do not tell how many rows were read."""
        self._filtered = filtered
        self.running: dict[int, Running] = {}
        self.staged: list[Staged] = []
        self.stock = Stock()
        self._asked_s: float | None = None

    # -------------------------------------------------------------- what there is
    def taken(self, harvested: IntervalSet) -> IntervalSet:
        """Return the rows of the line that nobody needs to begin."""
        spans = [(one.split.start, one.split.stop) for one in self.running.values()]
        spans += [(one.start, one.stop) for one in self.staged]
        spans += [(one.start, one.stop) for one in self.stock.parts]
        for start, stop in spans:
            harvested = harvested.add(start, stop)
        return harvested

    @property
    def reading_ahead(self) -> tuple[Running, ...]:
        """Splits that are being read ahead of a limit."""
        return tuple(one for one in self.running.values() if one.charged is Charged.WHEN_SEALED)

    @property
    def anything_ahead(self) -> bool:
        """Is anything charged when it is sealed?"""
        return bool(self.stock.parts or self.reading_ahead)

    # -------------------------------------------------------------- the way
    def begin(self, split: ReadSplit, now_s: float, charged: Charged) -> ReadSplit:
        """Know that a split is being read."""
        self.running[split.work_id] = Running(split, now_s, charged)
        return split

    def finish(
        self, work_id: int, files: tuple[StagedFile, ...], now_s: float, bucket: TokenBucket
    ) -> tuple[TokenBucket, Running]:
        """Take what a split staged; a slice has its rows only in the mean, and is now charged for those there were."""
        one = self.running.pop(work_id)
        split = one.split
        if one.charged is Charged.WHEN_SEALED:
            if not _too_slow(bucket):
                self.stock = self.stock.add(parts_of(split, files, filtered=self._filtered))
            return bucket, one
        self.staged.append(Staged(split.start, split.stop, files, split.epoch, one.charged))
        if one.charged is Charged.WHEN_STARTED and not self._filtered:
            bucket = bucket.take(sum(file.rows for file in files) - one.rows, now_s)
        return bucket, one

    def admit(self, now_s: float, bucket: TokenBucket, *, held: bool) -> TokenBucket:
        """Let parts of the stock be sealed; once a moment. What nobody will seal soon is given up, and read again some day.

        Given up, where history is held and under a limit for slices: files that no commit names are not kept for ever
        (VACUUM removes them after a week), and rows that a hold lets pass at once would have to be paid for after it.

        Not beside slices that wait for their barrier: a second was charged for their rows, and shows them.
        """
        if held or _too_slow(bucket):
            self.stock = Stock()
            return bucket
        asked_s, self._asked_s = self._asked_s, now_s
        sliced = any(one.charged is Charged.WHEN_STARTED for one in self.staged)
        if asked_s == now_s or (sliced and bucket.rate_per_s is not None):
            return bucket
        self.stock, bucket, parts = self.stock.admit(bucket, now_s)
        self.staged += [
            Staged(part.start, part.stop, part.files, None, Charged.WHEN_SEALED, part.last) for part in parts
        ]
        return bucket

    def take_ripe(self, before_epoch: int | None) -> list[Staged]:
        """Hand over what is staged; with an epoch, no slice that was started in it."""
        ripe: list[Staged] = []
        kept: list[Staged] = []
        for one in self.staged:
            held = before_epoch is not None and one.epoch is not None and one.epoch >= before_epoch
            (kept if held else ripe).append(one)
        self.staged = kept
        return ripe


def _too_slow(bucket: TokenBucket) -> bool:
    return bucket.rate_per_s is not None and bucket.rate_per_s < RATE_MIN
