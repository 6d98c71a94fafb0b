"""Snapshot backfill as a machine: copies one pinned version in splits, replays the changes after it, follows.

phase      work                              ends when                                   then
--------   -------------------------------   -----------------------------------------   --------
Snapshot   splits of the row index           every row of it is in a commit              CatchUp
CatchUp    the proof of the key, where it    a batch took all that was pending at its    Live
           is due, then batches of changes   start, or nothing was pending
Live       batches of changes                never; `complete` says when Exit may exit

The proof (`phases/key_proof.py`) waits for the commit of the last split and holds all changes: a MERGE would hide two rows with one
key (ADR 0013).
"""

from __future__ import annotations

import itertools

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import AccountingError, BackfillError, StateMismatchError
from backfill_core.job.steps import CATCH_UP as CATCH_UP_STEP
from backfill_core.job.steps import COPY, KEY_PROOF
from backfill_core.phases import view
from backfill_core.phases.copy import Copy
from backfill_core.phases.key_proof import Due, KeyProof, ProofRunning, Proven
from backfill_core.phases.replay import CatchUpEnd, Replay
from backfill_core.positions.done_files import in_row_index
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
from backfill_core.protocol.strategy import (
    CommitRequest,
    Opened,
    Permits,
    StrategyStatus,
    StrategyView,
)
from backfill_core.protocol.work import ChangesApplied, KeyProven, ProveKey, Result, SplitStaged, Work
from backfill_core.strategies.snapshot.params import SnapshotSettings
from backfill_core.strategies.snapshot.stored import CATCH_UP, LIVE, SNAPSHOT, SnapshotStored


