"""Replay: the versions after the pinned one, in batches, until the target has caught up and beyond.

Changes that come during the copy are left in the source's log, and are read from there (R-SNAP-9, 19).

The batch of changes, where it is merged (Upsert):

batch       event                                       then
---------   -----------------------------------------   ------------------------------------------------------------
None        a commit is prepared, versions are pending  Announced: the commit says which MERGE the next epoch is
Announced   the commit is durable, changes may start    Running
Announced   a later commit is prepared                  Announced anew under a later epoch; None when changes are held
Running     its work finished                           Applied
Running     its work is lost                            None: it is announced anew, later commits have outrun its number
Applied     a commit is prepared                        None: `consumed` grows; the batch is judged once that is durable

Where it is staged like a split (Append, Changelog), nothing is announced: None -> Running as soon as versions are pending. Where the
source's log is shipped (Replica), not before the last commit is durable: what a batch takes out of the target must be in it.
An attempt that finds an announced MERGE in the target knows that its versions are consumed; one that does not does it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from backfill_core.pacing.convergence import STEPS_WATCHED, BatchStep, LagTrend
from backfill_core.pacing.sizing import BatchSizer
from backfill_core.phases.pending import Age, LimitRule, Pending
from backfill_core.positions.vnode_positions import KeyBound
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import Head, SourcePolled
from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.strategy import JobWarning, Permits
from backfill_core.protocol.work import ApplyChanges, ChangesApplied, ShipVersions, VersionsShipped

FIRST_BATCH_VERSIONS = 32
BATCH_VERSIONS_MAX = 4096
SHIPPED_BYTES_MAX = 1 << 30
"""Of new files in one commit: what is lost when its batch is lost."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The versions `(after, upto]`."""

    after: int
    upto: int
    txn: int
    """Transaction version of its MERGE; 0 where it is staged."""

    whole: bool
    """Does it take everything that was pending when it was planned?"""

    left: int = 0
    """Versions that were pending then and are not in it."""


@dataclass(frozen=True, slots=True)
class AnnouncedMerge:
    """What a commit stores of a MERGE that it announces: it happened if the target knows its transaction version."""

    upto: int
    txn: int
    whole: bool = False
    """Does it take everything that was pending? Snapshot stores it."""

    @classmethod
    def of(cls, stored: StoredFields) -> AnnouncedMerge:
        """Read it from a stored state."""
        return cls(stored.typed("upto", int), stored.typed("txn", int), stored.value.get("whole") is True)

    def encode(self) -> dict[str, Any]:
        """Return the JSON value; without `whole`."""
        return {"upto": self.upto, "txn": self.txn}


@dataclass(frozen=True, slots=True)
class Announced:
    """A commit says that the next transaction of the job is the MERGE of this batch."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Running:
    """Its work is under way."""

    batch: Batch
    work_id: int
    since_s: float


@dataclass(frozen=True, slots=True)
class Applied:
    """Its rows are merged, or staged; no commit says so yet."""

    batch: Batch
    result: ChangesApplied | VersionsShipped


ChangeBatch = Announced | Running | Applied | None


class ChangeWay(Enum):
    """How changes come into the target."""

    MERGED = auto()
    """By key, in commits of their own."""

    STAGED = auto()
    """As rows, which a commit takes like those of a split."""

    SHIPPED = auto()
    """As files that come and go, as the source's log says."""

    @classmethod
    def of(cls, *, merges: bool) -> ChangeWay:
        """Return how rows come into a target that is merged into, or only appended to."""
        return cls.MERGED if merges else cls.STAGED


class CatchUpEnd(Enum):
    """Which commit says that the job has caught up, once a batch took all that was pending at its start."""

    WITH_ITS_COMMIT = auto()
    AFTER_ITS_COMMIT = auto()
    BY_ITS_OWNER = auto()
    """None by itself: the strategy has a rule of its own."""


