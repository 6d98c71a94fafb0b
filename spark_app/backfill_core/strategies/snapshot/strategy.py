"""Snapshot backfill as a machine: copies one pinned version in splits, replays the changes after it, follows.

phase      work                              ends when                                   then
--------   -------------------------------   -----------------------------------------   --------
Snapshot   splits of the row index           every row of it is in a commit              CatchUp
CatchUp    the proof of the key, where it    a batch took all that was pending at its    Live
           is due, then batches of changes   start, or nothing was pending
Live       batches of changes                never; `complete` says when Exit may exit

How splits, proof and batches follow each other is `phases/copy_replay.py`.
"""

from __future__ import annotations

from backfill_api.spec.spec import BackfillSpec
from backfill_core.phases.copied_state import CopiedState
from backfill_core.phases.copy_replay import CopyReplay
from backfill_core.phases.replay import CatchUpEnd
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import SourcePolled, StrategyEvent
from backfill_core.protocol.strategy import CommitRequest, Opened, Permits, StrategyStatus, StrategyView
from backfill_core.protocol.work import Work
from backfill_core.strategies.snapshot.params import SnapshotSettings
from backfill_core.strategies.snapshot.stored import CATCH_UP, LIVE, SNAPSHOT, SnapshotStored


class SnapshotStrategy:
    """See the module; satisfies `protocol.strategy.Strategy`."""

    def __init__(self, opened: Opened, settings: SnapshotSettings, stored: SnapshotStored | None = None) -> None:
        """Begin, or go on from what an earlier attempt committed.

        Raises:
            StateMismatchError: the pinned version is not made of the same files any more.
        """
        self._pinned = opened.pinned if stored is None else stored.copied.recall(opened.pinned)
        self._machine = CopyReplay(
            opened,
            self._pinned,
            settings,
            limit=settings.limit,
            end=CatchUpEnd.WITH_ITS_COMMIT if settings.limit == "EpochTime" else CatchUpEnd.AFTER_ITS_COMMIT,
            key_proven=stored is not None and stored.key_proven,
        )
        self._copy, self._replay = self._machine.copy, self._machine.replay
        self._was_live = stored is not None and stored.phase == LIVE
        if stored is not None:
            # Then the first version that is not consumed (R-SNAP-39).
            stored.copied.resume(self._copy, self._pinned)
            self._replay.resume(stored.consumed, stored.merging, opened.last_txn)
        self._replay.pending.know(opened.pinned.version, opened.pinned.timestamp_ms)

    # -------------------------------------------------------------- what the job asks
    @property
    def phase(self) -> str:
        """The phase of the state that the next commit stores."""
        if not self._copy.complete:
            return SNAPSHOT
        return LIVE if self._was_live or self._replay.caught_up else CATCH_UP

    @property
    def stored(self) -> SnapshotStored:
        """See `Strategy`."""
        return SnapshotStored(
            copied=CopiedState.of(self._copy, self._pinned),
            phase=self.phase,
            consumed=self._replay.consumed,
            merging=self._replay.announced,
            key_proven=self._machine.key_proven,
        )

    @property
    def status(self) -> StrategyStatus:
        """See `Strategy`."""
        # The copy keeps no writer waiting (R-SNAP-10), and what follows the source goes at its pace.
        waits = self._copy.complete and not self._replay.caught_up and not self._replay.pending.admits
        return self._machine.status(holds_source=waits)

    # -------------------------------------------------------------- what the job tells
    def on(self, event: StrategyEvent, now: Now) -> None:
        """See `Strategy`."""
        if not isinstance(event, SourcePolled):
            self._replay.pending.settle()
        self._machine.on(event, now)

    def propose(self, permits: Permits, now: Now) -> tuple[Work, ...]:
        """See `Strategy`."""
        return self._machine.propose(permits, now)

    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """See `Strategy`."""
        return self._machine.prepare_commit(epoch, permits, now, forgets_polls=True)

    def view(self, now: Now) -> StrategyView:
        """See `Strategy`."""
        return self._machine.view(self.phase, self._machine.doing(), now)


def resume(spec: BackfillSpec, stored: SnapshotStored | None, opened: Opened) -> SnapshotStrategy:
    """Make the machine of an attempt."""
    return SnapshotStrategy(opened, SnapshotSettings.of(spec), stored)