class SnapshotStrategy:
    """See the module; satisfies `protocol.strategy.Strategy`."""

    def __init__(self, opened: Opened, settings: SnapshotSettings, stored: SnapshotStored | None = None) -> None:
        """Begin, or go on from what an earlier attempt committed.

        Raises:
            StateMismatchError: the pinned version is not made of the same files any more.
        """
        self._settings = settings
        self._pinned = pinned = opened.pinned if stored is None else stored.recall(opened.pinned)
        self._copy = Copy(pinned.rows, settings.copy, pinned.order)
        self._replay = Replay(
            pinned.version,
            merges=settings.merges,
            follow=settings.follow,
            batch_target_s=settings.batch_target_s,
            limit=settings.limit,
            end=CatchUpEnd.WITH_ITS_COMMIT if settings.limit == "EpochTime" else CatchUpEnd.AFTER_ITS_COMMIT,
        )
        self._was_live = stored is not None and stored.phase == LIVE
        proven = opened.key_proven or (stored is not None and stored.key_proven)
        self._key: KeyProof = Due() if opened.proves_key and not proven else Proven(proven)
        self._steps = (COPY, *((KEY_PROOF,) if isinstance(self._key, Due) else ()), CATCH_UP_STEP)
        self._prepared_at = self._sealed_at = -1
        """Revisions of what is stored: of the newest commit, and of the newest durable one."""

        self._table_version = -1
        if stored is not None:
            self._resume(stored, opened.last_txn)
        self._replay.pending.know(opened.pinned.version, opened.pinned.timestamp_ms)

    def _resume(self, stored: SnapshotStored, last_txn: int | None) -> None:
        """Go on behind what is committed: no row twice, then the first version that is not consumed (R-SNAP-7, 37, 38, 39)."""
        pinned = self._pinned
        if stored.fingerprint != pinned.fingerprint:
            raise StateMismatchError(
                f"version {stored.version} of the source is not made of the same files as when the job began "
                f"({stored.files} files, {stored.rows} rows then; {len(pinned.rows)} and {self._copy.total} now).",
                hint="The source was replaced: give the job another jobId and another target.",
            )
        self._copy.resume(in_row_index(stored.done, pinned.rows), stored.rows_read, stored.splits)
        self._replay.resume(stored.consumed, stored.merging, last_txn)

    # -------------------------------------------------------------- what the job asks
    @property
    def phase(self) -> str:
        """The phase of the state that the next commit stores."""
        if not self._copy.complete:
            return SNAPSHOT
        return LIVE if self._was_live or self._replay.caught_up else CATCH_UP

    @property
    def _revision(self) -> int:
        return self._copy.revision + self._replay.revision

    @property
    def _dirty(self) -> bool:
        """Does the newest durable commit not say everything?"""
        return self._revision != self._sealed_at

    @property
    def stored(self) -> SnapshotStored:
        """See `Strategy`."""
        copy, pinned = self._copy, self._pinned
        return SnapshotStored(
            version=pinned.version,
            table_id=pinned.table_id,
            fingerprint=pinned.fingerprint,
            rows=copy.total,
            rows_read=copy.rows,
            rows_live=pinned.rows_live,
            splits=copy.splits,
            files=len(pinned.rows),
            phase=self.phase,
            done=copy.done,
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
        return StrategyStatus(
            covered=None if copied else copy.covered.spans,
            consumed=replay.consumed if copied else None,
            position=replay.consumed,
            history_complete=copied,
            caught_up=replay.caught_up,
            complete=replay.caught_up and replay.idle and not dirty and not follow,
            step=COPY if not copied else KEY_PROOF if due else CATCH_UP_STEP,
            steps=self._steps,
            # A finished MERGE is committed at once: the target is ahead of its state.
            wants_commit=replay.applied or (ends if copied else copy.all_staged),
            wants_announcement=copied and not due and replay.wants_announcement(dirty=dirty),
            blocks_commit=replay.merging,
            failure=self._failure(),
            # The copy keeps no writer waiting (R-SNAP-10), and what follows the source goes at its pace.
            holds_source=copied and not replay.caught_up and not replay.pending.admits,
        )

    def _failure(self) -> BackfillError | None:
        """Return the error of a complete snapshot with another number of rows than the source has."""
        if not self._copy.complete or self._settings.filtered or self._copy.rows == self._pinned.rows_live:
            return None
        return AccountingError(
            f"the snapshot of version {self._pinned.version} committed {self._copy.rows} rows, "
            f"the source has {self._pinned.rows_live}.",
            hint="The target is incomplete: do not use it, and report this as a bug.",
        )

    # -------------------------------------------------------------- events
    def on(self, event: StrategyEvent, now: Now) -> None:
        """See `Strategy`."""
        if not isinstance(event, SourcePolled):
            self._replay.pending.settle()
        match event:
            case LimitSet():
                self._copy.set_limit(event, now)
            case BarrierPassed(scheduled=scheduled):
                if scheduled:
                    self._copy.pass_barrier()
            case SourcePolled():
                self._replay.poll(event)
            case WorkFinished(result=result):
                self._finish(result, now)
            case WorkLost(work_id=work_id):
                self._copy.lose(work_id)
                self._replay.lose(work_id)
                if isinstance(self._key, ProofRunning) and self._key.work_id == work_id:
                    self._key = Due()
            case Sealed(table_version=version):
                self._table_version, self._sealed_at = version, self._prepared_at
                self._replay.seal(now)
                self._copy.seal(now)

    def _finish(self, result: Result, now: Now) -> None:
        match result:
            case SplitStaged():
                self._copy.finish(result, now)
            case ChangesApplied():
                self._replay.finish(result, now)
            case KeyProven():
                self._key = Proven(stored=True)
            case _:
                pass

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
        """See `Strategy`."""
        copied, rows = self._copy.complete, self._copy.rows
        files = self._copy.prepare_commit(epoch, permits, now)
        applied = self._replay.take_applied()
        polls = self._copy.complete and not copied
        if polls:
            self._replay.forget_polls()
        announces = False
        if self._copy.complete:
            may_merge = permits.changes and isinstance(self._key, Proven)
            announces = self._replay.announce(epoch.after() if may_merge else None)
        self._prepared_at = self._revision
        files += () if applied is None else applied.files
        return CommitRequest(
            files=files,
            rows=self._copy.rows - rows,
            changes=0 if applied is None else applied.changes,
            bytes=sum(file.size_bytes for file in files),
            changed=self._dirty,
            announces=announces,
            polls=polls,
        )

    # -------------------------------------------------------------- view
    def view(self, now: Now) -> StrategyView:
        """See `Strategy`."""
        copying = not self._copy.complete
        doing = "" if copying else view.doing(self._replay, self._key, merges=self._settings.merges)
        filtered = self._settings.filtered
        look = view.Look(self._pinned, self._copy, self._replay, self.phase, doing, copying=copying, filtered=filtered)
        return look.at(now)


def resume(spec: BackfillSpec, stored: SnapshotStored | None, opened: Opened) -> SnapshotStrategy:
    """Make the machine of an attempt."""
    return SnapshotStrategy(opened, SnapshotSettings.of(spec), stored)
