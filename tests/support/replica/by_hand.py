"""A replica driven by hand: only its strategy, with every commit and answer when the test gives it."""

from __future__ import annotations

from typing import Self

from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import Head, Sealed, SourcePolled, StrategyEvent, WorkFinished
from backfill_core.protocol.strategy import CommitRequest, Opened, Permits, Pinned
from backfill_core.protocol.work import (
    NewColumns,
    ReadSplit,
    RemovedFile,
    ShipVersions,
    SplitStaged,
    StagedFile,
    VersionsShipped,
    Work,
)
from backfill_core.strategies.replica.params import ReplicaSettings
from backfill_core.strategies.replica.stored import ReplicaStored
from backfill_core.strategies.replica.strategy import replica

WALL_MS = 1_700_000_000_000


def pinned(*rows: int) -> Pinned:
    """Return version 3 of a table whose files have these numbers of rows."""
    return Pinned(3, WALL_MS, "table", "files", rows, sum(rows))


class ByHand:
    """One attempt over files with these numbers of rows."""

    def __init__(
        self,
        *rows: int,
        follow: bool = False,
        stored: ReplicaStored | None = None,
        pinned: Pinned = pinned(),
    ) -> None:
        """Begin, or resume from a state."""
        version = pinned if pinned.rows else Pinned(3, WALL_MS, "table", "files", rows, sum(rows))
        settings = ReplicaSettings(merges=False, filtered=False, follow=follow, whole_files=True, reads_ahead=False)
        self.strategy = replica(Opened(version), settings, stored)
        self.epoch, self.now, self._next_id, self._version = Epoch(1, 1), Now(0.0, WALL_MS), 1, 0

    def on(self, event: StrategyEvent) -> None:
        """Send an event to the strategy."""
        self.strategy.on(event, self.now)

    def permits(self, *, changes: bool = True) -> Permits:
        """Return the permits for new work."""
        return Permits(history=True, changes=changes, checks=True, epoch=self.epoch, first_id=self._next_id)

    def propose(self, *, changes: bool = True) -> tuple[Work, ...]:
        """Return the work that the strategy starts now."""
        work = self.strategy.propose(self.permits(changes=changes), self.now)
        self._next_id += len(work)
        return work

    def poll(self, version: int) -> None:
        """Report the newest version to the strategy."""
        self.on(SourcePolled(Head(version, WALL_MS + version)))

    def prepare(self) -> CommitRequest:
        """Prepare a commit."""
        request = self.strategy.prepare_commit(self.epoch, self.permits(), self.now)
        self.epoch = self.epoch.after()
        return request

    def seal(self) -> Self:
        """Make the last prepared commit durable."""
        self._version += 1
        self.on(Sealed(self.epoch.number, self._version, 0.1))
        return self

    # ------------------------------------------------------------------ work
    def staged(self, work: Work) -> None:
        """Stage a split as one file."""
        assert isinstance(work, ReadSplit)
        rows = work.stop - work.start
        self.on(WorkFinished(SplitStaged(work.work_id, (StagedFile(f"s{work.work_id}", rows, rows),))))

    def copy_all(self) -> Self:
        """Stage all of history, and prepare its commit."""
        while splits := self.propose():
            for split in splits:
                self.staged(split)
        self.prepare()
        return self

    def live(self) -> Self:
        """Make all of history durable."""
        return self.copy_all().seal()

    def ship(self, version: int) -> ShipVersions:
        """Report a version, and begin the batch that reaches it."""
        self.poll(version)
        (work,) = self.propose()
        assert isinstance(work, ShipVersions)
        return work

    def shipped(
        self,
        work: ShipVersions,
        *,
        upto: int | None = None,
        files: tuple[StagedFile, ...] = (),
        removed: tuple[RemovedFile, ...] = (),
        changes: int = 0,
        columns: NewColumns | None = None,
    ) -> None:
        """Stage a batch."""
        self.on(WorkFinished(VersionsShipped(work.work_id, upto or work.upto, files, removed, changes, columns)))

    def doing(self, version: int) -> str:
        """Begin the batch that reaches a version, and return the reason that users see."""
        self.ship(version)
        return self.strategy.view(self.now).reason