class Replay:
    """The changes of a versioned source, from their choice to their commit."""

    def __init__(
        self,
        consumed: int,
        *,
        way: ChangeWay,
        follow: bool,
        batch_target_s: float,
        limit: LimitRule = "EpochTime",
        end: CatchUpEnd = CatchUpEnd.WITH_ITS_COMMIT,
    ) -> None:
        """Begin after a version."""
        self.consumed = consumed
        self.batch: ChangeBatch = None
        self.head: Head | None = None
        self.caught_up = False
        self.in_rounds = False
        """Is history read between two batches? Then what comes while it is read is no lag."""

        self.revision = 0
        """Grows with each change of what is stored, or must be committed."""

        self.pending = Pending(limit, consumed)
        self.trend = LagTrend()
        self._end = end
        self._owes_finish = False
        """Did a commit take all that was pending, which the next one says?"""

        self._way, self._follow = way, follow
        self._fresh = False
        """Was the source polled since the snapshot is complete?"""

        self._forgets = False
        """Is the commit not durable yet before which polls count as stale?"""

        self._first_head: Head | None = None
        self._age = Age()
        self._committing: Batch | None = None
        """Part of a commit that is not durable yet."""

        self._sizer = BatchSizer(batch_target_s, FIRST_BATCH_VERSIONS, BATCH_VERSIONS_MAX)
        self._steps: tuple[BatchStep, ...] = ()

    # -------------------------------------------------------------- what there is
    @property
    def merging(self) -> bool:
        """Is a MERGE running, so that commits must wait?"""
        return self._merges and isinstance(self.batch, Running)

    @property
    def _merges(self) -> bool:
        return self._way is ChangeWay.MERGED

    @property
    def idle(self) -> bool:
        """Is no batch on its way?"""
        return self.batch is None

    @property
    def applied(self) -> bool:
        """Does a finished batch wait for its commit?"""
        return isinstance(self.batch, Applied)

    @property
    def announced(self) -> AnnouncedMerge | None:
        """The MERGE that the next commit must announce."""
        if not self._merges or not isinstance(self.batch, Announced | Running):
            return None
        batch = self.batch.batch
        return AnnouncedMerge(batch.upto, batch.txn, batch.whole)

    def wants_announcement(self, *, dirty: bool) -> bool:
        """Would a commit begin the next batch, or end the catching up?"""
        ends = self.lag_versions > 0 or self._end is not CatchUpEnd.BY_ITS_OWNER
        return not self.caught_up and self.batch is None and self._fresh and ends and (self._merges or dirty)

    @property
    def lag_versions(self) -> int:
        """Versions that are known and not consumed."""
        return 0 if self.head is None else max(0, self.head.position - self.consumed)

    def consumed_ms(self) -> int | None:
        """Commit time of what is consumed; `None` if it is not known."""
        return self._age.committed_ms(self.consumed)

    def lag_ms(self, pinned_ms: int, now_ms: int) -> int:
        """Return the lag in milliseconds (`pending.Age`); `pinned_ms` stands for an unknown commit time."""
        return self._age.lag_ms(self.consumed, pinned_ms, now_ms) if self.lag_versions else 0

    @property
    def version_s(self) -> float | None:
        """Seconds that a version took in the newest batches; None before the first."""
        return self._sizer.version_s

    @property
    def batches(self) -> int:
        """In how many batches that was measured."""
        return len(self._sizer.lately)

    @property
    def versions_per_s(self) -> float:
        """How fast the source makes new versions."""
        first, head = self._first_head, self.head
        seconds = 0.0 if first is None or head is None else (head.timestamp_ms - first.timestamp_ms) / 1000
        return (head.position - first.position) / seconds if first and head and seconds > 0 else 0.0

    # -------------------------------------------------------------- events
    def know(self, version: int, timestamp_ms: int) -> None:
        """Learn when a version was committed, without a poll."""
        self._age.learn(version, timestamp_ms)
        self.pending.know(version, timestamp_ms)

    def poll(self, event: SourcePolled, wall_ms: int = 0) -> None:
        """Learn of the newest version, at a moment."""
        self.head = head = event.head
        self._first_head = self._first_head or head
        self._fresh = self._fresh or event.fresh
        self.pending.poll(head)
        if self._fresh:
            self.pending.begin()
        self._age.poll(head, self.consumed, wall_ms)

    def skip_to_head(self) -> None:
        """Begin after the newest version that was seen: the target holds no row that an older one could have changed."""
        if self.head is not None and self.batch is None:
            self._begin_after(max(self.consumed, self.head.position))
            self.pending.poll(self.head)

    def forget_polls(self) -> None:
        """What is seen before the next commit is durable is not fresh, nor does a batch up to it end the catch-up (R-SNAP-29)."""
        self._forgets = True
        self._forget()

    def _forget(self) -> None:
        self._fresh = False
        if self.batch is not None:
            self.batch = replace(self.batch, batch=replace(self.batch.batch, whole=False))
        self.pending.wait()

    def resume(self, consumed: int, merging: AnnouncedMerge | None, last_txn: int | None) -> None:
        """Go on after what an earlier attempt committed, and after the MERGE that it announced, if that is in the target."""
        merged = merging is not None and last_txn == merging.txn
        self._begin_after(merging.upto if merging is not None and merged else consumed)

    def _begin_after(self, consumed: int) -> None:
        self.consumed, self.pending = consumed, Pending(self.pending.rule, consumed)

    def finish(self, result: ChangesApplied | VersionsShipped, now: Now) -> None:
        """Take a finished batch; it waits for the next commit. One of the log may have ended early."""
        if isinstance(self.batch, Running) and self.batch.work_id == result.work_id:
            batch, since_s = self.batch.batch, self.batch.since_s
            if isinstance(result, VersionsShipped) and result.upto < batch.upto:
                left = batch.left + batch.upto - result.upto
                batch = replace(batch, upto=result.upto, whole=False, left=left)
            self.batch = Applied(batch, result)
            self.revision += 1
            self._sizer = self._sizer.observe(batch.upto - batch.after, now.mono_s - since_s)

    def lose(self, work_id: int) -> None:
        """Forget a batch; a MERGE is announced anew."""
        if isinstance(self.batch, Running) and self.batch.work_id == work_id:
            self.batch = None
            self.revision += self._merges

    # -------------------------------------------------------------- choosing work
    def propose(
        self, permits: Permits, ids: Iterator[int], now: Now, *, dirty: bool, bound: KeyBound | None = None
    ) -> tuple[ApplyChanges | ShipVersions, ...]:
        """Choose the batch that starts now, of the rows within a bound; what is merged or shipped not before the last commit is durable."""
        match self.batch:
            case _ if not permits.changes:
                batch = None
            case Announced(batch=announced) if not dirty:
                batch = announced
            case None if self._way is ChangeWay.STAGED or (self._way is ChangeWay.SHIPPED and not dirty):
                batch = self._plan(0)
            case _:
                batch = None
        if batch is None:
            return ()
        self.pending.take(batch.upto)
        work_id, epoch = next(ids), permits.epoch.number
        work: ApplyChanges | ShipVersions = ApplyChanges(work_id, batch.after, batch.upto, epoch, batch.txn, bound)
        if self._way is ChangeWay.SHIPPED:
            work = ShipVersions(work_id, batch.after, batch.upto, epoch, SHIPPED_BYTES_MAX)
        self.batch = Running(batch, work.work_id, now.mono_s)
        return (work,)

    def _plan(self, txn: int) -> Batch | None:
        """Choose the next batch; nothing pending at a fresh poll is the end of catching up (R-SNAP-32)."""
        head = self.head
        if head is None or self._owes_finish or (self.caught_up and not self._follow):
            return None
        if head.position <= self.consumed:
            if self._fresh and not self.caught_up:
                self._catch_up()
            return None
        upto = min(head.position, self.consumed + self._sizer.versions)
        whole = upto == head.position and self._fresh
        return Batch(self.consumed, upto, txn, whole=whole, left=head.position - upto)

    def _catch_up(self) -> None:
        if self._end is not CatchUpEnd.BY_ITS_OWNER:
            self.catch_up()

    def catch_up(self) -> None:
        """The target has reached the newest version once."""
        self.caught_up = True
        self.revision += 1

    # -------------------------------------------------------------- committing
    def take_applied(self) -> ChangesApplied | VersionsShipped | None:
        """Hand the applied batch to a commit; its versions are consumed, also those without a row (R-SNAP-22)."""
        if not isinstance(self.batch, Applied):
            return None
        batch, result = self.batch.batch, self.batch.result
        self.batch, self._committing, self.consumed = None, batch, batch.upto
        if batch.whole and not self.caught_up:
            self._owes_finish = self._end is CatchUpEnd.AFTER_ITS_COMMIT
            if not self._owes_finish:
                self._catch_up()
        return result

    def announce(self, epoch: Epoch | None) -> bool:
        """Say which MERGE is the transaction of an epoch; None: none may start, and what was announced is taken back."""
        if not self._merges or isinstance(self.batch, Running | Applied):
            return False
        planned = None if epoch is None else self._plan(epoch.txn_version)
        if planned is not None or self.batch is not None:
            self.revision += 1
        self.batch = None if planned is None else Announced(planned)
        return planned is not None

    def seal(self, now: Now) -> None:
        """What was prepared last is durable: judge the batch in it.

        While the job catches up all that is pending counts. Else what came while a batch ran is no lag: the next one takes
        it. What counts then is what a batch had to leave.
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
        """Name both rates when the lag does not fall."""
        first, last = (self._steps[0], self._steps[-1]) if self._steps else (None, None)
        if not self.trend.non_convergent or first is None or last is None or last.at_s <= first.at_s:
            return ()
        seconds = last.at_s - first.at_s
        made, applied = (last.head - first.head) / seconds, (last.upto - first.upto) / seconds
        rates = f"the source makes {made:.2g} versions/s, {applied:.2g} are applied"
        return (JobWarning("NonConvergent", f"the lag did not fall over {STEPS_WATCHED} batches: {rates}"),)
