"""The promises of counter backfill: for each partition, the records before one offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from support.plugin_counter.backfill_counter.stored import CounterStored
from support.plugin_counter.backfill_counter.strategy import STRATEGY
from support.plugin_counter.backfill_counter.work import OffsetsRead, ReadOffsets
from support.simulation.law import demand
from support.simulation.model import Cost, Effect, Progress, Promise, Staging
from support.simulation.region import Region
from support.simulation.tables import APPEND
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
    FIXED_WIDTH_MODES: ClassVar[frozenset[str]] = frozenset({APPEND})
    RESUME: ClassVar[Resume] = staticmethod(STRATEGY.resume)
    """Makes the machine of an attempt; a test of the oracle replaces it with one that breaks a law."""

    def open(self, spec: BackfillSpec, stored: JobState | None, txn: int | None, wall_ms: int) -> OpenedCounter:
        """Subscribe; the state contains the history of stored partitions."""
        progress = None if stored is None else STRATEGY.decode(stored.progress)
        return OpenedCounter(self, self.RESUME(spec, progress, Opened(Subscribed({}, self.offsets), txn)))

    # -------------------------------------------------------------- a stored state
    @staticmethod
    def spans(progress: Progress) -> Iterable[Span]:
        """Return the offsets before each position."""
        return [(int(number), 0, partition["next"]) for number, partition in progress["partitions"].items()]

    def check_forward(self, before: Progress, after: Progress) -> None:
        """Check that the extent of a partition's history is fixed when it is first seen."""
        for number, partition in before["partitions"].items():
            demand(
                after["partitions"].get(number, {}).get("end") == partition["end"], "the history of a partition changed"
            )

    def check_end(self, progress: Progress) -> None:
        """Check that no history is left, and that the job had caught up."""
        demand(progress["caughtUp"], "complete before it had caught up")
        demand(
            all(partition["next"] >= partition["end"] for partition in progress["partitions"].values()),
            "complete without history",
        )

    # -------------------------------------------------------------- work
    @staticmethod
    def range_of(work: ReadOffsets) -> OffsetRange:
        """Return the offsets that a piece of work reads."""
        return OffsetRange(work.partition, work.start, work.stop)

    def taken(self, work: ReadOffsets) -> Region:
        """See `Model`."""
        return self.region([self.range_of(work)])

    def cost(self, progress: Progress, work: ReadOffsets) -> Cost:
        """See `Model`; an offset is charged, with a record or without."""
        return Cost(work.stop - work.start, len(self.read([self.range_of(work)])))

    def check_start(self, progress: Progress, work: ReadOffsets) -> None:
        """Check that history is below the stored end of a partition, and changes are not."""
        end = progress["partitions"].get(work.partition, {"end": 0})["end"]
        history = work.kind is WorkKind.HISTORY
        demand((work.stop <= end) if history else (work.start >= end), "a range of history and changes")


class OpenedCounter:
    """One attempt."""

    def __init__(self, model: CounterModel, strategy: Strategy) -> None:
        """Take the model and the strategy."""
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
