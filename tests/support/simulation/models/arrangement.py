"""The promises of arrangement backfill: for each vnode the rows up to one position, at one version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any, ClassVar

from support.arrangement.arranged import EVERYTHING, NOTHING, Arranged, Reach
from support.arrangement.opened import OpenedArrangement
from support.simulation.batch_parts import (
    PART_MEBIBYTES,
    BatchParts,
    held_versions,
    merged,
    taken_versions,
)
from support.simulation.knobs.mixed import VNODES, positions_of, reach_of
from support.simulation.law import demand
from support.simulation.model import Compared, Cost, Progress, Promise
from support.simulation.region import Region, Span
from support.simulation.scenario import Scenario
from support.simulation.tables import CHANGELOG, UPSERT, Row
from support.simulation.versions import DELETE, INSERT, UPDATE, Change, TableModel
from support.tables.jobs import job
from support.tables.key_bound import at_or_before

from backfill_api.spec.params import SplitParams
from backfill_api.spec.spec import BackfillSpec
from backfill_core.job.state import JobState
from backfill_core.positions.key_scan import KeyCut, KeyScan
from backfill_core.protocol.strategy import Opened, Pinned, ReadNewest
from backfill_core.protocol.work import (
    ApplyChanges,
    ReadKeyRange,
    Work,
)
from backfill_core.strategies.arrangement.params import ArrangementSettings
from backfill_core.strategies.arrangement.stored import decode, open_request
from backfill_core.strategies.arrangement.strategy import ArrangementStrategy

LAST = "Live"


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored form."""

    consumed: int
    phase: str
    reach: Reach
    merging: Mapping[str, Any] | None
    parts: BatchParts | None = None
    """`None` if no batch is merged in parts."""

    @property
    def started(self) -> bool:
        """Return whether a row may exist."""
        return any(coordinate != NOTHING for coordinate in self.reach)

    @property
    def complete(self) -> bool:
        """Return whether every row exists."""
        return all(coordinate == EVERYTHING for coordinate in self.reach)


