"""The promises of source backfill, read from the stored JSON alone: of each partition, what its state of semantics 2.4 says.

With its offset o, its target t, where it starts and how far its live side is, the target holds the records of

state             offsets
---------------   ------------------------------
Backfilling(o)    `[start, o]` and `[t + 1, live)`
SourceCachingUp   `[start, o]`, and o is t
Finished          `[start, live)`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

from support.simulation.law import demand
from support.simulation.model import Cost, Effect, Progress, Promise, Staging
from support.simulation.region import Region
from support.simulation.scenario import Scenario
from support.simulation.topic import Span
from support.simulation.topic_model import TopicModel

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import BackfillError, OffsetsExpiredError, SourceReplacedError
from backfill_core.job.state import JobState
from backfill_core.positions.offsets import OffsetRange, Subscribed
from backfill_core.protocol.strategy import Opened, Strategy, Subscribe
from backfill_core.protocol.work import OffsetRangesStaged, ReadOffsetRanges, Verify, WorkKind
from backfill_core.strategies.source_splits import STRATEGY
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.strategy import SourceSplitsStrategy


class SourceSplitsModel(TopicModel):
    """The promises in one world; see the module."""

    WORTH: ClassVar[Mapping[str, int]] = TopicModel.WORTH | {
        "expired": 3,
        "replaced": 3,
        "no history": 20,
        "live beside history": 50,
    }

    def __init__(self, given: Scenario) -> None:
        """Make the source."""
        super().__init__(given)
        self._rng = Random(f"{given.seed}/topic")
        self._loses = given.loses
        self._latest = self._rng.random() < 0.15
        """Does the job begin at the end of the topic?"""

        self._sizes = {"read_max": self._rng.choice([3, 12, 40]), "share_min": self._rng.choice([1, 5])}
        self._seen = Counter[str]()
        self._begun: dict[str, set[tuple[int, int]]] = {}
        """Of each partition, where an attempt that begins found its start and its end."""

    @property
    def met(self) -> Mapping[str, int]:
        """See `Model`."""
        return super().met | self._seen

    def change_source(self) -> str:
        """See `Model`."""
        if self._loses is not None and self._rng.random() < 0.2:
            self.topic.lose(self._loses)
            lows = {number: one.low for number, one in self.topic.partitions.items()}
            return f"it loses records: topic {self.source_id} begins at {lows}"
        return super().change_source()

    @property
    def source_id(self) -> str:
        """See `TopicModel`."""
        return f"topic-{self.topic.made}"

    def lost(self, error: BackfillError) -> bool:
        """Records may expire before they are read, and the topic may be another one."""
        kind = {OffsetsExpiredError: "expired", SourceReplacedError: "replaced"}.get(type(error), "")
        self._seen[kind] += 1
        return bool(kind) and self._loses == {"expired": "expire", "replaced": "recreate"}[kind]

    # -------------------------------------------------------------- reading
    def open(self, spec: BackfillSpec, stored: JobState | None, txn: int | None, wall_ms: int) -> OpenedSource:
        """Subscribe, as the driver does."""
        progress = None if stored is None else STRATEGY.decode(stored.progress)
        request = STRATEGY.open_request(progress)
        assert isinstance(request, Subscribe)
        if request.source_id not in ("", self.source_id):
            raise SourceReplacedError("another topic")
        lows = {str(number): one.low for number, one in self.topic.partitions.items()}
        if request.after is not None:
            for name, newest in self.offsets.items():
                if request.after.get(name, 0) < min(lows[name], newest):
                    raise OffsetsExpiredError(f"partition {name} begins at {lows[name]}")
        first = self.offsets if self._latest else lows
        if stored is None:
            for name, newest in self.offsets.items():
                self._begun.setdefault(name, set()).add((first[name], newest))
        found = Subscribed(first if stored is None else request.first or {}, self.offsets, self.source_id)
        settings = replace(SourceSplitsSettings.of(spec), **self._sizes)
        del txn
        return OpenedSource(self, found, SourceSplitsStrategy(Opened(found).subscribed, settings, progress))

    def check_there(self, ranges: Iterable[OffsetRange]) -> None:
        """Refuse to read what is gone: a source never passes over it.

        Raises:
            BackfillError: it is gone.
        """
        if self.topic.made:
            raise SourceReplacedError("another topic")
        for one in ranges:
            low = self.topic.partitions[int(one.partition)].low
            if one.start < low:
                raise OffsetsExpiredError(f"partition {one.partition} begins at {low}")

    # -------------------------------------------------------------- a stored state
    @staticmethod
    def spans(progress: Progress) -> Iterable[Span]:
        """See the module."""
        spans: list[Span] = []
        for name, one in progress["splits"].items():
            number, start, live, state = int(name), progress["starts"][name], progress["live"][name], one["state"]
            if state == "Finished":
                spans.append((number, start, live))
                continue
            ((kind, last),) = state.items()
            target = int(one["target_offset"])
            spans.append((number, start, start if last is None else int(last) + 1))
            if kind == "Backfilling":
                spans.append((number, target + 1, live))
            else:
                demand(last == str(target), "a partition catches up before its target (R-SRC-15)")
        return spans

    def expected(self, progress: Progress) -> Promise:
        """See `Model`; also where each partition starts, what its target is, and how many records of history were counted."""
        for name, one in progress["splits"].items():
            start, live, target = progress["starts"][name], progress["live"][name], one["target_offset"]
            end = start if target is None else int(target) + 1
            begun = self._begun.get(name, {(0, 0)})
            demand((start, end) in begun, f"partition {name} has history [{start}, {end}), not one of {begun}")
            demand(live >= end, "the live side of a partition begins in its history")
            demand(one["num_consumed_rows"] <= end - start, "more records than offsets were counted")
            self._seen["no history"] += target is None
            self._seen["live beside history"] += isinstance(one["state"], dict) and live > end
        return super().expected(progress)

    def check_forward(self, before: Progress, after: Progress) -> None:
        """A partition is never forgotten; its state goes forward, its start and its target stay."""
        order = ["Backfilling", "SourceCachingUp", "Finished"]
        for name, one in before["splits"].items():
            demand(name in after["splits"], f"partition {name} was forgotten")
            now = after["splits"][name]
            demand(after["starts"][name] == before["starts"][name], "a partition starts elsewhere")
            demand(now["target_offset"] == one["target_offset"], "a target moved (R-SRC-6)")
            demand(now["num_consumed_rows"] >= one["num_consumed_rows"], "records were uncounted")
            demand(order.index(kind_of(now)) >= order.index(kind_of(one)), "a partition went back")

    def check_end(self, progress: Progress) -> None:
        """All history is there, and the job had caught up (R-SRC-24)."""
        demand(progress["phase"] == "Live", "complete before it had caught up")
        demand(all(kind_of(one) != "Backfilling" for one in progress["splits"].values()), "complete without history")

    # -------------------------------------------------------------- work
    def taken(self, work: ReadOffsetRanges) -> Region:
        """See `Model`."""
        names = [one.partition for one in work.ranges]
        demand(len(names) == len(set(names)), "two ranges of one partition in one read")
        return self.region(work.ranges)

    def cost(self, progress: Progress, work: ReadOffsetRanges) -> Cost:
        """See `Model`; an offset is charged, with a record or without."""
        return Cost(
            sum(one.stop - one.start for one in work.ranges), len(self.read(work.ranges)) + len(self.bad(work.ranges))
        )

    def check_start(self, progress: Progress, work: ReadOffsetRanges) -> None:
        """History is up to the target of a partition, what is new is behind it."""
        for one in work.ranges:
            stored = progress["splits"].get(one.partition)
            target = None if stored is None else stored["target_offset"]
            end = progress["starts"].get(one.partition, 0) if target is None else int(target) + 1
            history = work.kind is WorkKind.HISTORY
            demand((one.stop <= end) if history else (one.start >= end), "a range of history and of what is new")


def kind_of(split: Mapping[str, Any]) -> str:
    """Return the name of a stored split's state."""
    return split["state"] if isinstance(split["state"], str) else next(iter(split["state"]))


class OpenedSource:
    """One attempt."""

    def __init__(self, model: SourceSplitsModel, found: Subscribed, strategy: Strategy) -> None:
        """Take what was opened."""
        self.strategy = strategy
        self._model, self._first = model, found.first

    def effect(self, work: ReadOffsetRanges) -> Effect:
        """See `Opened`."""
        self._model.check_there(work.ranges)
        rows, bad = self._model.read(work.ranges), self._model.bad(work.ranges)
        records = Counter(str(row[0]) for row in (*rows, *bad))
        return Staging((rows,), lambda files: OffsetRangesStaged(work.work_id, files, records), bad)

    def wanted(self, work: Verify) -> Promise:
        """See `Opened`; what is covered are ranges, while history is missing."""
        if work.covered is not None:
            return self._model.at((int(one.partition), one.start, one.stop) for one in work.covered)
        return self._model.at((int(name), self._first.get(name, 0), offset) for name, offset in work.position.items())


MODEL = SourceSplitsModel
