"""The promises of a replica: one pinned version in intervals of its rows, then exactly the rows of the last shipped version.

Only the name of a target's file links it to its source file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import ClassVar

from support.replica.filed_table import REARRANGING, FiledTable
from support.simulation.batch_parts import KEYS_MAX
from support.simulation.law import demand
from support.simulation.model import Cost, Effect, Filing, Progress
from support.simulation.models.snapshot import COPYING, OpenedSnapshot, SnapshotModel, Stored
from support.simulation.region import Region
from support.simulation.scenario import Scenario
from support.simulation.tables import Row
from support.tables.jobs import job

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import TargetChangedError
from backfill_core.protocol.strategy import Strategy
from backfill_core.protocol.work import (
    ReadSplit,
    RemovedFile,
    ShipVersions,
    SplitStaged,
    StagedFile,
    VersionsShipped,
    Work,
)

FILES = "Files"
"""Its mode: files are added and removed as in the source."""

KEPT, LOST = "kept", "lost"
"""Prefixes of a target file's name: rows keep their positions in the source's file, or lose them."""

ROW_BYTES = 10


class ReplicaModel(SnapshotModel):
    """The promises in one world; see the module."""

    MODES: ClassVar[tuple[str, ...]] = (FILES,)
    WORTH: ClassVar[Mapping[str, int]] = {
        "crashes": 100,
        "stops": 30,
        "receipts": 60,
        "seals": 1000,
        "splits": 400,
        "acks": 400,
        "began_paused": 40,
        "versions": 1000,
        "rearranged": 200,
        "restored": 80,
        "ordered": 200,
        "batches": 130,
        "removed": 300,
        "marked": 120,
        "redone": 60,
        "ended_early": 30,
    }

    AHEAD_RATE: ClassVar[int | None] = None

    def __init__(self, given: Scenario) -> None:
        """Make the source."""
        super().__init__(given)
        self.table: FiledTable = FiledTable(given.seed, rows=given.rows, sparse=given.sparse, filtered=self.filtered)
        self.removed = self.marked = self.redone = self.ended_early = 0

    @staticmethod
    def spec(given: Scenario) -> BackfillSpec:
        """See `Model`."""
        where = {"transform": {"where": "value > 0"}} if given.filters else {}
        return job("/source", "/target", strategy={"type": "Replica"}, **where).spec

    def attempt(self, version: int, strategy: Strategy) -> OpenedReplica:
        """See `SnapshotModel`."""
        return OpenedReplica(self, version, strategy)

    @staticmethod
    def stored(progress: Progress) -> Stored:
        """Read the stored form."""
        done = tuple((start, stop) for start, stop in progress["done"])
        phase = progress["phase"]
        return Stored(progress["version"], phase, done, progress["shipped"], None, copying=phase == COPYING)

    @property
    def met(self) -> Mapping[str, int]:
        """Return the counts of source commits, and of the fates of their files in the target."""
        made = self.table.made
        return {
            "versions": self.table.version,
            "ordered": self.ordered,
            "rearranged": sum(made.get(kind, 0) for kind in REARRANGING),
            "restored": made.get("restore", 0),
            "removed": self.removed,
            "marked": self.marked,
            "redone": self.redone,
            "ended_early": self.ended_early,
        }

    # -------------------------------------------------------------- a stored state
    def check_forward(self, before: Progress, after: Progress) -> None:
        """Check that the pinned version stays, and that nothing is shipped before its last row."""
        super().check_forward(before, after)
        new = self.stored(after)
        demand(new.consumed == new.version or not new.copying, "the log is shipped before history is complete")

    # -------------------------------------------------------------- work
    def cost(self, progress: Progress, work: Work) -> Cost:
        """Return no charge: a limit admits a file of any size when none is owed."""
        return replace(super().cost(progress, work), charged=0)

    def taken(self, work: Work) -> Region:
        """See `Model`."""
        if not isinstance(work, ShipVersions):
            return super().taken(work)
        return Region.of(("versions", work.after * KEYS_MAX, work.upto * KEYS_MAX))

    def check_start(self, progress: Progress, work: Work) -> None:
        """Check that the log is shipped from the target's version, once history is durable."""
        if isinstance(work, ReadSplit):
            demand(all(part.whole for part in work.ranges), "a file is cut, whose name a version may take out")
        if isinstance(work, ShipVersions):
            stored = self.stored(progress)
            demand(not stored.copying, "the log is shipped before history is durable")
            demand(work.after == stored.consumed, "the log is not shipped from the target's version")


