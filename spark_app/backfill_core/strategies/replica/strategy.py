"""Replica as a machine: copies the files of one pinned version, then ships what the source's log says of its files.

phase      work                              ends when                                   then
--------   -------------------------------   -----------------------------------------   --------
Snapshot   splits of the row index           every row of it is in a commit              CatchUp
CatchUp    batches of versions, one after    a batch took all that was pending at its    Live
           the other is durable              start, or nothing was pending
Live       the same                          never; `complete` says when Exit may exit

How splits and batches follow each other is `phases/copy_replay.py`. A batch takes files of the target out, so it starts once all that
was prepared before it is durable. It is staged, and the next commit takes it whole, with the version that it brings the target to.
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
    """See the module; satisfies `protocol.strategy.Strategy`."""

    def __init__(self, opened: Opened, settings: ReplicaSettings, stored: ReplicaStored | None = None) -> None:
        """Begin, or go on from what an earlier attempt committed.

        Raises:
            StateMismatchError: the pinned version is not made of the same files any more.
            SourceReplacedError: another table is in the source's place.
        """
        if stored is not None and stored.laid_out is not None and opened.pinned.table_id != stored.copied.table_id:
            raise SourceReplacedError(
                f"the source is another table than when version {stored.copied.version} was pinned.",
                hint="It was dropped and made again: give the job another jobId and another target.",
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

    # -------------------------------------------------------------- what the job asks
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

    # -------------------------------------------------------------- what the job tells
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
    """Make the machine of an attempt."""
    return ReplicaStrategy(opened, ReplicaSettings.of(spec), stored)
