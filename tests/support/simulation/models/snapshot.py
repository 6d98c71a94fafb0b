"""The promises of snapshot backfill: one pinned version in intervals of its rows, then the versions after it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from support.simulation.batch_parts import (
    BY_KEY,
    BatchParts,
    cut,
    held_versions,
    in_part,
    merged,
    part_setting,
    taken_versions,
)
from support.simulation.law import demand
from support.simulation.model import Compared, Cost, Effect, Filing, Merging, Progress, Promise, Staging, installed
from support.simulation.region import Region, Span
from support.simulation.scenario import Scenario
from support.simulation.tables import APPEND, CHANGELOG, UPSERT, Row
from support.simulation.versions import INSERT, TableModel
from support.tables.jobs import job

from backfill_api.spec.spec import BackfillSpec
from backfill_core.job.state import JobState
from backfill_core.phases.copy import SPLIT_ROWS_MIN
from backfill_core.positions.file_order import FileOrder
from backfill_core.positions.file_ranges import FileRange
from backfill_core.protocol.events import Event
from backfill_core.protocol.strategy import Opened, Pinned, PinVersion, Strategy, StrategyPlugin
from backfill_core.protocol.work import (
    ApplyChanges,
    ChangesApplied,
    ChangesCut,
    ReadSplit,
    SplitStaged,
    StagedFile,
    Verify,
    Work,
)

COPYING, LAST = "Snapshot", "Live"
PHASES = {COPYING: 0, "CatchUp": 1, "LogStore": 1, LAST: 2}
"""Phases by their order; `LogStore` is the name of `CatchUp` in states of earlier releases."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored form."""

    version: int
    phase: str
    done: tuple[tuple[int, int], ...]
    consumed: int
    merging: Mapping[str, Any] | None
    copying: bool
    """True if a part of the pinned version is missing."""

    parts: BatchParts | None = None
    """`None` if no batch is merged in parts."""

    @classmethod
    def of(cls, progress: Progress, *, copying: bool) -> Stored:
        """Read it; the strategy decides whether a part is missing."""
        done = tuple((start, stop) for start, stop in progress["done"])
        parts, consumed = BatchParts.of(progress.get("parts")), progress["consumed"]
        return cls(progress["version"], progress["phase"], done, consumed, progress["merging"], copying, parts)


