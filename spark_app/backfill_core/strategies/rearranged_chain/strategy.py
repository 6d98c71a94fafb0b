"""State machine of the rearranged chain: copies one pinned version, then applies changes, while barriers overtake the data.

phase         work                                      ends when                                       next
-----------   ---------------------------------------   ---------------------------------------------   ----------
Rearranging   splits of the row index; then batches     the data reaches the phantom of the newest      Draining
              of changes as fast as possible            barrier (R-CHAIN-8)
Draining      the versions that were seen by then       they are in the target, and the next barrier    Forwarding
                                                        commits that the job caught up (R-CHAIN-11)
Forwarding    batches of changes                        never; Exit may exit once `complete` is set

Barriers do not wait for data, so a barrier may close an epoch before its data arrives; its phantom marks its position in the data.
If the source changes faster than batches are applied, the data never reaches the newest phantom (#5790). Then the lag does not fall,
and the condition `NonConvergent` is set. An attempt never resumes in Rearranging or Draining (`stored.open_request`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_api.spec.spec import BackfillSpec
from backfill_core.phases.copy_replay import CopyReplay
from backfill_core.phases.replay import CatchUpEnd
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import BarrierPassed, Sealed, SourcePolled, StrategyEvent
from backfill_core.protocol.strategy import CommitRequest, Opened, Permits, StrategyStatus, StrategyView
from backfill_core.protocol.work import Work
from backfill_core.strategies.rearranged_chain.params import ChainSettings
from backfill_core.strategies.rearranged_chain.phantoms import Phantom, PhantomQueue, overtaken
from backfill_core.strategies.rearranged_chain.stored import DRAINING, FORWARDING, REARRANGING, ChainStored


@dataclass(frozen=True, slots=True)
class Rearranging:
    """Barriers overtake the data."""

    queue: PhantomQueue


@dataclass(frozen=True, slots=True)
class DrainingChain:
    """The data reached the newest barrier; versions up to `upto` are still missing, and no further barrier is reported."""

    upto: int


@dataclass(frozen=True, slots=True)
class Forwarding:
    """The job has caught up at least once."""


ChainStage = Rearranging | DrainingChain | Forwarding


class RearrangedChain:
    """State machine of the rearranged chain, see the module; implements `protocol.strategy.Strategy`."""

    def __init__(self, opened: Opened, settings: ChainSettings, stored: ChainStored | None = None) -> None:
        """Start at the pinned version (R-CHAIN-3), or resume a job that caught up, without a snapshot (R-CHAIN-2)."""
        # Files are read in path order: this strategy has no order parameter.
        self._pinned = pinned = replace(opened.pinned if stored is None else stored.recall(opened.pinned), order=None)
        self._machine = CopyReplay(
            opened,
            pinned,
            settings,
            limit="Barriers",
            end=CatchUpEnd.BY_ITS_OWNER,
            key_proven=stored is not None and stored.key_proven,
        )
        self._copy, self._replay = self._machine.copy, self._machine.replay
        self._barrier = 0
        """Epoch of the newest barrier."""

        self._reached: Phantom | None = None
        # The fence leaves the first phantom (R-CHAIN-1). If the source is quiet, it stays the only one, after the snapshot (R-CHAIN-9).
        self._stage: ChainStage = Rearranging(PhantomQueue(settings.queue_max, (Phantom(0, pinned.version),)))
        if stored is not None:
            self._resume(stored, opened.last_txn)
        self._there = self._replay.consumed
        """The version whose changes are durable in the target."""

    def _resume(self, stored: ChainStored, last_txn: int | None) -> None:
        self._copy.resume(stored.done, stored.rows_read, stored.splits, stored.rows_filtered)
        self._replay.resume(stored.consumed, stored.merging, last_txn, stored.parts)
        self._forward()

    def _forward(self) -> None:
        self._stage = Forwarding()
        self._replay.catch_up()

    # -------------------------------------------------------------- state
    @property
    def phase(self) -> str:
        """The phase of the state that the next commit stores."""
        match self._stage:
            case Rearranging():
                return REARRANGING
            case DrainingChain():
                return DRAINING
            case Forwarding():
                return FORWARDING

    @property
    def stored(self) -> ChainStored:
        """See `Strategy`."""
        copy, pinned = self._copy, self._pinned
        return ChainStored(
            version=pinned.version,
            table_id=pinned.table_id,
            fingerprint=pinned.fingerprint,
            rows=copy.total,
            rows_read=copy.rows,
            rows_live=pinned.rows_live,
            rows_filtered=copy.rows_filtered_prepared,
            splits=copy.splits,
            phase=self.phase,
            done=copy.prepared,
            consumed=self._replay.consumed,
            merging=self._replay.announced,
            key_proven=self._machine.key_proven,
            parts=self._replay.parts,
        )

    @property
    def status(self) -> StrategyStatus:
        """See `Strategy`."""
        stage = self._stage
        return self._machine.status(holds_source=isinstance(stage, Rearranging) and stage.queue.full)

    # -------------------------------------------------------------- events
    def on(self, event: StrategyEvent, now: Now) -> None:
        """See `Strategy`."""
        self._machine.on(event, now)
        match event:
            case BarrierPassed(epoch=epoch, scheduled=True):
                self._barrier = epoch.number
            case SourcePolled(head=head):
                self._leave_phantom(head.position)
            case Sealed():
                self._there = self._replay.consumed
            case _:
                pass
        self._look_for_phantoms()

    def _leave_phantom(self, newest: int) -> None:
        """Add the phantom of the newest barrier after the newest polled version of the source."""
        if isinstance(self._stage, Rearranging):
            self._stage = Rearranging(self._stage.queue.leave(Phantom(self._barrier, newest)))

    def _look_for_phantoms(self) -> None:
        """Remove the phantoms whose data is durable; the first one requires the whole snapshot (R-CHAIN-6)."""
        head = self._replay.head
        if not isinstance(self._stage, Rearranging) or head is None or self._copy.sealed.size < self._copy.total:
            return
        queue, reached = self._stage.queue.reach(self._there)
        self._reached, self._stage = reached or self._reached, Rearranging(queue)
        if reached is not None and reached.epoch >= self._barrier:
            self._stage = DrainingChain(head.position)

    # -------------------------------------------------------------- choosing work
    def propose(self, permits: Permits, now: Now) -> tuple[Work, ...]:
        """See `Strategy`."""
        return self._machine.propose(permits, now)

    # -------------------------------------------------------------- committing
    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """See `Strategy`; the first barrier after the drained versions commits that the job caught up (R-CHAIN-10)."""
        if isinstance(self._stage, DrainingChain) and self._there >= self._stage.upto:
            self._forward()
        return self._machine.prepare_commit(epoch, permits, now, forgets_polls=False)

    # -------------------------------------------------------------- view
    def view(self, now: Now) -> StrategyView:
        """See `Strategy`."""
        activity = self._machine.doing()
        if isinstance(self._stage, Rearranging):
            activity = "; ".join(filter(None, (activity, overtaken(self._reached, self._barrier, self._stage.queue))))
        return self._machine.view(self.phase, activity, now)


def resume(spec: BackfillSpec, stored: ChainStored | None, opened: Opened) -> RearrangedChain:
    """Create the state machine of an attempt; a stored state is always in Forwarding (`open_request`)."""
    return RearrangedChain(opened, ChainSettings.of(spec), stored)
