"""The promises of counter backfill: of each partition, the records before one offset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from support.plugin_counter.backfill_counter.stored import CounterStored
from support.plugin_counter.backfill_counter.strategy import STRATEGY
from support.plugin_counter.backfill_counter.work import OffsetsRead, ReadOffsets
from support.simulation.law import demand
from support.simulation.model import Compared, Cost, Effect, Progress, Promise, Staging
from support.simulation.region import Region
from support.simulation.scenario import Scenario
from support.simulation.tables import APPEND, Row
from support.simulation.topic import Topic
from support.tables.jobs import job

from backfill_api.spec.spec import BackfillSpec
from backfill_core.job.state import JobState
from backfill_core.positions.offsets import Subscribed
from backfill_core.protocol.events import Event, Head, SourcePolled
from backfill_core.protocol.strategy import Opened, Strategy
from backfill_core.protocol.work import Verify, Work, WorkKind

Resume = Callable[[BackfillSpec, CounterStored | None, Opened], Strategy]


class CounterModel:
    """The promises in one world; see the module."""

    MODES: ClassVar[tuple[str, ...]] = (APPEND,)
    WORTH: ClassVar[Mapping[str, int]] = {
        "crashes": 100,
        "stops": 30,
        "batches": 200,
        "receipts": 60,
        "seals": 1000,
        "splits": 500,
        "acks": 400,
        "began_paused": 40,
        "compacted": 100,
        "partitions": 400,
        "quarantined": 400,
    }
    IN_FLIGHT_MAX: ClassVar[int] = 2
    RESUME: ClassVar[Resume] = staticmethod(STRATEGY.resume)
    """Makes the machine of an attempt; a test of the oracle has one that breaks a law."""

    AHEAD_RATE: ClassVar[int | None] = None

    def __init__(self, given: Scenario) -> None:
        """Make the source."""
        self.topic = Topic(given.seed, rows=given.rows, sparse=given.sparse, filtered=given.filters)

    @staticmethod
    def spec(given: Scenario) -> BackfillSpec:
        """Return a spec with nothing in it that the strategy reads."""
        where = {"transform": {"where": "value > 0"}} if given.filters else {}
        return job("/source", "/target", target={"writeMode": given.mode}, **where).spec

    @staticmethod
    def compared(progress: Progress) -> Compared:
        """There is no real target of it."""
        raise NotImplementedError

    # -------------------------------------------------------------- the source
    @property
    def met(self) -> Mapping[str, int]:
        """Return how many records were compacted away, and how many partitions came later."""
        return {"compacted": self.topic.compacted, "partitions": len(self.topic.partitions)}

    def change_source(self) -> str:
        """See `Model`."""
        self.topic.commit()
        return f"the partitions end at {self.offsets}"

    def poll(self, wall_ms: int) -> Event:
        """See `Model`."""
        return SourcePolled(Head(self.offsets, wall_ms))

    @property
    def offsets(self) -> dict[str, int]:
        """Return the newest position, in the strategy's form."""
        return {str(number): high for number, high in self.topic.highs.items()}

    def open(self, spec: BackfillSpec, stored: JobState | None, txn: int | None, wall_ms: int) -> OpenedCounter:
        """Subscribe; of a stored partition the state says what its history is."""
        progress = None if stored is None else STRATEGY.decode(stored.progress)
        return OpenedCounter(self, self.RESUME(spec, progress, Opened(Subscribed({}, self.offsets), txn)))

    # -------------------------------------------------------------- a stored state
    @staticmethod
    def positions(progress: Progress) -> dict[int, int]:
        """Return the offset before which the target holds each partition."""
        return {int(number): one["next"] for number, one in progress["partitions"].items()}

    def starts_over(self, progress: Progress) -> bool:
        """Each state is continued."""
        return False

    def expected(self, progress: Progress) -> Promise:
        """See `Model`."""
        return self.before(self.positions(progress))

    def quarantined(self, progress: Progress) -> Promise:
        """See `Model`."""
        return Promise(*self.topic.view(self.positions(progress), bad=True))

    def before(self, positions: dict[int, int]) -> Promise:
        """Return the records before some offsets; compaction may have come before the reader or after it."""
        return Promise(*self.topic.view(positions))

    def read(self, work: ReadOffsets) -> list[Row]:
        """Return the records of a range, as they are now."""
        return self.topic.read(int(work.partition), work.start, work.stop)

    def held(self, progress: Progress) -> Region:
        """Return the offsets before each position."""
        return Region.of(*((f"partition {number}", 0, stop) for number, stop in self.positions(progress).items()))

    def check_forward(self, before: Progress, after: Progress) -> None:
        """What counts as history is settled when a partition is first seen."""
        for number, one in before["partitions"].items():
            demand(after["partitions"].get(number, {}).get("end") == one["end"], "the history of a partition changed")

    def check_end(self, progress: Progress) -> None:
        """No history is left, and the job had caught up."""
        demand(progress["caughtUp"], "complete before it had caught up")
        demand(all(one["next"] >= one["end"] for one in progress["partitions"].values()), "complete without history")

    def check_key_proof(self, progress: Progress, merges: int) -> None:
        """A list has no key."""
        demand(False, "the key of a list was proven")

    # -------------------------------------------------------------- work
    def taken(self, work: ReadOffsets) -> Region:
        """See `Model`."""
        return Region.of((f"partition {work.partition}", work.start, work.stop))

    def cost(self, progress: Progress, work: ReadOffsets) -> Cost:
        """See `Model`; an offset is charged, with a record or without."""
        return Cost(work.stop - work.start, len(self.read(work)))

    def txn_of(self, work: Work) -> int | None:
        """It only stages."""
        return None

    def check_start(self, progress: Progress, work: ReadOffsets) -> None:
        """History is below the stored end of a partition, changes are not."""
        end = progress["partitions"].get(work.partition, {"end": 0})["end"]
        history = work.kind is WorkKind.HISTORY
        demand((work.stop <= end) if history else (work.start >= end), "a range of history and changes")

    def check_merge(self, progress: Progress, work: Work, txn: int) -> Promise:
        """A list is only appended to."""
        raise NotImplementedError


class OpenedCounter:
    """One attempt."""

    def __init__(self, model: CounterModel, strategy: Strategy) -> None:
        """Take what was opened."""
        self.strategy = strategy
        self._model = model

    def effect(self, work: ReadOffsets) -> Effect:
        """See `Opened`."""
        bad = self._model.topic.bad(int(work.partition), work.start, work.stop)
        return Staging((self._model.read(work),), lambda files: OffsetsRead(work.work_id, files), bad)

    def wanted(self, work: Verify) -> Promise:
        """See `Opened`."""
        return self._model.before({int(name): offset for name, offset in work.position.items()})


MODEL = CounterModel
