"""State machine of Replica: copies the files of one pinned version, then ships the file actions of the source's log.

phase      work                              ends when                                   next
--------   -------------------------------   -----------------------------------------   --------
Snapshot   splits of the row index           every row of it is in a commit              CatchUp
CatchUp    batches of versions; each waits   a batch took all versions that were         Live
           until the last one is durable     pending at its start, or none were pending
Live       the same                          never; Exit may exit once `complete` is set

`phases/copy_replay.py` defines the sequence of splits and batches. A batch removes files of the target, so it starts after all earlier
work is durable. A batch is staged; the next commit contains it completely, with the version that the target then has.
"""

from __future__ import annotations

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import SourceReplacedError
from backfill_core.phases.copied_state import CopiedState
from backfill_core.phases.copy_replay import CopyReplay
from backfill_core.phases.replay import CatchUpEnd
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import StrategyEvent
from backfill_core.protocol.strategy import CommitRequest, Opened, Permits, StrategyStatus, StrategyView
from backfill_core.protocol.work import Work
from backfill_core.strategies.replica.params import ReplicaSettings
from backfill_core.strategies.replica.stored import CATCH_UP, LIVE, SNAPSHOT, ReplicaStored


class ReplicaStrategy:
    """State machine of Replica, see the module; implements `protocol.strategy.Strategy`."""

    def __init__(self, opened: Opened, settings: ReplicaSettings, stored: ReplicaStored | None = None) -> None:
        """Start a new job, or resume the committed state of an earlier attempt.

        Raises:
            StateMismatchError: The pinned version no longer consists of the same files.
            SourceReplacedError: Another table is at the source's path.
        """
        if stored is not None and stored.laid_out is not None and opened.pinned.table_id != stored.copied.table_id:
            raise SourceReplacedError(
                f"the source was replaced by another table after version {stored.copied.version} was pinned.",
                hint="It was dropped and created again: give the job another jobId and another target.",
            )
        self._pinned = opened.pinned if stored is None else stored.copied.recall(opened.pinned)
        self._machine = CopyReplay(
            opened, self._pinned, settings, limit="Barriers", end=CatchUpEnd.WITH_ITS_COMMIT, key_proven=True
        )
        self._copy, self._replay = self._machine.copy, self._machine.replay
        self._was_live = stored is not None and stored.phase == LIVE
        self._laid_out = None if stored is None else stored.laid_out
        if stored is not None:
            stored.copied.resume(self._copy, self._pinned)
            self._replay.resume(stored.shipped, None, None)

    # -------------------------------------------------------------- state
    @property
    def phase(self) -> str:
        """The phase of the state that the next commit stores."""
        if not self._copy.complete:
            return SNAPSHOT
        return LIVE if self._was_live or self._replay.caught_up else CATCH_UP

    @property
    def stored(self) -> ReplicaStored:
        """See `Strategy`."""
        copied = CopiedState.of(self._copy, self._pinned)
        return ReplicaStored(copied, self.phase, self._replay.consumed, self._laid_out)

    @property
    def status(self) -> StrategyStatus:
        """See `Strategy`."""
        return self._machine.status(holds_source=False)

    # -------------------------------------------------------------- events, work and commits
    def on(self, event: StrategyEvent, now: Now) -> None:
        """See `Strategy`."""
        self._machine.on(event, now)

    def propose(self, permits: Permits, now: Now) -> tuple[Work, ...]:
        """See `Strategy`."""
        return self._machine.propose(permits, now)

    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """See `Strategy`."""
        request = self._machine.prepare_commit(epoch, permits, now, forgets_polls=True)
        if request.columns is not None and request.columns.reopens:
            self._laid_out = self._replay.consumed
        return request

    # -------------------------------------------------------------- view
    def view(self, now: Now) -> StrategyView:
        """See `Strategy`."""
        return self._machine.view(self.phase, self._machine.doing(), now)


def resume(spec: BackfillSpec, stored: ReplicaStored | None, opened: Opened) -> ReplicaStrategy:
    """Create the state machine of an attempt."""
    return ReplicaStrategy(opened, ReplicaSettings.of(spec), stored)