class SnapshotModel(TableModel):
    """The promises in one world; see the module."""

    WORTH: ClassVar[Mapping[str, int]] = {
        "crashes": 100,
        "stops": 30,
        "merges": 40,
        "receipts": 60,
        "seals": 1000,
        "splits": 500,
        "acks": 400,
        "began_paused": 40,
        "versions": 1000,
        "held": 10,
        "ordered": 200,
        "cuts": 20,
        "parts": 300,
    }
    KNOBS: ClassVar[frozenset[str]] = TableModel.KNOBS | {"hidden"}
    IN_FLIGHT_MAX: ClassVar[int] = 4
    AHEAD_RATE: ClassVar[int | None] = 100_000

    def __init__(self, given: Scenario) -> None:
        """Make the source."""
        super().__init__(given, sparse=given.sparse)
        self._strategy = given.strategy
        self._slowable = given.seed % 4 < 2
        self._opened: Strategy | None = None
        self._waiting = self._held = 0
        """Commits that a source with back-pressure has not made yet, and how often one had to wait."""
        self._orders, self._ordered, self.ordered = Random(given.seed), given.seed % 3 > 0, 0
        self._pinned_version = 0
        self._decodes, self.cuts = given.seed % 5 < 3, 0
        """Decode every file, so that the first splits may end inside a file; and the number of splits that did without a limit."""

        self.parts = 0
        """Number of parts of batches that were merged."""

        self._pending_upto = 0
        """Newest version when the last row of the snapshot was sealed: catching up reaches it at least."""

    @staticmethod
    def spec(given: Scenario) -> BackfillSpec:
        """See `Model`."""
        where = {"transform": {"where": "value > 0"}} if given.filters else {}
        rule = "Barriers" if given.seed % 3 == 0 else "EpochTime"
        strategy = {"type": "Snapshot", "snapshot": {"catchUp": {"limit": rule}, **part_setting(given.seed)}}
        return job("/source", "/target", target={"writeMode": given.mode}, strategy=strategy, **where).spec

    @staticmethod
    def stored(progress: Progress) -> Stored:
        """Read the stored form."""
        return Stored.of(progress, copying=progress["phase"] == COPYING)

    @classmethod
    def compared(cls, progress: Progress) -> Compared:
        """See `Model`."""
        stored = cls.stored(progress)
        return Compared(stored.version if stored.copying else stored.consumed, complete=not stored.copying)

    # -------------------------------------------------------------- the source
    @property
    def met(self) -> Mapping[str, int]:
        """Return the numbers of versions, of delayed versions, of attempts with ordered files, of splits that cut a file, and of merged parts."""
        counts = {"versions": self.table.version, "held": self._held, "ordered": self.ordered, "cuts": self.cuts}
        return counts | {"parts": self.parts}

    @property
    def _holds(self) -> bool:
        """Return whether the source must not make a version now (R-SNAP-26)."""
        return self._slowable and self._opened is not None and self._opened.status.holds_source

    def change_source(self) -> str:
        """Commit, or wait until the job permits it."""
        if not self._holds:
            return super().change_source()
        self._waiting, self._held = self._waiting + 1, self._held + 1
        return "a commit waits, because the job holds the source back"

    def poll(self, wall_ms: int) -> Event:
        """Poll the source; one that waited may make one version for each poll."""
        if self._waiting and not self._holds:
            self._waiting -= 1
            self.table.commit()
        return super().poll(wall_ms)

    def open(self, spec: BackfillSpec, stored: JobState | None, txn: int | None, wall_ms: int) -> OpenedSnapshot:
        """Pin the newest version, or the one that the state names."""
        plugin = self.plugin()
        progress = None if stored is None else plugin.decode(stored.progress)
        request = plugin.open_request(progress)
        assert isinstance(request, PinVersion)
        version = self.table.version if request.version is None else request.version
        files = self.table.layout(version)
        self._pinned_version = version
        pinned = Pinned(
            version=version,
            timestamp_ms=wall_ms,
            table_id="upstream",
            fingerprint=f"v{version}",
            rows=tuple(file.of for file in files),
            rows_live=sum(len(file.rows) for file in files),
            order=self._order(len(files)),
            bytes=tuple(100 * file.of for file in files),
            partitions=tuple(f"p={index % 3}" for index in range(len(files))),
        )
        opened = Opened(pinned, txn, proves_key=self.proves_key, decodes=self._decodes)
        self._opened = plugin.resume(spec, progress, opened)
        return self.attempt(version, self._opened)

    def plugin(self) -> StrategyPlugin[Any]:
        """Return the plug-in of the strategy."""
        return installed()[self._strategy]

    def attempt(self, version: int, strategy: Strategy) -> OpenedSnapshot:
        """Return an opened attempt."""
        return OpenedSnapshot(self, version, strategy)

    def _order(self, files: int) -> FileOrder | None:
        """Draw another order for each attempt, as a user may change it; every third world has none."""
        if not self._ordered:
            return None
        indexes = tuple(self._orders.sample(range(files), files))
        self.ordered += 1
        return FileOrder("at", "Descending", indexes, tuple(str(file) for file in indexes))

    # -------------------------------------------------------------- a stored state
    def starts_over(self, progress: Progress) -> bool:
        """Return false: each state is continued."""
        return False

    def expected(self, progress: Progress) -> Promise:
        """See `Model`."""
        stored = self.stored(progress)
        rows = self.rows_of(stored.version, stored.done if stored.copying else None, stored.consumed)
        if stored.parts is None:
            return Promise(rows)
        return Promise(stored.parts.mixed(rows, self.table.view(stored.parts.upto)))

    def rows_of(self, version: int, done: tuple[tuple[int, int], ...] | None, consumed: int) -> Counter[Row]:
        """Return the rows of a target: for some intervals of the pinned version, or for all of it with its changes."""
        if done is not None:
            return Counter(self._first_image(version, row) for row in self.table.covered(version, done))
        if self.mode != CHANGELOG:
            return self.table.view(consumed)
        rows: Counter[Row] = Counter(self._first_image(version, row) for row in self.table.view(version).elements())
        rows.update(self.table.logged(version, consumed))
        return rows

    def images(self, version: int, ranges: Iterable[FileRange]) -> list[Row]:
        """Return the rows of a target for some file ranges of the pinned version."""
        return [self._first_image(version, row) for row in self.table.read(version, ranges)]

    def _first_image(self, version: int, row: Row) -> Row:
        return (INSERT, version, *row) if self.mode == CHANGELOG else row

    def held(self, progress: Progress) -> Region:
        """Return the sealed rows of the pinned version, and the versions after it."""
        stored = self.stored(progress)
        done: list[Span] = [("rows", start, stop) for start, stop in stored.done]
        return Region.of(*done, held_versions(stored, stored.version))

    def check_forward(self, before: Progress, after: Progress) -> None:
        """Check that the pinned version stays, and that the phase does not go back."""
        old, new = self.stored(before), self.stored(after)
        demand(new.version == old.version, "the pinned version changed (R-SNAP-8)")
        demand(PHASES[new.phase] >= PHASES[old.phase], "the phase went back")
        self.check_parts(old, new)
        if old.copying and not new.copying:
            self._pending_upto = self.table.version

    def check_parts(self, old: Stored, new: Stored) -> None:
        """Check the position inside a batch of two successive states."""
        if old.parts is not None:
            self.parts += old.parts.check_forward(new.parts, (old.consumed, new.consumed))

    def check_end(self, progress: Progress) -> None:
        """Check that the job had caught up."""
        stored = self.stored(progress)
        demand(stored.parts is None, "complete between two parts")
        demand(stored.phase == LAST, "complete before it had caught up")
        demand(stored.consumed >= self._pending_upto, "complete without versions that were pending (R-SNAP-22, 29)")

    def check_key_proof(self, progress: Progress, merges: int) -> None:
        """Check that the proof covers only the snapshot: a MERGE before it may have hidden two rows with one key."""
        demand(merges == 0, "the key was proven after a MERGE")
        demand(not self.stored(progress).copying, "the key was proven before the snapshot was complete")

    # -------------------------------------------------------------- work
    def taken(self, work: Work) -> Region:
        """See `Model`."""
        if isinstance(work, ReadSplit):
            before = [0, *itertools.accumulate(file.of for file in self.table.layout(self._pinned_version))]
            return Region.of(
                *(("rows", before[part.file] + part.start, before[part.file] + part.stop) for part in work.ranges)
            )
        assert isinstance(work, ApplyChanges)
        return Region.of(taken_versions(work))

    def cost(self, progress: Progress, work: Work) -> Cost:
        """See `Model`; under a filter the number of passing rows is unknown, and the charge counts."""
        assert isinstance(work, ReadSplit)
        charged = work.stop - work.start
        version = self.stored(progress).version
        return Cost(charged, charged if self.filtered else len(self.table.read(version, work.ranges)))

    def check_start(self, progress: Progress, work: Work) -> None:
        """Check that a MERGE waits for the last row of the pinned version."""
        if self.txn_of(work) is not None:
            demand(not self.stored(progress).copying, "changes before the snapshot is sealed (R-SNAP-9)")

    def check_merge(self, progress: Progress, work: Work, txn: int) -> Promise:
        """Check that the newest seal announced it; return the target's rows at its last version, or after its part."""
        return Promise(merged(self.stored(progress), work, txn, self.table.view))


