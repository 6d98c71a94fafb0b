"""State machine of Snapshot: copies one pinned version in splits, replays the changes after it, and follows the source.

phase      work                              ends when                                   next
--------   -------------------------------   -----------------------------------------   --------
Snapshot   splits of the row index           every row of it is in a commit              CatchUp
CatchUp    the proof of the key, if it is    a batch took all changes that were          Live
           due, then batches of changes      pending at its start, or none were pending
Live       batches of changes                never; Exit may exit once `complete` is set

`phases/copy_replay.py` defines the sequence of splits, proof and batches.
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
    """State machine of Snapshot, see the module; implements `protocol.strategy.Strategy`."""

    def __init__(self, opened: Opened, settings: SnapshotSettings, stored: SnapshotStored | None = None) -> None:
        """Start a new job, or resume the committed state of an earlier attempt.

        Raises:
            StateMismatchError: The pinned version no longer consists of the same files.
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
            # The replay resumes at the first version that is not consumed (R-SNAP-39).
            stored.copied.resume(self._copy, self._pinned)
            self._replay.resume(stored.consumed, stored.merging, opened.last_txn)
        self._replay.pending.know(opened.pinned.version, opened.pinned.timestamp_ms)

    # -------------------------------------------------------------- state
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
        # The copy blocks no writer (R-SNAP-10), and a job that follows the source keeps its pace.
        waits = self._copy.complete and not self._replay.caught_up and not self._replay.pending.admits
        return self._machine.status(holds_source=waits)

    # -------------------------------------------------------------- events, work and commits
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
    """Create the state machine of an attempt."""
    return SnapshotStrategy(opened, SnapshotSettings.of(spec), stored)
