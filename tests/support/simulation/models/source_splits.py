"""The promises of source backfill, read only from the stored JSON: for each partition, its state of semantics 2.4.

With its offset o, its target t, its start and the end of its live side, the target holds the records of

state             offsets
---------------   ------------------------------
Backfilling(o)    `[start, o]` and `[t + 1, live)`
SourceCachingUp   `[start, o]`, and o is t
Finished          `[start, live)`

If the target has one row a key, no new record of a partition arrives before its history. So the target holds a prefix of each
partition, and for each key the last record of that prefix (`Upsert`).
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
from backfill_core.protocol.after_end import progress_after_end
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
    FIXED_WIDTH_MODES: ClassVar[frozenset[str]] = frozenset({UPSERT})
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
        """Begin the job at the end of the topic."""

        self._sizes = {"read_max": self._rng.choice([3, 12, 40]), "share_min": self._rng.choice([1, 5])}
        if given.mode == UPSERT:
            # One MERGE at a time: smaller ones would not come to an end.
            self._sizes["read_max"] = max(12, self._sizes["read_max"])
        self._seen = Counter[str]()
        self._upserts = given.mode == UPSERT
        self._effects: dict[int, Merging] = {}
        """Effect of a MERGE that may be in the target, by its transaction."""

        self._begun: list[dict[str, tuple[int, int]]] = []
        """Starts and ends of the partitions for each attempt without a state; which of them sealed first is known later."""

    @property
    def met(self) -> Mapping[str, int]:
        """See `Model`."""
        return super().met | self._seen

    def change_source(self) -> str:
        """See `Model`."""
        if self._loses is not None and self._rng.random() < 0.2:
            self.topic.lose(self._loses)
            lows = {number: partition.low for number, partition in self.topic.partitions.items()}
            return f"it loses records: topic {self.source_id} begins at {lows}"
        return super().change_source()

    @property
    def source_id(self) -> str:
        """See `TopicModel`."""
        return f"topic-{self.topic.made}"

    def lost(self, error: BackfillError) -> bool:
        """Return whether the topic may end a job so: records expire before they are read, or the topic is recreated."""
        kind = {OffsetsExpiredError: "expired", SourceReplacedError: "replaced"}.get(type(error), "")
        self._seen[kind] += 1
        return bool(kind) and self._loses == {"expired": "expire", "replaced": "recreate"}[kind]

    # -------------------------------------------------------------- reading
    def open(self, spec: BackfillSpec, stored: JobState | None, txn: int | None, wall_ms: int) -> OpenedSource:
        """Subscribe, as the driver does."""
        progress = None if stored is None else STRATEGY.decode(stored.progress)
        progress = progress_after_end(progress, finished=stored is not None and stored.finished)
        request = STRATEGY.open_request(progress)
        assert isinstance(request, Subscribe)
        if request.source_id not in ("", self.source_id):
            raise SourceReplacedError("another topic")
        lows = {str(number): partition.low for number, partition in self.topic.partitions.items()}
        if request.after is not None:
            for name, newest in self.offsets.items():
                if request.after.get(name, 0) < min(lows[name], newest):
                    raise OffsetsExpiredError(f"partition {name} begins at {lows[name]}")
        first = self.offsets if self._latest else lows
        if stored is None:
            self._begun.append({name: (first[name], newest) for name, newest in self.offsets.items()})
        subscribed = Subscribed(first if stored is None else request.first or {}, self.offsets, self.source_id)
        settings = replace(SourceSplitsSettings.of(spec), sets_aside=True, **self._sizes)
        if not self._upserts:
            return OpenedSource(
                self, subscribed, SourceSplitsStrategy(Opened(subscribed).subscribed, settings, progress)
            )
        if progress is not None:
            self._seen["merged and lost"] += progress.merging is not None and progress.merging.txn == txn
            self._seen["set aside and lost"] += bool(progress.aside) and (
                progress.merging is None or progress.merging.txn != txn
            )
        return OpenedSource(self, subscribed, UpsertSplits(subscribed, settings, progress, last_txn=txn))

    def check_there(self, ranges: Iterable[OffsetRange]) -> None:
        """Raise an error for missing records: a source never skips them.

        Raises:
            BackfillError: records are missing.
        """
        if self.topic.made:
            raise SourceReplacedError("another topic")
        for span in ranges:
            low = self.topic.partitions[int(span.partition)].low
            if span.start < low:
                raise OffsetsExpiredError(f"partition {span.partition} begins at {low}")

    # -------------------------------------------------------------- a stored state
    @staticmethod
    def spans(progress: Progress) -> Iterable[Span]:
        """Return the offsets that the target holds; see the module."""
        spans: list[Span] = []
        for name, split in progress["splits"].items():
            number, start, live, state = int(name), progress["starts"][name], progress["live"][name], split["state"]
            if state == "Finished":
                spans.append((number, start, live))
                continue
            ((kind, last),) = state.items()
            target = int(split["target_offset"])
            spans.append((number, start, start if last is None else int(last) + 1))
            if kind == "Backfilling":
                spans.append((number, target + 1, live))
            else:
                demand(last == str(target), "a partition catches up before its target (R-SRC-15)")
        return spans

    def expected(self, progress: Progress) -> Promise:
        """See `Model`; also check each partition's start and target, and the number of counted history records."""
        for name, split in progress["splits"].items():
            start, live, target = progress["starts"][name], progress["live"][name], split["target_offset"]
            end = start if target is None else int(target) + 1
            begun = {attempt.get(name, (0, 0)) for attempt in self._begun}
            demand((start, end) in begun, f"partition {name} has history [{start}, {end}), not one of {begun}")
            demand(live >= end, "the live side of a partition begins in its history")
            demand(split["num_consumed_rows"] <= end - start, "more records than offsets were counted")
            self._seen["no history"] += target is None
            self._seen["live beside history"] += isinstance(split["state"], dict) and live > end
            demand(
                not self._upserts or live == end or kind_of(split) != "Backfilling",
                "a new record overtook an older one",
            )
        return super().expected(progress)

    def at(self, spans: Iterable[Span]) -> Promise:
        """Return the rows of a target for some offsets; with one row a key they are a prefix of each partition."""
        if not self._upserts:
            return super().at(spans)
        must, may = Counter[Any](), Counter[Any]()
        for key, images in self.topic.folds(spans).items():
            rows = Counter((key, image) for image in images if image is not None)
            (must if len(images) == 1 else may).update(rows)
        return Promise(must, may)

    def quarantined(self, progress: Progress) -> Promise:
        """See `Model`; those of a MERGE are written before its rows."""
        aside = self.prefixes(progress)
        for name, stop in progress.get("aside", {}).items():
            number, start, held = aside[name]
            aside[name] = (number, start, max(held, stop))
        spans = aside.values() if self._upserts else self.spans(progress)
        return Promise(*self.topic.view(spans, bad=True))

    def prefixes(self, progress: Progress) -> dict[str, Span]:
        """Return for each partition the offsets up to the first missing one."""
        return {str(number): (number, start, stop) for number, start, stop in reversed([*self.spans(progress)])}

    def held(self, progress: Progress) -> Region:
        """See `Model`; for bad records, up to their offset in the separate table."""
        held = super().held(progress)
        if not self._upserts:
            return held
        ends = {f"partition {name}": stop for name, (_, _, stop) in self.prefixes(progress).items()}
        ends |= {f"partition {name}": stop for name, stop in progress.get("aside", {}).items()}
        starts = {f"partition {name}": start for name, start in progress["starts"].items()}
        return Region.of(*held.spans, *((JUDGED + name, starts[name], stop) for name, stop in ends.items()))

    def check_forward(self, before: Progress, after: Progress) -> None:
        """Check that a partition never disappears, that its state goes forward, and that its start and its target stay."""
        order = ["Backfilling", "SourceCachingUp", "Finished"]
        for name, split in before["splits"].items():
            demand(name in after["splits"], f"partition {name} was forgotten")
            now = after["splits"][name]
            demand(after["starts"][name] == before["starts"][name], "a partition starts elsewhere")
            demand(now["target_offset"] == split["target_offset"], "a target moved (R-SRC-6)")
            demand(now["num_consumed_rows"] >= split["num_consumed_rows"], "records were uncounted")
            demand(order.index(kind_of(now)) >= order.index(kind_of(split)), "a partition went back")

    def check_end(self, progress: Progress) -> None:
        """Check that all history is present, and that the job had caught up (R-SRC-24)."""
        demand(progress["phase"] == "Live", "complete before it had caught up")
        demand(
            all(kind_of(split) != "Backfilling" for split in progress["splits"].values()), "complete without history"
        )

    # -------------------------------------------------------------- work
    def taken(self, work: RangeWork) -> Region:
        """See `Model`."""
        names = [span.partition for span in work.ranges]
        demand(len(names) == len(set(names)), "two ranges of one partition in one read")
        taken = self.region(work.ranges)
        if isinstance(work, SetBadRecordsAside):
            return Region.of(*((JUDGED + name, start, stop) for name, start, stop in taken.spans))
        return taken

    def cost(self, progress: Progress, work: RangeWork) -> Cost:
        """See `Model`; an offset is charged, with a record or without, and once if bad records are set aside first."""
        if isinstance(work, SetBadRecordsAside):
            return Cost(0, 0)
        return Cost(
            sum(span.stop - span.start for span in work.ranges),
            len(self.read(work.ranges)) + len(self.bad(work.ranges)),
        )

    def txn_of(self, work: RangeWork) -> int | None:
        """See `Model`."""
        return work.txn_version if isinstance(work, MergeOffsetRanges) else None

    def check_merge(self, progress: Progress, work: MergeOffsetRanges, txn: int) -> Promise:
        """Check that the newest commit announced it; return the rows after each of its partitions reaches the announced offset."""
        announced = {"txn": work.txn_version, "upto": {span.partition: span.stop for span in work.ranges}}
        demand(txn == work.txn_version, "a MERGE under another transaction")
        demand(progress.get("merging") == announced, "a MERGE that was not announced")
        spans = self.prefixes(progress)
        for span in work.ranges:
            number, start, stop = spans.get(span.partition, (int(span.partition), span.start, span.start))
            demand(stop == span.start, "a MERGE leaves offsets out, or has them again")
            spans[span.partition] = (number, start, span.stop)
        return self.at(spans.values())

    def merge(self, work: MergeOffsetRanges) -> Merging:
        """Return the effect of a MERGE, always the same: compaction does not change one that is in the target."""
        existing = self._effects.get(work.txn_version)
        if existing is not None:
            return existing
        self.check_there(work.ranges)
        changes = [
            change for span in work.ranges for change in self.topic.changes(int(span.partition), span.start, span.stop)
        ]
        read = {
            span.partition: len(self.topic.changes(int(span.partition), span.start, span.stop)) for span in work.ranges
        }

        def answer(changed: int) -> OffsetRangesMerged:
            return OffsetRangesMerged(work.work_id, changed, read)

        self._effects[work.txn_version] = Merging(work.txn_version, dict(changes), answer)
        return self._effects[work.txn_version]

    def check_start(self, progress: Progress, work: RangeWork) -> None:
        """Check that history ends at the target of a partition, and that new records are behind it."""
        for span in work.ranges:
            stored = progress["splits"].get(span.partition)
            target = None if stored is None else stored["target_offset"]
            end = progress["starts"].get(span.partition, 0) if target is None else int(target) + 1
            history = work.kind is WorkKind.HISTORY
            demand((span.stop <= end) if history else (span.start >= end), "a range of history and of new records")


def kind_of(split: Mapping[str, Any]) -> str:
    """Return the name of a stored split's state."""
    return split["state"] if isinstance(split["state"], str) else next(iter(split["state"]))


class OpenedSource:
    """One attempt."""

    def __init__(self, model: SourceSplitsModel, subscribed: Subscribed, strategy: Strategy) -> None:
        """Take the model, the subscription and the strategy."""
        self.strategy = strategy
        self._model, self._first = model, subscribed.first

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
        """See `Opened`; covered ranges are given while history is missing."""
        if work.covered is not None:
            return self._model.at((int(span.partition), span.start, span.stop) for span in work.covered)
        return self._model.at((int(name), self._first.get(name, 0), offset) for name, offset in work.position.items())


MODEL = SourceSplitsModel
