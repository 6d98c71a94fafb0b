"""Replay of the versions after the pinned one, in batches, until the target has caught up, and then as they arrive.

Changes that arrive during the copy stay in the source's log, and are read from there (R-SNAP-9, 19).

States of a batch of changes that is merged (Upsert):

batch       event                                         then
---------   -------------------------------------------   ------------------------------------------------------------
None        a commit is prepared, versions are pending    Announced: the commit announces the MERGE of the next epoch
Announced   the commit is durable, changes may start      Running
Announced   a later commit is prepared                    Announced under a later epoch; None if changes are paused
Running     its work finished                             Applied
Running     its work is lost                              None: a later commit announces it again under a later number
Applied     a commit is prepared                          None: `consumed` grows; the lag is judged once that is durable

A batch that is staged like a split (Append, Changelog) is not announced: None -> Running as soon as versions are pending. If the
source's log is shipped (Replica), the batch also waits until the last commit is durable: the target must already contain the files
that the batch removes.

A merged batch whose changed files exceed `part_bytes` is answered with cuts instead of a MERGE (R-PART-4). Its parts then pass the same
states one after the other, each with its own MERGE and commit, so that a commit waits for one part only. `consumed` grows with the last
part (R-PART-5). An attempt that finds the transaction of an announced MERGE in the target counts its versions as consumed.
Otherwise it merges them again. A batch in parts is finished also if the catch-up ends meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum, auto

from backfill_core.pacing.convergence import STEPS_WATCHED, BatchStep, LagTrend
from backfill_core.pacing.sizing import BatchSizer
from backfill_core.phases.change_batch import (
    AnnouncedBatch,
    AnnouncedMerge,
    AppliedBatch,
    ChangeBatch,
    ChangeMode,
    ReplayBatch,
    RunningBatch,
)
from backfill_core.phases.pending import Age, LimitRule, Pending
from backfill_core.positions.change_parts import ChangeParts
from backfill_core.positions.vnode_positions import KeyBound
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import Head, SourcePolled
from backfill_core.protocol.strategy import JobWarning, Permits
from backfill_core.protocol.work import ApplyChanges, ChangesApplied, ChangesCut, ShipVersions, VersionsShipped

FIRST_BATCH_VERSIONS = 32
BATCH_VERSIONS_MAX = 4096
SHIPPED_BYTES_MAX = 1 << 30
"""Most bytes of new files in one commit; a lost batch loses this amount of work."""


class CatchUpEnd(Enum):
    """The commit that records the catch-up, once a batch contained all versions that were pending at its start."""

    WITH_ITS_COMMIT = auto()
    AFTER_ITS_COMMIT = auto()
    BY_ITS_OWNER = auto()
    """No commit of the replay: the strategy applies its own rule."""


class Replay:
    """The changes of a versioned source, from their selection to their commit."""

    def __init__(
        self,
        consumed: int,
        *,
        mode: ChangeMode,
        follow: bool,
        batch_target_s: float,
        limit: LimitRule = "EpochTime",
        end: CatchUpEnd = CatchUpEnd.WITH_ITS_COMMIT,
        part_bytes: int | None = None,
    ) -> None:
        """Start after a version; `part_bytes` are the changed files above which a batch is merged in parts, `None` to merge all whole."""
        self.consumed = consumed
        self.batch: ChangeBatch = None
        self.head: Head | None = None
        self.caught_up = False
        self.in_rounds = False
        """True if history is read between two batches. Versions that arrive meanwhile then do not count as lag."""

        self.revision = 0
        """Number of changes of the stored state, or of requests for a commit."""

        self.pending = Pending(limit, consumed)
        self.trend = LagTrend()
        self._end = end
        self._owes_finish = False
        """True if a commit contained all pending versions, and the next commit must record the catch-up."""

        self._mode, self._follow, self._part_bytes = mode, follow, part_bytes
        self._parts: ChangeParts | None = None
        """Position inside the batch after `consumed`; `None` if no batch is merged in parts."""

        self._cut: ReplayBatch | None = None
        """That batch as it was planned: versions that arrive during its parts do not belong to it (R-SNAP-31)."""

        self._fresh = False
        """True if the source was polled after the snapshot was complete."""

        self._forgets = False
        """True until the commit is durable before which polls count as stale."""

        self._first_head: Head | None = None
        self._age = Age()
        self._committing: ReplayBatch | None = None
        """Batch in a commit that is not durable yet."""

        self._sizer = BatchSizer(batch_target_s, FIRST_BATCH_VERSIONS, BATCH_VERSIONS_MAX)
        self._steps: tuple[BatchStep, ...] = ()

    # -------------------------------------------------------------- state
    @property
    def merging(self) -> bool:
        """True if a MERGE runs, so that commits must wait."""
        return self._merges and isinstance(self.batch, RunningBatch)

    @property
    def _merges(self) -> bool:
        return self._mode is ChangeMode.MERGED

    @property
    def idle(self) -> bool:
        """True if no batch is in progress."""
        return self.batch is None and self._parts is None

    @property
    def in_parts(self) -> bool:
        """True if a batch was cut, and its last part is not in a commit."""
        return self._parts is not None

    @property
    def applied(self) -> bool:
        """True if a finished batch waits for its commit."""
        return isinstance(self.batch, AppliedBatch)

    @property
    def announced(self) -> AnnouncedMerge | None:
        """The MERGE that ends a batch, as the next commit must announce it; `None` if there is none."""
        batch = self._announced_batch
        return None if batch is None or not batch.is_last else AnnouncedMerge(batch.upto, batch.txn, batch.whole)

    @property
    def parts(self) -> ChangeParts | None:
        """The position inside a batch, with the announced part; `None` if no batch is merged in parts."""
        batch = self._announced_batch
        return self._parts if self._parts is None or batch is None else replace(self._parts, txn=batch.txn)

    @property
    def between_parts(self) -> str:
        """The parts of a batch in the target, which then has the rows of no version (R-PART-6); empty if it has those of one."""
        return "" if self._parts is None else self._parts.describe()

    @property
    def _announced_batch(self) -> ReplayBatch | None:
        return self.batch.batch if self._merges and isinstance(self.batch, AnnouncedBatch | RunningBatch) else None

    def wants_announcement(self, *, dirty: bool) -> bool:
        """Return whether a commit would start the next batch, or end the catch-up."""
        ends = self.lag_versions > 0 or self._end is not CatchUpEnd.BY_ITS_OWNER
        return not self.caught_up and self.batch is None and self._fresh and ends and (self._merges or dirty)

    @property
    def lag_versions(self) -> int:
        """Versions of the source that are not consumed."""
        return 0 if self.head is None else max(0, self.head.position - self.consumed)

    def consumed_ms(self) -> int | None:
        """Return the commit time of the consumed version; `None` if it is unknown."""
        return self._age.committed_ms(self.consumed)

    def lag_ms(self, pinned_ms: int, now_ms: int) -> int:
        """Return the lag in milliseconds (`pending.Age`); `pinned_ms` replaces an unknown commit time."""
        return self._age.lag_ms(self.consumed, pinned_ms, now_ms) if self.lag_versions else 0

    @property
    def version_s(self) -> float | None:
        """Measured seconds per version in the newest batches; `None` before the first one."""
        return self._sizer.version_s

    @property
    def batches(self) -> int:
        """Number of batches in that measurement."""
        return len(self._sizer.lately)

    @property
    def versions_per_s(self) -> float:
        """Rate at which the source commits new versions."""
        first, head = self._first_head, self.head
        seconds = 0.0 if first is None or head is None else (head.timestamp_ms - first.timestamp_ms) / 1000
        return (head.position - first.position) / seconds if first and head and seconds > 0 else 0.0

    # -------------------------------------------------------------- events
    def know(self, version: int, timestamp_ms: int) -> None:
        """Record the commit time of a version without a poll."""
        self._age.learn(version, timestamp_ms)
        self.pending.know(version, timestamp_ms)

    def poll(self, event: SourcePolled, wall_ms: int = 0) -> None:
        """Record the newest version, with the time of the poll."""
        self.head = head = event.head
        self._first_head = self._first_head or head
        self._fresh = self._fresh or event.fresh
        self.pending.poll(head)
        if self._fresh:
            self.pending.begin()
        self._age.poll(head, self.consumed, wall_ms)

    def skip_to_head(self) -> None:
        """Start after the newest polled version: the target contains no row that an older version could have changed."""
        if self.head is not None and self.batch is None:
            self._begin_after(max(self.consumed, self.head.position))
            self.pending.poll(self.head)

    def forget_polls(self) -> None:
        """Treat polls before the next durable commit as stale; a batch up to one of them does not end the catch-up (R-SNAP-29)."""
        self._forgets = True
        self._forget()

    def _forget(self) -> None:
        self._fresh = False
        if self.batch is not None:
            self.batch = replace(self.batch, batch=replace(self.batch.batch, whole=False))
        self._cut = None if self._cut is None else replace(self._cut, whole=False)
        self.pending.wait()

    def resume(
        self, consumed: int, merging: AnnouncedMerge | None, last_txn: int | None, parts: ChangeParts | None = None
    ) -> None:
        """Resume after the commits of an earlier attempt, and after the MERGE that it announced if the target contains it."""
        merged = merging is not None and last_txn == merging.txn
        self._begin_after(merging.upto if merging is not None and merged else consumed)
        self._parts = None if parts is None or merged else parts.resumed(last_txn)

    def _begin_after(self, consumed: int) -> None:
        self.consumed, self.pending = consumed, Pending(self.pending.rule, consumed)

    def finish(self, result: ChangesApplied | VersionsShipped | ChangesCut, now: Now) -> None:
        """Take a finished batch or part, which waits for the next commit. A batch of shipped versions may have ended early."""
        if isinstance(self.batch, RunningBatch) and self.batch.work_id == result.work_id:
            batch, since_s = self.batch.batch, self.batch.since_s
            if isinstance(result, ChangesCut):
                self._parts, self._cut, self.batch = ChangeParts(batch.upto, result.order, result.cuts), batch, None
                self.revision += 1
                return
            if isinstance(result, VersionsShipped) and result.upto < batch.upto:
                left = batch.left + batch.upto - result.upto
                batch = replace(batch, upto=result.upto, whole=False, left=left)
            self.batch = AppliedBatch(batch, result)
            self.revision += 1
            if batch.part is None:
                self._sizer = self._sizer.observe(batch.upto - batch.after, now.mono_s - since_s)

    def lose(self, work_id: int) -> None:
        """Forget a batch; a commit announces a MERGE again."""
        if isinstance(self.batch, RunningBatch) and self.batch.work_id == work_id:
            self.batch = None
            self.revision += self._merges

    # -------------------------------------------------------------- choosing work
    def propose(
        self, permits: Permits, ids: Iterator[int], now: Now, *, dirty: bool, bound: KeyBound | None = None
    ) -> tuple[ApplyChanges | ShipVersions, ...]:
        """Choose the batch that starts now, within a bound. A merged or shipped one waits until the last commit is durable."""
        match self.batch:
            case _ if not permits.changes:
                batch = None
            case AnnouncedBatch(batch=announced) if not dirty:
                batch = announced
            case None if self._mode is ChangeMode.STAGED or (self._mode is ChangeMode.SHIPPED and not dirty):
                batch = self._plan(0)
            case _:
                batch = None
        if batch is None:
            return ()
        if batch.part is None or not self.pending.has_taken(batch.upto):
            self.pending.take(batch.upto)
        work_id, epoch = next(ids), permits.epoch.number
        part_bytes = self._part_bytes if self._merges and batch.part is None else None
        work: ApplyChanges | ShipVersions = ApplyChanges(
            work_id, batch.after, batch.upto, epoch, batch.txn, bound, batch.part, part_bytes
        )
        if self._mode is ChangeMode.SHIPPED:
            work = ShipVersions(work_id, batch.after, batch.upto, epoch, SHIPPED_BYTES_MAX)
        self.batch = RunningBatch(batch, work.work_id, now.mono_s)
        return (work,)

    def _plan(self, txn: int) -> ReplayBatch | None:
        """Choose the next batch; no pending version at a fresh poll ends the catch-up (R-SNAP-32)."""
        head = self.head
        ended = self.caught_up and not self._follow and not self.in_parts
        if head is None or self._owes_finish or ended:
            return None
        if head.position <= self.consumed:
            if self._fresh and not self.caught_up:
                self._catch_up()
            return None
        parts = self._parts
        upto = min(head.position, self.consumed + self._sizer.versions) if parts is None else parts.upto
        whole = upto == head.position and self._fresh
        planned = ReplayBatch(self.consumed, upto, txn, whole=whole, left=max(0, head.position - upto))
        if parts is None:
            return planned
        self._cut = self._cut or planned
        return replace(self._cut, txn=txn, part=parts.next)

    def _catch_up(self) -> None:
        if self._end is not CatchUpEnd.BY_ITS_OWNER:
            self.catch_up()

    def catch_up(self) -> None:
        """Record that the target has reached the newest version once."""
        self.caught_up = True
        self.revision += 1

    # -------------------------------------------------------------- committing
    def take_applied(self) -> ChangesApplied | VersionsShipped | None:
        """Hand the applied batch or part to a commit. With the last part, all versions are consumed, those without rows included (R-SNAP-22)."""
        if not isinstance(self.batch, AppliedBatch):
            return None
        batch, result = self.batch.batch, self.batch.result
        self.batch = None
        if self._parts is not None and not batch.is_last:
            self._parts = self._parts.merged()
            return result
        self._committing, self.consumed, self._parts, self._cut = batch, batch.upto, None, None
        if batch.whole and not self.caught_up:
            self._owes_finish = self._end is CatchUpEnd.AFTER_ITS_COMMIT
            if not self._owes_finish:
                self._catch_up()
        return result

    def announce(self, epoch: Epoch | None) -> bool:
        """Announce the MERGE of an epoch. With `None` no MERGE may start, and an earlier announcement is withdrawn."""
        if not self._merges or isinstance(self.batch, RunningBatch | AppliedBatch):
            return False
        planned = None if epoch is None else self._plan(epoch.txn_version)
        if planned is not None or self.batch is not None:
            self.revision += 1
        self.batch = None if planned is None else AnnouncedBatch(planned)
        return planned is not None

    def seal(self, now: Now) -> None:
        """Record that the last commit is durable, and judge its batch.

        During the catch-up, all pending versions count. Afterwards, versions that arrived while a batch ran are no lag, because the
        next batch contains them. Then only versions that the batch had to leave out count.
        """
        if self._forgets:
            self._forgets = False
            self._forget()
        batch, self._committing = self._committing, None
        if batch is None or self.head is None:
            return
        newest = batch.upto + batch.left if self.caught_up or self.in_rounds else self.head.position
        self.trend = self.trend.observe(self.pending.between(batch.upto, newest))
        self.pending.seal()
        if self._owes_finish:
            self._owes_finish = False
            self._catch_up()
        self._steps = (*self._steps[-STEPS_WATCHED:], BatchStep(now.mono_s, batch.upto, self.head.position))

    def divergence(self) -> tuple[JobWarning, ...]:
        """Return a warning with both rates if the lag does not fall."""
        first, last = (self._steps[0], self._steps[-1]) if self._steps else (None, None)
        if not self.trend.non_convergent or first is None or last is None or last.at_s <= first.at_s:
            return ()
        seconds = last.at_s - first.at_s
        produced, applied = (last.head - first.head) / seconds, (last.upto - first.upto) / seconds
        rates = f"the source makes {produced:.2g} versions/s, {applied:.2g} are applied"
        return (JobWarning("NonConvergent", f"the lag did not fall over {STEPS_WATCHED} batches: {rates}"),)
