"""The promises of counter backfill: of each partition, the records before one offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from support.plugin_counter.backfill_counter.stored import CounterStored
from support.plugin_counter.backfill_counter.strategy import STRATEGY
from support.plugin_counter.backfill_counter.work import OffsetsRead, ReadOffsets
from support.simulation.law import demand
from support.simulation.model import Cost, Effect, Progress, Promise, Staging
from support.simulation.region import Region
from support.simulation.topic import Span
from support.simulation.topic_model import TopicModel

from backfill_api.spec.spec import BackfillSpec
from backfill_core.job.state import JobState
from backfill_core.positions.offsets import OffsetRange, Subscribed
from backfill_core.protocol.strategy import Opened, Strategy
from backfill_core.protocol.work import Verify, WorkKind

Resume = Callable[[BackfillSpec, CounterStored | None, Opened], Strategy]


class CounterModel(TopicModel):
    """The promises in one world; see the module."""

    KNOBS: ClassVar[frozenset[str]] = frozenset()
    RESUME: ClassVar[Resume] = staticmethod(STRATEGY.resume)
    """Makes the machine of an attempt; a test of the oracle has one that breaks a law."""

    def open(self, spec: BackfillSpec, stored: JobState | None, txn: int | None, wall_ms: int) -> OpenedCounter:
        """Subscribe; of a stored partition the state says what its history is."""
        progress = None if stored is None else STRATEGY.decode(stored.progress)
        return OpenedCounter(self, self.RESUME(spec, progress, Opened(Subscribed({}, self.offsets), txn)))

    # -------------------------------------------------------------- a stored state
    @staticmethod
    def spans(progress: Progress) -> Iterable[Span]:
        """Return the offsets before each position."""
        return [(int(number), 0, one["next"]) for number, one in progress["partitions"].items()]

    def check_forward(self, before: Progress, after: Progress) -> None:
        """What counts as history is settled when a partition is first seen."""
        for number, one in before["partitions"].items():
            demand(after["partitions"].get(number, {}).get("end") == one["end"], "the history of a partition changed")

    def check_end(self, progress: Progress) -> None:
        """No history is left, and the job had caught up."""
        demand(progress["caughtUp"], "complete before it had caught up")
        demand(all(one["next"] >= one["end"] for one in progress["partitions"].values()), "complete without history")

    # -------------------------------------------------------------- work
    @staticmethod
    def range_of(work: ReadOffsets) -> OffsetRange:
        """Return what a piece of work reads."""
        return OffsetRange(work.partition, work.start, work.stop)

    def taken(self, work: ReadOffsets) -> Region:
        """See `Model`."""
        return self.region([self.range_of(work)])

    def cost(self, progress: Progress, work: ReadOffsets) -> Cost:
        """See `Model`; an offset is charged, with a record or without."""
        return Cost(work.stop - work.start, len(self.read([self.range_of(work)])))

    def check_start(self, progress: Progress, work: ReadOffsets) -> None:
        """History is below the stored end of a partition, changes are not."""
        end = progress["partitions"].get(work.partition, {"end": 0})["end"]
        history = work.kind is WorkKind.HISTORY
        demand((work.stop <= end) if history else (work.start >= end), "a range of history and changes")


class OpenedCounter:
    """One attempt."""

    def __init__(self, model: CounterModel, strategy: Strategy) -> None:
        """Take what was opened."""
        self.strategy = strategy
        self._model = model

    def effect(self, work: ReadOffsets) -> Effect:
        """See `Opened`."""
        ranges = [self._model.range_of(work)]
        rows, bad = self._model.read(ranges), self._model.bad(ranges)
        return Staging((rows,), lambda files: OffsetsRead(work.work_id, files), bad)

    def wanted(self, work: Verify) -> Promise:
        """See `Opened`."""
        return self._model.at((int(name), 0, offset) for name, offset in work.position.items())


MODEL = CounterModel
