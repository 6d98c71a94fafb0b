"""State machine of Arrangement: reads the newest rows in key order, and merges the changes of the rows that it has read.

phase      work                                       ends when                                     next
--------   ----------------------------------------   -------------------------------------------   -------
Reading    rounds: chunks at the consumed version,    the chunk with the last row is in a commit    CatchUp
           then changes at or before the positions
CatchUp    the proof of the key, if ranges split      the proof found no two rows with one key      CatchUp
           keys (`phases/key_proof.py`)
CatchUp    batches of all changes                     a batch took all pending changes              Live
Live       batches of all changes                     never; Exit may exit once `complete` is set

A round of the phase Reading:

round     event                                                                  next
-------   --------------------------------------------------------------------   --------------------------------------
Reading   versions are pending, and a chunk is ready for a commit, or none may   Closing: no chunk starts
          be read now (R-ARR-18, R-ARR-19)
Reading   versions are pending, and a chunk is lost: its files may be deleted    Closing
Closing   no chunk of the consumed version is being read                         Merging: the commit with the round's
                                                                                 chunks announces the batch
Merging   the batch is running: chunks of the batch's last version start         Merging
Merging   the batch is too large: it is cut, and a commit announces each part    Merging
Merging   the batch, or its last part, is applied, and a commit records it       Reading, with those chunks

The states before and after a batch satisfy the invariant in `stored`: a chunk of the consumed version is in the commit that announces
the batch, or is discarded and read again. No chunk is in a commit between two parts: the positions bound each part as they bound the
first one. Before the first chunk there are no changes to merge: the consumed version is the newest one.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from backfill_api.spec.spec import BackfillSpec
from backfill_core.job.steps import CATCH_UP as CATCH_UP_STEP
from backfill_core.job.steps import COPY, KEY_PROOF
from backfill_core.pacing.row_costs import mean_row_bytes
from backfill_core.phases.change_batch import AppliedBatch, ChangeMode, RunningBatch
from backfill_core.phases.key_copy import KeyCopy
from backfill_core.phases.key_proof import PROVING, KeyProver
from backfill_core.phases.replay import Replay
from backfill_core.phases.view import doing
from backfill_core.positions.key_scan import KeyScan
from backfill_core.positions.vnode_positions import KeyBound
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import (
    BarrierPassed,
    LimitSet,
    Sealed,
    SourcePolled,
    StrategyEvent,
    WidthSet,
    WorkFinished,
    WorkLost,
)
from backfill_core.protocol.strategy import CommitRequest, Opened, Permits, StrategyStatus, StrategyView
from backfill_core.protocol.work import ChangesApplied, ChangesCut, KeyProven, KeyRangeStaged, Result, Work
from backfill_core.strategies.arrangement import view
from backfill_core.strategies.arrangement.params import ArrangementSettings
from backfill_core.strategies.arrangement.stored import (
    CATCH_UP,
    LIVE,
    READING,
    ArrangementStored,
    check_same_space,
)

LOST_VERSIONS_MAX = 8
"""Limit of consecutive versions with a lost chunk. Beyond it the job skips no version, and the failures end the attempt."""


class ArrangementStrategy:
    """State machine of Arrangement, see the module; implements `protocol.strategy.Strategy`."""

    def __init__(
        self, opened: Opened, line: KeyScan, settings: ArrangementSettings, stored: ArrangementStored | None = None
    ) -> None:
        """Start a new job, or resume the committed state of an earlier attempt.

        Raises:
            StateMismatchError: The state was written for another order of rows.
        """
        self._settings, self._pinned, self._space = settings, opened.pinned, line.space
        proven_version = opened.pinned.version if opened.key_proven else None
        copies = settings.copy(proves_key=opened.proves_key, proven_version=proven_version)
        self._copy = KeyCopy(line, copies, opened.pinned.version)
        # Later versions may add a second row of a key. If ranges split keys, no single range contains both.
        due = opened.proves_key and opened.splits_keys
        self._key = KeyProver(due=due, proven=stored is not None and stored.key_proven)
        self._replay = Replay(
            opened.pinned.version,
            mode=ChangeMode.of(merges=settings.merges),
            follow=settings.follow,
            batch_target_s=settings.batch_target_s,
            part_bytes=settings.part_bytes,
        )
        self._steps = (COPY, *((KEY_PROOF,) if self._key.holds_changes else ()), CATCH_UP_STEP)
        self._was_live = stored is not None and stored.phase == LIVE
        self._progressed = False
        """True if a commit contains a chunk of this round."""

        self._closed = False
        """True if the batch of this round is chosen. Until it is applied, no chunk of the consumed version is read."""

        self._lost: set[int] = set()
        """Versions with a lost chunk since the last successful chunk."""

        self._may_read = True
        """True if a chunk could start at the last `propose` or `prepare_commit`."""

        self._prepared_at = self._sealed_at = -1
        """Revisions of the stored state: of the newest commit, and of the newest durable one."""

        if stored is not None:
            self._resume(stored, opened.last_txn)
        self._replay.in_rounds = not self._copy.complete
        self._replay.know(opened.pinned.version, opened.pinned.timestamp_ms)
        self._consumed_sealed = self._consumed_prepared = self._replay.consumed

    def _resume(self, stored: ArrangementStored, last_txn: int | None) -> None:
        check_same_space(stored, self._space)
        self._copy.resume(stored.positions, rows=stored.rows, rows_read=stored.rows_read, chunks=stored.chunks)
        if stored.positions.started:
            self._replay.resume(stored.consumed, stored.merging, last_txn, stored.parts)
            # Files of that version may be deleted by now. So changes come first: they do not need these files.
            self._progressed = True

    # -------------------------------------------------------------- state
    @property
    def phase(self) -> str:
        """The phase of the state that the next commit stores."""
        if not self._copy.complete:
            return READING
        return LIVE if self._was_live or self._replay.caught_up else CATCH_UP

    @property
    def _revision(self) -> int:
        return self._copy.revision + self._replay.revision

    @property
    def _dirty(self) -> bool:
        """Return true if the newest durable commit lacks a part of the state."""
        return self._revision != self._sealed_at

    @property
    def stored(self) -> ArrangementStored:
        """See `Strategy`."""
        copy = self._copy
        return ArrangementStored(
            table_id=self._pinned.table_id,
            consumed=self._replay.consumed,
            phase=self.phase,
            space=self._space,
            positions=copy.prepared,
            rows=copy.rows,
            rows_read=copy.rows_read,
            chunks=copy.chunks,
            merging=self._replay.announced,
            key_proven=self._key.stored,
            parts=self._replay.parts,
        )

    @property
    def status(self) -> StrategyStatus:
        """See `Strategy`."""
        copy, replay, dirty = self._copy, self._replay, self._dirty
        follow, copied, due = self._settings.follow, copy.complete, self._key.holds_changes
        ends = replay.caught_up and dirty and not follow
        return StrategyStatus(
            covered=None if copy.sealed.complete else KeyBound(self._space, copy.sealed),
            consumed=replay.consumed if copied else None,
            position=self._consumed_sealed if copy.sealed.started else replay.consumed,
            history_complete=copied,
            caught_up=replay.caught_up,
            complete=replay.caught_up and replay.idle and not dirty and not follow,
            step=COPY if not copied else KEY_PROOF if due else CATCH_UP_STEP,
            steps=self._steps,
            # A finished MERGE is committed at once: the target is ahead of its state.
            wants_commit=replay.applied or (ends if copied else self._wants_chunks_committed()),
            wants_announcement=self._wants_announcement(),
            blocks_commit=replay.merging,
            between_parts=replay.between_parts,
            failure=copy.failure,
            holds_source=copied and not replay.caught_up and not replay.pending.admits,
        )

    def _wants_chunks_committed(self) -> bool:
        """Return true if the first rows, the end of the copy, or a staged batch waits for a commit of chunks."""
        consumed = self._replay.consumed
        if self._copy.begins(consumed):
            return True
        waits = not self._settings.merges and self._ends_round and not self._copy.reads(consumed)
        return self._copy.completes(consumed) or (waits and self._copy.ready(consumed))

    def _wants_announcement(self) -> bool:
        if self._copy.complete:
            return not self._key.holds_changes and self._replay.wants_announcement(dirty=self._dirty)
        # If no chunk can be read, the batch is not urgent: the next barrier announces it.
        return self._settings.merges and self._replay.batch is None and self._may_read and self._may_merge

    # -------------------------------------------------------------- the round
    @property
    def _ends_round(self) -> bool:
        """Return true if versions are pending and the round made all possible progress, so that changes are next."""
        if self._replay.in_parts:
            return True
        consumed = self._replay.consumed
        progressed = self._closed or self._progressed or self._copy.ready(consumed) or self._is_lost(consumed)
        return self._replay.lag_versions > 0 and (progressed or not self._may_read)

    @property
    def _may_merge(self) -> bool:
        """Return true if a batch may start. Running chunks of the consumed version block it: their commit must come first."""
        return self._ends_round and not self._copy.reads(self._replay.consumed)

    def _close_round(self) -> None:
        """Close the round after a batch was chosen; uncommitted chunks of the consumed version are discarded."""
        batch = self._replay.batch
        assert batch is not None
        self._closed = True
        self._copy.keep(batch.batch.upto)

    # -------------------------------------------------------------- events
    def on(self, event: StrategyEvent, now: Now) -> None:
        """See `Strategy`."""
        if not isinstance(event, SourcePolled):
            self._replay.pending.settle()
        match event:
            case LimitSet():
                self._copy.set_limit(event.in_rows(mean_row_bytes(self._pinned.rows, self._pinned.bytes)), now)
            case WidthSet(width=width):
                self._copy.set_width(width)
            case BarrierPassed(scheduled=scheduled):
                if scheduled:
                    self._copy.pass_barrier()
            case SourcePolled():
                # Polls during the history phase do not prove that the job has caught up.
                self._replay.poll(event if self._copy.complete else replace(event, fresh=False), now.wall_ms)
                self._skip()
            case WorkFinished(result=result):
                self._finish(result, now)
            case WorkLost(work_id=work_id):
                self._lose(work_id)
            case Sealed(table_version=version):
                self._key.seal(version)
                self._sealed_at, self._consumed_sealed = self._prepared_at, self._consumed_prepared
                self._replay.seal(now)
                self._copy.seal(now)

    def _lose(self, work_id: int) -> None:
        """Schedule lost rows again; a chunk at a newer version, if possible, because files of this version may be deleted."""
        version = self._copy.lose(work_id)
        self._lost |= set() if version is None else {version}
        self._replay.lose(work_id)
        self._key.lose(work_id)

    def _is_lost(self, version: int) -> bool:
        """Return true if the job should skip a version. `LOST_VERSIONS_MAX` lets an unreadable source end the attempt."""
        return version in self._lost and len(self._lost) <= LOST_VERSIONS_MAX

    def _skip(self) -> None:
        """Skip to the newest version before the first row is read: the empty target is valid for any version (R-ARR-34)."""
        if not self._copy.prepared.started and self._copy.idle and self._replay.idle:
            self._copy.throw_away()
            self._replay.skip_to_head()

    def _finish(self, result: Result, now: Now) -> None:
        match result:
            case KeyRangeStaged():
                self._lost.clear()
                self._copy.finish(result, now)
            case ChangesApplied() | ChangesCut():
                self._replay.finish(result, now)
            case KeyProven():
                self._key.finish()
            case _:
                pass

    # -------------------------------------------------------------- choosing work
    def propose(self, permits: Permits, now: Now) -> tuple[Work, ...]:
        """See `Strategy`; the job consumes a chunk's version before it commits the chunk (R-ARR-24)."""
        ids = itertools.count(permits.first_id)
        replay = self._replay
        if self._copy.complete:
            if self._key.holds_changes:
                return self._key.propose(permits, ids)
            return replay.propose(permits, ids, now, dirty=self._dirty)
        self._may_read = permits.history and self._copy.may_read(now)
        work: list[Work] = []
        if self._settings.merges or (self._may_merge and not self._copy.ready(replay.consumed)):
            bound = KeyBound(self._space, self._copy.prepared)
            work += replay.propose(permits, ids, now, dirty=self._dirty, bound=bound)
            if work:
                self._close_round()
        match replay.batch:
            case RunningBatch(batch=batch) | AppliedBatch(batch=batch):
                version, opens = batch.upto, not self._is_lost(batch.upto)
            case batch:
                version, opens = replay.consumed, batch is None and not self._ends_round
        shares = isinstance(replay.batch, RunningBatch)
        return (*work, *self._copy.propose(permits, ids, now, version, opens=opens, shares=shares))

    # -------------------------------------------------------------- committing
    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> CommitRequest:
        """See `Strategy`; chunks come first, and later changes are filtered by their position (R-ARR-12, R-ARR-14).

        Once the last chunk is prepared for a commit, all changes pass (R-ARR-20, R-ARR-22, R-ARR-29).
        """
        copy, replay = self._copy, self._replay
        copied, rows, chunks = copy.complete, copy.rows, copy.chunks
        self._may_read = permits.history and copy.may_read(now)
        applied = replay.take_applied()
        if applied is not None:
            self._closed = self._progressed = False
        files = copy.prepare_commit(replay.consumed)
        self._progressed = self._progressed or copy.chunks > chunks
        polls = copy.complete and not copied
        if polls:
            replay.in_rounds = False
            replay.forget_polls()
        may_merge = permits.changes and (not self._key.holds_changes if copy.complete else self._may_merge)
        announces = replay.announce(epoch.after() if may_merge else None)
        if announces and not copy.complete:
            self._close_round()
        self._prepared_at, self._consumed_prepared = self._revision, replay.consumed
        files += () if applied is None else applied.files
        return CommitRequest(
            files=files,
            rows=copy.rows - rows,
            changes=0 if applied is None else applied.changes,
            changed=self._dirty,
            announces=announces,
            polls=polls,
        )

    # -------------------------------------------------------------- view
    def view(self, now: Now) -> StrategyView:
        """See `Strategy`."""
        mode = ChangeMode.of(merges=self._settings.merges)
        activity = PROVING if self._key.running else doing(self._replay, mode)
        return view.of(self._pinned, self._copy, self._replay, self.phase, activity, now)


def resume(spec: BackfillSpec, stored: ArrangementStored | None, opened: Opened) -> ArrangementStrategy:
    """Create the state machine of an attempt."""
    assert opened.line is not None  # `open_request` requests it
    return ArrangementStrategy(opened, opened.line, ArrangementSettings.of(spec), stored)