class OpenedReplica(OpenedSnapshot):
    """One attempt at a pinned version."""

    def __init__(self, model: ReplicaModel, version: int, strategy: Strategy) -> None:
        """Take the model, the version and the strategy."""
        super().__init__(model, version, strategy)
        self._replica = model

    def effect(self, work: Work) -> Effect:
        """See `Opened`."""
        if isinstance(work, ReadSplit):
            split = work
            return Filing(lambda _, folder: self._copy(split, folder))
        assert isinstance(work, ShipVersions)
        batch = work
        return Filing(lambda held, folder: self._ship(batch, held, folder))

    def _copy(self, work: ReadSplit, folder: str) -> SplitStaged:
        """Make a file of each part of a file; rows keep their positions only if the file is whole."""
        table, version = self._replica.table, self._version
        names, files = table.names(version), list[StagedFile]()
        for segment, ranges in enumerate(work.segment_ranges):
            for part in ranges:
                order = KEPT if part.whole and not self._replica.filtered else LOST
                made = _made(f"{folder}/{segment}", order, names[part.file], table.read(version, [part]))
                files += [replace(file, segment=segment) for file in made]
        return SplitStaged(work.work_id, tuple(files))

    def _ship(self, work: ShipVersions, held: Mapping[str, Sequence[Row]], folder: str) -> VersionsShipped:
        """Compare the files of two source versions, and apply the difference to the target's files with their names."""
        model, table = self._replica, self._replica.table
        upto = work.upto
        if Random(f"{work.after}/{folder}").random() < 0.5:
            upto = Random(f"{work.after}/{upto}").randint(work.after + 1, upto)
        model.ended_early += upto < work.upto
        before, after = table.files[work.after], table.files[upto]
        files, removed = list[StagedFile](), list[str]()
        for name, file in before.items():
            if after.get(name) == file:
                continue
            existing = [path for path in held if path.split("/")[-1].split("-")[1] == name]
            expected = table.passing(work.after, name)
            if expected and not existing:
                # A lost attempt that still works finds the files of the one that took over.
                raise TargetChangedError(f"the target has no file of {name}")
            removed += existing
            model.removed += name not in after
            if name in after:
                files += self._marked(name, table.passing(upto, name), existing, folder)
        for name in after.keys() - before.keys():
            order = LOST if model.filtered else KEPT
            files += _made(folder, order, name, table.passing(upto, name))
        changes = (table.view(upto) - table.view(work.after)) + (table.view(work.after) - table.view(upto))
        return VersionsShipped(
            work.work_id, upto, tuple(files), tuple(RemovedFile(path) for path in removed), changes.total()
        )

    def _marked(self, name: str, rows: Sequence[Row], existing: Sequence[str], folder: str) -> list[StagedFile]:
        """Hide rows of a file that stays; if the target's rows have other positions, copy the file again."""
        if [path.split("/")[-1].split("-")[0] for path in existing] == [KEPT]:
            self._replica.marked += 1
            return [_staged(existing[0], rows)]
        self._replica.redone += bool(existing)
        return _made(folder, LOST, name, rows)


def _made(folder: str, order: str, name: str, rows: Sequence[Row]) -> list[StagedFile]:
    return [_staged(f"{folder}/{order}-{name}", rows)] if rows else []


def _staged(path: str, rows: Sequence[Row]) -> StagedFile:
    return StagedFile(path, ROW_BYTES * len(rows), len(rows), tuple(rows))


MODEL = ReplicaModel