class ArrangementModel(TableModel):
    """The promises in one world; see the module."""

    WORTH: ClassVar[Mapping[str, int]] = {
        "crashes": 100,
        "stops": 30,
        "merges": 60,
        "receipts": 60,
        "seals": 1000,
        "splits": 500,
        "acks": 400,
        "began_paused": 40,
        "versions": 1000,
        "rounds": 80,
        "straddles": 25,
        "cut_off": 200,
        "parts": 100,
    }
    IN_FLIGHT_MAX: ClassVar[int] = 2
    KNOBS: ClassVar[frozenset[str]] = TableModel.KNOBS | {"mixed"}
    AHEAD_RATE: ClassVar[int | None] = None

    def __init__(self, given: Scenario) -> None:
        """Make the source, and draw its arrangement."""
        super().__init__(given, sparse=False)
        self._rng = Random(given.seed)
        drawn = Arranged.drawn(self._rng)
        self.arranged = replace(drawn, vnodes=VNODES) if given.mixed else drawn
        self.chunk_rows = self._rng.choice([2, 3, 5, None])
        self._part_bytes = PART_MEBIBYTES << 20 if given.seed % 2 == 0 else None
        self.rounds = self.straddles = self.cut_off = self.whole_merges = self.recuts = self.parts = (
            self.bounded_parts
        ) = 0
        self._cells: list[tuple[int, int]] = []
        """Coordinate and estimated rows of each of the newest cuts; the last one is behind everything."""

        self._cells_version = 0

        self._read_at: list[list[tuple[int, int]]] = [[] for _ in range(self.arranged.vnodes)]
        """For each vnode: coordinates up to which rows were committed, with the version at which they were read."""

        self.in_range = cache(self._in_range)

    @staticmethod
    def spec(given: Scenario) -> BackfillSpec:
        """Return a spec without fields that the model's strategy reads."""
        return job("/source", "/target", target={"writeMode": given.mode}).spec

    @staticmethod
    def compared(progress: Progress) -> Compared:
        """See `Model`."""
        ((_, *reached),) = progress["positions"]  # only a state that is made by hand has several
        if reached == ["Completed"]:
            return Compared(progress["consumed"], complete=True)
        bound = at_or_before(progress["order"], reached[0]) if reached else "FALSE"
        return Compared(progress["consumed"], complete=False, reached=bound)

    # -------------------------------------------------------------- the source
    @property
    def met(self) -> Mapping[str, int]:
        """Return the counts of the situations in `WORTH`."""
        return {
            "versions": self.table.version,
            "rounds": self.rounds,
            "straddles": self.straddles,
            "cut_off": self.cut_off,
            "recuts": self.recuts,
            "parts": self.parts,
            "bounded_parts": self.bounded_parts,
        }

    def open(self, spec: BackfillSpec, stored: JobState | None, txn: int | None, wall_ms: int) -> OpenedArrangement:
        """Open the newest version; its rows determine the cuts."""
        progress, params = None if stored is None else decode(stored.progress), spec.strategy.params
        assert isinstance(params, SplitParams)  # default strategy; only its parallelism is read
        assert isinstance(open_request(progress), ReadNewest)
        pinned = Pinned(self.table.version, wall_ms, "upstream", "", (), len(self.table.rows(self.table.version)))
        settings = ArrangementSettings(
            merges=self.mode == UPSERT,
            filtered=self.filtered,
            in_flight_max=params.max_in_flight,
            chunk_rows=self.chunk_rows,
            part_bytes=self._part_bytes,
        )
        line = self.line(self.table.version)
        opened = Opened(pinned, txn, proves_key=self.proves_key, splits_keys=self.arranged.banded, line=line)
        return OpenedArrangement(self, ArrangementStrategy(opened, line, settings, progress))

    def line(self, version: int) -> KeyScan:
        """Cut the rows of a version at random places; estimates may be wrong."""
        rows = sorted(self.table.rows(version), key=self.arranged.at)
        cuts: list[KeyCut] = []
        while len(rows) > 1 and self._rng.random() < 0.95:
            taken, rows = rows[: (size := self._rng.choice([1, 2, 4, 9]))], rows[size:]
            cuts.append(
                KeyCut(self.arranged.position(taken[-1]), max(0, len(taken) + self._rng.choice([0, 0, 0, 1, -1])))
            )
        self._cells = [(self.arranged.coordinate(cut.position), cut.rows) for cut in cuts]
        self._cells.append((EVERYTHING, len(rows)))
        self._cells_version = version
        return KeyScan(self.arranged.space, tuple(cuts), len(rows))

    # -------------------------------------------------------------- a stored state
    def mixed(self) -> Progress:
        """Return a state made by hand: each vnode is at another position."""
        rows, space = self.table.rows(0), self.arranged.space
        reach = reach_of(self._rng, self.arranged, rows)
        read = [row for row in rows if self.arranged.within(row, reach)]
        return {
            "tableId": "upstream",
            "consumed": 0,
            "phase": "Reading",
            "order": space.order.to_json(),
            "distribution": list(space.distribution),
            "positions": positions_of(self.arranged, rows, reach),
            "rows": sum(self.table.passes(value) for _, value in read),
            "rowsRead": len(read),
            "chunks": 1,
            "merging": None,
        }

    def stored(self, progress: Progress) -> Stored:
        """Read the stored form."""
        reach: list[int] = []
        for count, *reached in progress["positions"]:
            reach += [self._coordinate(reached)] * count
        return Stored(
            progress["consumed"],
            progress["phase"],
            tuple(reach),
            progress["merging"],
            BatchParts.of(progress.get("parts")),
        )

    def _coordinate(self, reached: list[Any]) -> int:
        if not reached:
            return NOTHING
        return EVERYTHING if reached[0] == "Completed" else self.arranged.coordinate(reached[0])

    def starts_over(self, progress: Progress) -> bool:
        """Return false: every state is resumed (R-ARR-38)."""
        return False

    def expected(self, progress: Progress) -> Promise:
        """Return exactly the rows at or before the positions, at the consumed version (R-ARR-42)."""
        stored = self.stored(progress)
        for vnode, reach in enumerate(stored.reach):
            if reach != NOTHING and (not self._read_at[vnode] or self._read_at[vnode][-1][0] < reach):
                self._read_at[vnode].append((reach, stored.consumed))
        if stored.parts is None:
            return self.rows_of(stored.reach, stored.consumed)
        before, after = (self.rows_of(stored.reach, version).rows for version in (stored.consumed, stored.parts.upto))
        return Promise(stored.parts.mixed(before, after))

    def rows_of(self, reach: Reach, consumed: int) -> Promise:
        """Return the rows of a target; for a changelog, the rows as read and the changes since then."""
        if self.mode != CHANGELOG:
            rows = self.table.view(consumed)
            return Promise(Counter({row: count for row, count in rows.items() if self.arranged.within(row, reach)}))
        images = Counter[Row]()
        for version in {version for vnode in self._read_at for _, version in vnode}:
            rows_then = [row for row in self.table.rows(version) if self.arranged.within(row, reach)]
            images.update((INSERT, version, *row) for row in rows_then if self._version_read(row) == version)
        for version in range(1, consumed + 1):
            for change in self.table.changes[version]:
                images.update(self.logged(change, lambda row, at=version: self._version_read(row) < at))
        return Promise(images)

    def _version_read(self, row: Row) -> int:
        """Return the version at which rows of this place were read; beyond all positions, one that never comes."""
        at = self.arranged.at(row)
        return next((version for reach, version in self._read_at[self.arranged.vnode(row)] if at <= reach), 10**9)

    def logged(self, change: Change, visible: Any) -> list[Row]:
        """Return the rows of a changelog; each half of an update is judged by itself (R-ARR-17)."""
        old, new = (change.key, change.before), (change.key, change.value)
        if change.op != UPDATE:
            return [(change.op, change.version, *new)] if visible(new) else []
        match visible(old), visible(new):
            case True, True:
                return [(UPDATE, change.version, *new)]
            case True, False:
                return [(DELETE, change.version, *old)]
            case False, True:
                return [(INSERT, change.version, *new)]
            case _:
                return []

    def held(self, progress: Progress) -> Region:
        """Return the rows up to the positions, at any version that might be read again, and the consumed versions."""
        stored = self.stored(progress)
        spans: list[Span] = [
            (f"vnode {vnode} at {version}", 0, reach + 1)
            for vnode, reach in enumerate(stored.reach)
            for version in range(self.table.version + 1)
        ]
        return Region.of(*spans, held_versions(stored, 0))

    def check_forward(self, before: Progress, after: Progress) -> None:
        """Check that order and vnodes stay, and that the consumed version does not go back."""
        demand(before["order"] == after["order"], "the order changed")
        demand(before["distribution"] == after["distribution"], "the distribution changed")
        old, new = self.stored(before), self.stored(after)
        demand(new.consumed >= old.consumed, "the consumed version went back")
        if old.parts is not None:
            self.parts += (count := old.parts.check_forward(new.parts, (old.consumed, new.consumed)))
            self.bounded_parts += 0 if old.complete else count
            demand(new.parts is None or new.reach == old.reach, "a position moved between two parts")

    def check_end(self, progress: Progress) -> None:
        """Check that every vnode is completed, and that the job had caught up (R-ARR-29, R-ARR-31)."""
        stored = self.stored(progress)
        demand(stored.parts is None, "complete between two parts")
        demand(stored.complete, "complete before the last row was read")
        demand(stored.phase == LAST, "complete before it had caught up")

    def check_key_proof(self, progress: Progress, merges: int) -> None:
        """Check that the target is read where ranges split keys, before a MERGE of all rows may have hidden two rows with one key."""
        demand(self.arranged.banded, "the key of the target was proven, and each range proves its own")
        demand(self.stored(progress).complete, "the key was proven before all rows were copied")
        demand(self.whole_merges == 0, "the key was proven after a MERGE of all rows")

    # -------------------------------------------------------------- work
    def span(self, work: ReadKeyRange) -> tuple[int, int]:
        """Return the coordinates `[start, stop)` of a range."""
        start = 0 if work.low is None else self.arranged.coordinate(work.low) + 1
        return start, EVERYTHING + 1 if work.high is None else self.arranged.coordinate(work.high) + 1

    def is_cut_off(self, work: ReadKeyRange) -> bool:
        """Return whether its range may contain more rows than it reads."""
        return work.rows_max is not None and len(self.in_range(work)) == work.rows_max

    def taken(self, work: Work) -> Region:
        """See `Model`; two attempts at a range at two versions are not the same rows."""
        if isinstance(work, ReadKeyRange):
            start, stop = self.span(work)
            if self.is_cut_off(work):
                stop = self.arranged.at(self.in_range(work)[-1]) + 1
            vnodes = [vnode for span in work.vnodes for vnode in range(*span)]
            return Region.of(*((f"vnode {vnode} at {work.version}", start, stop) for vnode in vnodes))
        assert isinstance(work, ApplyChanges)
        return Region.of(taken_versions(work))

    def _in_range(self, work: ReadKeyRange) -> list[Row]:
        """Return the rows of the source that a piece of work reads, in order; the caller must not change the list."""
        start, stop = self.span(work)
        chosen = [vnode for span in work.vnodes for vnode in range(*span)]
        rows = [
            row
            for row in self.table.rows(work.version)
            if start <= self.arranged.at(row) < stop and self.arranged.vnode(row) in chosen
        ]
        return sorted(rows, key=self.arranged.at)[: work.rows_max]

    def cost(self, progress: Progress, work: Work) -> Cost:
        """See `Model`; whole cells are charged by their estimate."""
        assert isinstance(work, ReadKeyRange)
        start, stop = self.span(work)
        sure = work.rows_max is not None or work.version == self._cells_version
        demand(sure, "a read of another version than the cuts has no bound (R-ARR-9)")
        vnodes = sum(last - first for first, last in work.vnodes)
        cells = sum(rows for at, rows in self._cells if start <= at < stop) * vnodes // self.arranged.vnodes
        return Cost(max(1, cells) if work.rows_max is None else work.rows_max, len(self.in_range(work)))

    def check_start(self, progress: Progress, work: Work) -> None:
        """Check that a chunk is read at the version of the state or of its announced MERGE: no old version is needed (R-ARR-24)."""
        stored = self.stored(progress)
        if isinstance(work, ReadKeyRange):
            if self.mode == UPSERT and stored.started:
                announced = None if stored.merging is None else stored.merging["upto"]
                announced = announced if stored.parts is None else stored.parts.upto
                demand(work.version in (stored.consumed, announced), "a version that is neither consumed nor announced")
            demand(work.version >= stored.consumed, "an old version is read")
            return
        assert isinstance(work, ApplyChanges)
        reach = None if work.bound is None else self.arranged.reach_of(work.bound.positions)
        if self.txn_of(work) is not None:
            demand(stored.complete if reach is None else reach == stored.reach, "the bound is not that of the state")

    def check_merge(self, progress: Progress, work: Work, txn: int) -> Promise:
        """Check that the newest seal announced it; return the rows of that state at its last version, or after its part."""
        stored = self.stored(progress)
        return Promise(merged(stored, work, txn, lambda version: self.rows_of(stored.reach, version).rows))


MODEL = ArrangementModel