class OpenedSnapshot:
    """One attempt at a pinned version."""

    def __init__(self, model: SnapshotModel, version: int, strategy: Strategy) -> None:
        """Take the model, the version and the strategy."""
        self.strategy = strategy
        self._model, self._version = model, version

    def effect(self, work: Work) -> Effect:
        """See `Opened`."""
        if isinstance(work, ReadSplit):
            return self._read(work)
        assert isinstance(work, ApplyChanges)
        return self._apply(work)

    def _read(self, work: ReadSplit) -> Staging:
        table = self._model.table
        self._model.cuts += work.stop - work.start >= SPLIT_ROWS_MIN and any(
            part.stop < part.of for part in work.ranges
        )
        segments = tuple(self._model.images(self._version, ranges) for ranges in work.segment_ranges)
        read = sum(len(rows) for rows in segments)
        demand(read == len(table.read(self._version, work.ranges)), "the segments of a split are not the split")

        def answer(files: tuple[StagedFile, ...]) -> SplitStaged:
            return SplitStaged(work.work_id, files)

        return Staging(segments, answer)

    def _apply(self, work: ApplyChanges) -> Effect:
        table, mode = self._model.table, self._model.mode
        if mode == UPSERT:
            cuts = cut(work, table.net(work.after, work.upto))
            if cuts:
                return Filing(lambda _, __: ChangesCut(work.work_id, BY_KEY, cuts))
            net = {key: row for key, row in table.net(work.after, work.upto).items() if in_part(work.part, key)}
            return Merging(work.txn_version, net, lambda changes: ChangesApplied(work.work_id, changes))
        rows: list[Row] = table.logged(work.after, work.upto)
        if mode == APPEND:
            rows = [(key, value) for _, _, key, value in rows if table.passes(value)]
        return Staging((rows,), lambda files: ChangesApplied(work.work_id, len(rows), files))

    def wanted(self, work: Verify) -> Promise:
        """See `Opened`."""
        return Promise(self._model.rows_of(self._version, work.covered, work.position))


MODEL = SnapshotModel
