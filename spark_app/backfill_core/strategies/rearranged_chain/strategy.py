"""The rearranged chain as a machine: copies one pinned version, then applies the changes after it, and barriers overtake both.

phase         work                                      ends when                                       then
-----------   ---------------------------------------   ---------------------------------------------   ----------
Rearranging   splits of the row index; then batches     the phantom that is reached is that of the      Draining
              of changes as fast as they can be had     newest barrier (R-CHAIN-8)
Draining      the versions that were seen by then       they are there, and the next barrier commits    Forwarding
                                                        that the job has caught up (R-CHAIN-11)
Forwarding    batches of changes                        never; `complete` says when Exit may exit

No barrier waits for data, so it can close an epoch whose data comes later; its phantom tells where it would have stood. A source
that changes faster than batches are applied keeps the newest phantom ahead for ever (#5790): then the lag does not fall, and
`NonConvergent` says so. An attempt never goes on with Rearranging or Draining (`stored.open_request`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import AccountingError, BackfillError
from backfill_core.job.steps import CATCH_UP, COPY, KEY_PROOF
from backfill_core.phases import view
from backfill_core.phases.copy import Copy
from backfill_core.phases.key_proof import Due, KeyProof, ProofRunning, Proven
from backfill_core.phases.replay import CatchUpEnd, Replay
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import (
    BarrierPassed,
    LimitSet,
    Sealed,
    SourcePolled,
    StrategyEvent,
    WorkFinished,
    WorkLost,
)
from backfill_core.protocol.strategy import CommitRequest, Opened, Permits, StrategyStatus, StrategyView
from backfill_core.protocol.work import ChangesApplied, KeyProven, ProveKey, SplitStaged, Work
from backfill_core.strategies.rearranged_chain.params import ChainSettings
from backfill_core.strategies.rearranged_chain.phantoms import Phantom, PhantomQueue
from backfill_core.strategies.rearranged_chain.stored import (
    DRAINING,
    FORWARDING,
    REARRANGING,
    ChainStored,
)
from backfill_core.strategies.rearranged_chain.view import overtaken


@dataclass(frozen=True, slots=True)
class Rearranging:
    """Barriers overtake the data."""

    queue: PhantomQueue


@dataclass(frozen=True, slots=True)
class Draining:
    """The newest barrier was reached; what was seen by then is still to come, and no barrier is said to be passed before it."""

    upto: int


@dataclass(frozen=True, slots=True)
class Forwarding:
    """The job has caught up once."""


Way = Rearranging | Draining | Forwarding


class RearrangedChain:
    """See the module; satisfies `protocol.strategy.Strategy`."""

    def __init__(self, opened: Opened, settings: ChainSettings, stored: ChainStored | None = None) -> None:
        """Begin at the pinned version (R-CHAIN-3), or go on behind the end of catching up, and read no snapshot (R-CHAIN-2)."""
        self._settings = settings
        self._pinned = pinned = opened.pinned if stored is None else stored.recall(opened.pinned)
        self._copy = Copy(pinned.rows, settings.copy)
        self._replay = Replay(
            pinned.version,
            merges=settings.merges,
            follow=settings.follow,
            batch_target_s=settings.batch_target_s,
            limit="Barriers",
            end=CatchUpEnd.BY_ITS_OWNER,
        )
        self._barrier = 0
        """Epoch of the newest barrier."""

        self._reached: Phantom | None = None
        # The fence leaves first (R-CHAIN-1). With a quiet source its phantom is the only one, right behind the snapshot (R-CHAIN-9).
        self._way: Way = Rearranging(PhantomQueue(settings.queue_max, (Phantom(0, pinned.version),)))
        proven = opened.key_proven or (stored is not None and stored.key_proven)
        self._key: KeyProof = Due() if opened.proves_key and not proven else Proven(proven)
        self._steps = (COPY, *((KEY_PROOF,) if isinstance(self._key, Due) else ()), CATCH_UP)
        self._prepared_at = self._sealed_at = self._table_version = -1
        if stored is not None:
            self._go_on(stored, opened.last_txn)
        self._there = self._replay.consumed
        """The version whose changes are durable in the target."""

    def _go_on(self, stored: ChainStored, last_txn: int | None) -> None:
        self._copy.resume(stored.done, stored.rows_read, stored.splits)
        self._replay.resume(stored.consumed, stored.merging, last_txn)
        self._forward()

    def _forward(self) -> None:
        self._way = Forwarding()
        self._replay.catch_up()

    # -------------------------------------------------------------- what the job asks
    @property
    def phase(self) -> str:
        """The phase of the state that the next commit stores."""
        match self._way:
            case Rearranging():
                return REARRANGING
            case Draining():
                return DRAINING
            case Forwarding():
                return FORWARDING

    @property
    def _dirty(self) -> bool:
        """Does the newest durable commit not say everything?"""
        return self._copy.revision + self._replay.revision != self._sealed_at

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
            splits=copy.splits,
            phase=self.phase,
            done=copy.prepared,
            consumed=self._replay.consumed,
            merging=self._replay.announced,
            key_proven=isinstance(self._key, Proven) and self._key.stored,
        )

    @property
    def status(self) -> StrategyStatus:
        """See `Strategy`."""
        copy, replay, dirty = self._copy, self._replay, self._dirty
        follow, copied, due = self._settings.follow, copy.complete, not isinstance(self._key, Proven)
        ends = replay.caught_up and dirty and not follow
        way = self._way
        return StrategyStatus(
            covered=None if copied else copy.sealed.spans,
            consumed=replay.consumed if copied else None,
            position=replay.consumed,
            history_complete=copied,
            caught_up=replay.caught_up,
            complete=replay.caught_up and replay.idle and not dirty and not follow,
            step=COPY if not copied else KEY_PROOF if due else CATCH_UP,
            steps=self._steps,
            # A finished MERGE is committed at once: the target is ahead of its state.
            wants_commit=replay.applied or (ends if copied else copy.all_staged),
            wants_announcement=copied and not due and replay.wants_announcement(dirty=dirty),
            blocks_commit=replay.merging,
            failure=self._failure(),
            holds_source=isinstance(way, Rearranging) and way.queue.full,
        )

    def _failure(self) -> BackfillError | None:
        """Return the error of a complete snapshot with another number of rows than the source has."""
        copy, pinned = self._copy, self._pinned
        if not copy.complete or self._settings.filtered or copy.rows == pinned.rows_live:
            return None
        return AccountingError(
            f"the snapshot of version {pinned.version} committed {copy.rows} rows, the source has {pinned.rows_live}.",
            hint="The target is incomplete: do not use it, and report this as a bug.",
        )

    # -------------------------------------------------------------- events
    def on(self, event: StrategyEvent, now: Now) -> None:
        """See `Strategy`."""
        match event:
            case LimitSet():
                self._copy.set_limit(event, now)
            case BarrierPassed(epoch=epoch, scheduled=scheduled):
                if scheduled:
                    self._copy.pass_barrier()
                    self._barrier = epoch.number
            case SourcePolled(head=head):
                self._replay.poll(event)
                self._leave_phantom(head.position)
            case WorkFinished(result=SplitStaged() as result):
                self._copy.finish(result, now)
            case WorkFinished(result=ChangesApplied() as result):
                self._replay.finish(result, now)
            case WorkFinished(result=KeyProven()):
                self._key = Proven(stored=True)
            case WorkLost(work_id=work_id):
                self._copy.lose(work_id)
                self._replay.lose(work_id)
                if isinstance(self._key, ProofRunning) and self._key.work_id == work_id:
                    self._key = Due()
            case Sealed(table_version=version):
                self._table_version, self._sealed_at = version, self._prepared_at
                self._replay.seal(now)
                self._copy.seal(now)
                self._there = self._replay.consumed
            case _:
                pass
        self._look_for_phantoms()

    def _leave_phantom(self, newest: int) -> None:
        """The newest barrier's place is behind what was seen of the source when it passed."""
        if isinstance(self._way, Rearranging):
            self._way = Rearranging(self._way.queue.leave(Phantom(self._barrier, newest)))

    def _look_for_phantoms(self) -> None:
        """Reach the phantoms up to which everything is durable; the first comes behind the whole snapshot (R-CHAIN-6)."""
        head = self._replay.head
        if not isinstance(self._way, Rearranging) or head is None or self._copy.sealed.size < self._copy.total:
            return
        queue, reached = self._way.queue.reach(self._there)
        self._reached, self._way = reached or self._reached, Rearranging(queue)
        if reached is not None and reached.epoch >= self._barrier:
            self._way = Draining(head.position)

    # -------------------------------------------------------------- choosing work
    def propose(self, permits: Permits, now: Now) -> tuple[Work, ...]:
        """See `Strategy`."""
        ids = itertools.count(permits.first_id)
        if not self._copy.complete:
            return self._copy.propose(permits, ids, now)
        match self._key:
            case Proven():
                return self._replay.propose(permits, ids, now, dirty=self._dirty)
            case Due() if permits.checks:
                self._key = ProofRunning(next(ids))
                return (ProveKey(self._key.work_id, self._table_version),)
            case _:
                return ()

    # -------------------------------------------------------------- committing
    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """See `Strategy`; the first barrier behind what was to be drained says that the job has caught up (R-CHAIN-10)."""
        copy, replay, rows = self._copy, self._replay, self._copy.rows
        if isinstance(self._way, Draining) and self._there >= self._way.upto:
            self._forward()
        files = copy.prepare_commit(epoch, permits, now)
        applied = replay.take_applied()
        announces = False
        if copy.complete:
            may_merge = permits.changes and isinstance(self._key, Proven)
            announces = replay.announce(epoch.after() if may_merge else None)
        self._prepared_at = copy.revision + replay.revision
        files += () if applied is None else applied.files
        return CommitRequest(
            files=files,
            rows=copy.rows - rows,
            changes=0 if applied is None else applied.changes,
            bytes=sum(file.size_bytes for file in files),
            changed=self._dirty,
            announces=announces,
            polls=False,
        )

    # -------------------------------------------------------------- view
    def view(self, now: Now) -> StrategyView:
        """See `Strategy`."""
        copying = not self._copy.complete
        doing = "" if copying else view.doing(self._replay, self._key, merges=self._settings.merges)
        if isinstance(self._way, Rearranging):
            doing = "; ".join(filter(None, (doing, overtaken(self._reached, self._barrier, self._way.queue))))
        filtered = self._settings.filtered
        look = view.Look(self._pinned, self._copy, self._replay, self.phase, doing, copying=copying, filtered=filtered)
        return look.at(now)


def resume(spec: BackfillSpec, stored: ChainStored | None, opened: Opened) -> RearrangedChain:
    """Make the machine of an attempt; what is not in Forwarding does not come here (`open_request`)."""
    return RearrangedChain(opened, ChainSettings.of(spec), stored)
