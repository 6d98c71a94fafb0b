"""The promises of source backfill, read from the stored JSON alone: of each partition, what its state of semantics 2.4 says.

With its offset o, its target t, where it starts and how far its live side is, the target holds the records of

state             offsets
---------------   ------------------------------
Backfilling(o)    `[start, o]` and `[t + 1, live)`
SourceCachingUp   `[start, o]`, and o is t
Finished          `[start, live)`

Where the target has one row a key, nothing new of a partition is there before its history is. So the target holds a prefix of each
partition, and of each key what the last record in that prefix says (`Upsert`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

from support.simulation.law import demand
from support.simulation.model import Cost, Effect, Merging, Progress, Promise, Staging
from support.simulation.region import Region
from support.simulation.scenario import Scenario
from support.simulation.tables import APPEND, UPSERT
from support.simulation.topic import Span
from support.simulation.topic_model import TopicModel

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import BackfillError, OffsetsExpiredError, SourceReplacedError
from backfill_core.job.state import JobState
from backfill_core.positions.offsets import OffsetRange, Subscribed
from backfill_core.protocol.strategy import Opened, Strategy, Subscribe
from backfill_core.protocol.work import (
    BadRecordsAside,
    MergeOffsetRanges,
    OffsetRangesMerged,
    OffsetRangesStaged,
    ReadOffsetRanges,
    SetBadRecordsAside,
    Verify,
    WorkKind,
)
from backfill_core.strategies.source_splits import STRATEGY
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.strategy import SourceSplitsStrategy
from backfill_core.strategies.source_splits.upsert import UpsertSplits

RangeWork = ReadOffsetRanges | SetBadRecordsAside | MergeOffsetRanges
JUDGED = "bad records of "


class SourceSplitsModel(TopicModel):
    """The promises in one world; see the module."""

    MODES: ClassVar[tuple[str, ...]] = (APPEND, UPSERT)
    WORTH: ClassVar[Mapping[str, int]] = TopicModel.WORTH | {
        "merges": 100,
        "merged and lost": 1,
        "set aside and lost": 5,
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
        if given.mode == UPSERT:
            # One MERGE at a time: smaller ones would not come to an end.
            self._sizes["read_max"] = max(12, self._sizes["read_max"])
        self._seen = Counter[str]()
        self._upserts = given.mode == UPSERT
        self._effects: dict[int, Merging] = {}
        """What a MERGE does that may be in the target, by its transaction."""

        self._begun: list[dict[str, tuple[int, int]]] = []
        """Where each attempt from nothing found the partitions' starts and ends; which of them sealed first is seen later."""

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
            self._begun.append({name: (first[name], newest) for name, newest in self.offsets.items()})
        found = Subscribed(first if stored is None else request.first or {}, self.offsets, self.source_id)
        settings = replace(SourceSplitsSettings.of(spec), sets_aside=True, **self._sizes)
        if not self._upserts:
            return OpenedSource(self, found, SourceSplitsStrategy(Opened(found).subscribed, settings, progress))
        if progress is not None:
            self._seen["merged and lost"] += progress.merging is not None and progress.merging.txn == txn
            self._seen["set aside and lost"] += bool(progress.aside) and (
                progress.merging is None or progress.merging.txn != txn
            )
        return OpenedSource(self, found, UpsertSplits(found, settings, progress, last_txn=txn))

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
            begun = {one.get(name, (0, 0)) for one in self._begun}
            demand((start, end) in begun, f"partition {name} has history [{start}, {end}), not one of {begun}")
            demand(live >= end, "the live side of a partition begins in its history")
            demand(one["num_consumed_rows"] <= end - start, "more records than offsets were counted")
            self._seen["no history"] += target is None
            self._seen["live beside history"] += isinstance(one["state"], dict) and live > end
            demand(
                not self._upserts or live == end or kind_of(one) != "Backfilling", "a new record overtook an older one"
            )
        return super().expected(progress)

    def at(self, spans: Iterable[Span]) -> Promise:
        """Return what a target has of some offsets; with one row a key they are a prefix of each partition."""
        if not self._upserts:
            return super().at(spans)
        must, may = Counter[Any](), Counter[Any]()
        for key, images in self.topic.folds(spans).items():
            rows = Counter((key, image) for image in images if image is not None)
            (must if len(images) == 1 else may).update(rows)
        return Promise(must, may)

    def quarantined(self, progress: Progress) -> Promise:
        """See `Model`; those before a MERGE are there before its rows are."""
        aside = self.prefixes(progress)
        for name, stop in progress.get("aside", {}).items():
            number, start, held = aside[name]
            aside[name] = (number, start, max(held, stop))
        spans = aside.values() if self._upserts else self.spans(progress)
        return Promise(*self.topic.view(spans, bad=True))

    def prefixes(self, progress: Progress) -> dict[str, Span]:
        """Return of each partition the offsets up to the first one that is missing."""
        return {str(number): (number, start, stop) for number, start, stop in reversed([*self.spans(progress)])}

    def held(self, progress: Progress) -> Region:
        """See `Model`; of bad records, up to where they are in their own table."""
        held = super().held(progress)
        if not self._upserts:
            return held
        ends = {f"partition {name}": stop for name, (_, _, stop) in self.prefixes(progress).items()}
        ends |= {f"partition {name}": stop for name, stop in progress.get("aside", {}).items()}
        starts = {f"partition {name}": start for name, start in progress["starts"].items()}
        return Region.of(*held.spans, *((JUDGED + name, starts[name], stop) for name, stop in ends.items()))

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
    def taken(self, work: RangeWork) -> Region:
        """See `Model`."""
        names = [one.partition for one in work.ranges]
        demand(len(names) == len(set(names)), "two ranges of one partition in one read")
        taken = self.region(work.ranges)
        if isinstance(work, SetBadRecordsAside):
            return Region.of(*((JUDGED + name, start, stop) for name, start, stop in taken.spans))
        return taken

    def cost(self, progress: Progress, work: RangeWork) -> Cost:
        """See `Model`; an offset is charged, with a record or without, and once where bad records are set aside first."""
        if isinstance(work, SetBadRecordsAside):
            return Cost(0, 0)
        return Cost(
            sum(one.stop - one.start for one in work.ranges), len(self.read(work.ranges)) + len(self.bad(work.ranges))
        )

    def txn_of(self, work: RangeWork) -> int | None:
        """See `Model`."""
        return work.txn_version if isinstance(work, MergeOffsetRanges) else None

    def check_merge(self, progress: Progress, work: MergeOffsetRanges, txn: int) -> Promise:
        """It was announced by the newest commit, and brings each of its partitions to where that said."""
        announced = {"txn": work.txn_version, "upto": {one.partition: one.stop for one in work.ranges}}
        demand(txn == work.txn_version, "a MERGE under another transaction")
        demand(progress.get("merging") == announced, "a MERGE that was not announced")
        spans = self.prefixes(progress)
        for one in work.ranges:
            number, start, stop = spans.get(one.partition, (int(one.partition), one.start, one.start))
            demand(stop == one.start, "a MERGE leaves offsets out, or has them again")
            spans[one.partition] = (number, start, one.stop)
        return self.at(spans.values())

    def merge(self, work: MergeOffsetRanges) -> Merging:
        """Return what a MERGE does, each time the same: compaction does not change one that is in the target."""
        known = self._effects.get(work.txn_version)
        if known is not None:
            return known
        self.check_there(work.ranges)
        changes = [
            one for span in work.ranges for one in self.topic.changes(int(span.partition), span.start, span.stop)
        ]
        read = {
            span.partition: len(self.topic.changes(int(span.partition), span.start, span.stop)) for span in work.ranges
        }

        def answer(changed: int) -> OffsetRangesMerged:
            return OffsetRangesMerged(work.work_id, changed, read)

        self._effects[work.txn_version] = Merging(work.txn_version, dict(changes), answer)
        return self._effects[work.txn_version]

    def check_start(self, progress: Progress, work: RangeWork) -> None:
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

    def effect(self, work: RangeWork) -> Effect:
        """See `Opened`."""
        if isinstance(work, MergeOffsetRanges):
            return self._model.merge(work)
        self._model.check_there(work.ranges)
        if isinstance(work, SetBadRecordsAside):
            aside = self._model.bad(work.ranges)
            return Staging((), lambda files: BadRecordsAside(work.work_id, files), aside)
        rows, bad = self._model.read(work.ranges), self._model.bad(work.ranges)
        records = Counter(str(row[0]) for row in (*rows, *bad))
        return Staging((rows,), lambda files: OffsetRangesStaged(work.work_id, files, records), bad)

    def wanted(self, work: Verify) -> Promise:
        """See `Opened`; what is covered are ranges, while history is missing."""
        if work.covered is not None:
            return self._model.at((int(one.partition), one.start, one.stop) for one in work.covered)
        return self._model.at((int(name), self._first.get(name, 0), offset) for name, offset in work.position.items())


MODEL = SourceSplitsModel
