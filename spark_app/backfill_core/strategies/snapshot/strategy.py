"""Snapshot backfill as a machine: reads one pinned version in splits, replays the changes after it, follows.

phase      work                          ends when                                   then
--------   ---------------------------   -----------------------------------------   --------
Snapshot   splits of the row index, any order  every row of the row index is sealed             CatchUp
CatchUp    batches (consumed, head]       a batch took all that was pending at its    Live
                                          start, or nothing was pending
Live       the same                       never; `complete` says when Exit may exit

The row index: files of version V in path order, rows numbered by prefix sums. Done is an interval set, so
splits may have any size, be retried and be sealed in any order (R-SNAP-6, R-SNAP-37).

A MERGE is its own commit, so it is announced: the seal before it stores `merging {upto, txn}`. An attempt
that finds this transaction in the target knows that `upto` is consumed; one that does not does it again.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import AccountingError, BackfillError, StateMismatchError
from backfill_core.job.steps import Facts
from backfill_core.pacing.convergence import STEPS_WATCHED, STUCK, PendingLimit
from backfill_core.pacing.eta import RateMeter, estimate
from backfill_core.pacing.retention import warn, warn_short
from backfill_core.pacing.sizing import BatchSizer, SplitSizer, split_span, tapered
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.phases.prefetch import RATE_MIN, ChargePolicy
from backfill_core.phases.split_tracker import Splits
from backfill_core.positions.file_ranges import file_ranges
from backfill_core.positions.intervals import IntervalSet
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import txn_version
from backfill_core.protocol.events import Head
from backfill_core.protocol.strategy import CommitRequest, Permits, Pinned, StrategyView, WorkIds
from backfill_core.protocol.work import ApplyChanges, ChangesApplied, ReadSplit, Result, SplitStaged, Work
from backfill_core.strategies.snapshot.params import SnapshotSettings

SNAPSHOT, CATCH_UP, LIVE = "Snapshot", "CatchUp", "Live"
STORED_PHASES = {"LogStore": CATCH_UP}
"""Names of phases as earlier releases stored them."""

GRID_CELLS_MAX = 64
FIRST_SPLIT_ROWS = 300_000
"""Few: a JVM that has just started takes seven times as long for them as later, and somebody waits for the first seal."""
SPLIT_ROWS_MIN = 50_000
SPLIT_ROWS_MAX = 50_000_000
FIRST_BATCH_VERSIONS = 32
BATCH_VERSIONS_MAX = 4096
TIMES_MAX = 1000
"""Commit times of seen heads that are kept for the lag in seconds."""

SPANS_MAX = 2000
"""Bound of the interval set: 2,000 spans are at most 48 KiB of JSON. Splits fill the lowest gap first, so
only cancelled or failed ones fragment it; beyond the bound only the first gap is worked on."""


@dataclass(frozen=True, slots=True)
class _Batch:
    after: int
    upto: int
    txn: int
    whole: bool
    """Does it take everything that was pending when it was planned?"""

    left: int = 0
    """Versions that were pending then and are not in it."""


@dataclass(frozen=True, slots=True)
class _Step:
    at_s: float
    upto: int
    head: int


class SnapshotStrategy:
    """See the module; satisfies `ports.Strategy`."""

    def __init__(self, pinned: Pinned, settings: SnapshotSettings) -> None:
        """Begin at the start of the row index."""
        self._pinned = pinned
        self._settings = settings
        self._prefix = [0, *itertools.accumulate(pinned.rows)]
        self._total = self._prefix[-1]
        self._sealed = IntervalSet()
        self._prepared = IntervalSet()
        self._phase = SNAPSHOT if self._total else CATCH_UP
        self._consumed = pinned.version
        self._times: dict[int, int] = {}
        self._rows = 0
        self._rows_sealed = 0
        self._splits = 0
        self._begun = Splits(filtered=settings.filtered)
        self._planned: _Batch | None = None
        self._applying: tuple[int, _Batch, float] | None = None
        self._applied: tuple[_Batch, ChangesApplied] | None = None
        self._head: Head | None = None
        self._first_head: Head | None = None
        self._head_fresh = False
        self._caught_up = False
        self._touched = 1
        self._prepared_mark = self._sealed_mark = 0
        self._limited = False
        self._rate: int | None = None
        self._sizer = SplitSizer(
            target_s=settings.split_target_s,
            rows=FIRST_SPLIT_ROWS,
            rows_min=SPLIT_ROWS_MIN,
            rows_max=SPLIT_ROWS_MAX,
        )
        self._batches = BatchSizer(settings.batch_target_s, FIRST_BATCH_VERSIONS, BATCH_VERSIONS_MAX)
        self._meter = RateMeter()
        self._held = False
        """May no split start? Then there is no rate and no time left to tell."""
        self._pending_limit = PendingLimit(limit=None, lags=())
        self._steps: tuple[_Step, ...] = ()
        self._judged: _Batch | None = None
        """Harvested, and not durable yet."""

        self._phase_changed = False

    # -------------------------------------------------------------- stored form
    def to_json(self) -> dict[str, Any]:
        """Return what the seal stores; see `resume`."""
        planned = self._planned
        return {
            "version": self._pinned.version,
            "tableId": self._pinned.table_id,
            "fingerprint": self._pinned.fingerprint,
            "rows": self._total,
            "rowsRead": self._rows,
            "rowsLive": self._pinned.rows_live,
            "splits": self._splits,
            "files": len(self._pinned.rows),
            "phase": self._phase,
            "done": self._prepared.to_json(),
            "consumed": self._consumed,
            "merging": None if planned is None else {"upto": planned.upto, "txn": planned.txn, "whole": planned.whole},
        }

    def resume(self, stored: dict[str, Any], last_txn: int | None) -> None:
        """Go on from what an earlier attempt sealed.

        Args:
            stored: What `to_json` returned then.
            last_txn: Newest transaction version in the target; tells whether an announced MERGE happened.

        Raises:
            StateMismatchError: the pinned version is not made of the same files any more.
        """
        if stored["fingerprint"] != self._pinned.fingerprint:
            raise StateMismatchError(
                f"version {stored['version']} of the source is not made of the same files as when the job began "
                f"({stored['files']} files, {stored['rows']} rows then; {len(self._pinned.rows)} and {self._total} now).",
                hint="The source was replaced: give the job another jobId and another target.",
            )
        self._sealed = self._prepared = IntervalSet.from_json(stored["done"])
        self._phase = STORED_PHASES.get(stored["phase"], stored["phase"])
        self._rows = self._rows_sealed = stored["rowsRead"]
        self._splits = stored["splits"]
        self._consumed = stored["consumed"]
        merging = stored["merging"]
        if merging is not None and last_txn == merging["txn"]:
            self._consumed = merging["upto"]

    # -------------------------------------------------------------- what the job asks
    @property
    def consumed(self) -> int | None:
        """See `ports.Strategy`."""
        return None if self._phase == SNAPSHOT else self._consumed

    @property
    def done(self) -> tuple[tuple[int, int], ...] | None:
        """See `ports.Strategy`."""
        return self._sealed.spans if self._phase == SNAPSHOT else None

    @property
    def source_version(self) -> int:
        """See `ports.Strategy`."""
        return self._consumed

    @property
    def complete(self) -> bool:
        """Is the target the source as of `consumed`, with nothing under way?"""
        idle = self._planned is None and self._applying is None and self._applied is None
        return self._caught_up and idle and not self.dirty and not self._settings.follow

    @property
    def caught_up(self) -> bool:
        """See `ports.Strategy`."""
        return self._caught_up

    @property
    def failure(self) -> BackfillError | None:
        """A complete row index with another number of rows than the source has: rows were lost or doubled."""
        if self._phase == SNAPSHOT or self._settings.filtered or self._rows == self._pinned.rows_live:
            return None
        return AccountingError(
            f"the snapshot of version {self._pinned.version} committed {self._rows} rows, "
            f"the source has {self._pinned.rows_live}.",
            hint="The target is incomplete: do not use it, and report this as a bug.",
        )

    @property
    def merging(self) -> bool:
        """See `ports.Strategy`."""
        return self._applying is not None and self._settings.merges

    def urgent(self, permits: Permits) -> bool:
        """Seal at once what completes a phase, and a finished MERGE: the target is ahead of its state."""
        if self._applied is not None:
            return True
        if self._phase == SNAPSHOT:
            return bool(self._begun.staged) and not self._begun.running and self._first_gap() is None
        if self._caught_up:
            return self.dirty and not self._settings.follow
        idle = self._planned is None and self._applying is None
        return permits.changes and idle and self._head_fresh and (self._settings.merges or self.dirty)

    def on_head(self, head: Head, *, fresh: bool) -> None:
        """See `ports.Strategy`."""
        self._head = head
        self._first_head = self._first_head or head
        self._head_fresh = self._head_fresh or fresh
        self._times = {version: ms for version, ms in self._times.items() if version >= self._consumed}
        if len(self._times) < TIMES_MAX:
            self._times[head.version] = head.timestamp_ms

    def take_phase_change(self) -> bool:
        """Tell once that the phase changed: heads looked at before do not count as fresh."""
        changed, self._phase_changed = self._phase_changed, False
        return changed

    # -------------------------------------------------------------- choosing work
    def next_work(
        self, now: Now, permits: Permits, bucket: TokenBucket, ids: WorkIds
    ) -> tuple[TokenBucket, tuple[Work, ...]]:
        """Fill the free slots; see `ports.Strategy`."""
        self._limited, self._rate = bucket.rate_per_s is not None, bucket.rate_per_s
        if self._phase == SNAPSHOT:
            self._hold(now, held=not permits.history)
            return self._next_splits(now, permits, bucket, ids)
        batch = self._next_batch(now, permits, ids)
        return bucket, (() if batch is None else (batch,))

    def _hold(self, now: Now, *, held: bool) -> None:
        """Stop the clock of the rate while history is held."""
        if self._held and not held:
            self._meter = self._meter.restarted(now.mono_s)
        self._held = held

    def _next_splits(
        self, now: Now, permits: Permits, bucket: TokenBucket, ids: WorkIds
    ) -> tuple[TokenBucket, tuple[Work, ...]]:
        if self._limited and permits.history:
            if permits.at_barrier:
                # One that seals nothing admits its share too: the next seal takes it along.
                bucket = self._begun.admit(now.mono_s, bucket, held=False)
            ahead = self._read_ahead(now, bucket, ids)
            if self._begun.anything_ahead:
                # Sub-file ranges would be made from what the buffer leaves in the bucket, each for a look at its whole file.
                return bucket, ahead
        # Under a limit two epochs' quotas overlap: one being read, one waiting for its barrier.
        slots = self._settings.in_flight_max * (2 if self._limited else 1) - len(self._begun.running)
        if not permits.history or slots <= 0 or (self._limited and not permits.at_barrier):
            return bucket, ()
        charged = ChargePolicy.WHEN_STARTED if self._limited else ChargePolicy.NEVER
        work: list[Work] = []
        for rows in self._rows_wanted(now, bucket, min(slots, self._settings.in_flight_max)):
            gap = self._first_gap()
            span = None if gap is None or rows < 1 else split_span(self._prefix, gap, rows, exact=self._limited)
            if span is None:
                break
            start, stop = span
            bucket = bucket.take(stop - start, now.mono_s)
            work.append(self._begin(start, stop, (), now, ids, charged))
        return bucket, tuple(work)

    def _begin(
        self, start: int, stop: int, boundaries: tuple[int, ...], now: Now, ids: WorkIds, charged: ChargePolicy
    ) -> ReadSplit:
        split = ReadSplit(ids.take(), file_ranges(self._prefix, start, stop), start, stop, ids.epoch, boundaries)
        return self._begun.begin(split, now.mono_s, charged)

    def _read_ahead(self, now: Now, bucket: TokenBucket, ids: WorkIds) -> tuple[Work, ...]:
        """Start whole files at any moment, while there are less than some seconds' worth ahead; see `ahead`."""
        if (self._rate or 0) < RATE_MIN or not self._settings.reads_ahead:
            return ()
        begun, in_flight_max = self._begun, self._settings.in_flight_max
        work: list[Work] = []
        while len(begun.reading_ahead) < in_flight_max and len(begun.running) < 2 * in_flight_max:
            gap, under_way = self._first_gap(), sum(one.rows for one in begun.reading_ahead)
            found = gap and begun.buffer.next_split(
                self._prefix, gap, under_way=under_way, bucket=bucket, now_s=now.mono_s
            )
            if not found:
                break
            (start, stop), boundaries = found
            work.append(self._begin(start, stop, boundaries, now, ids, ChargePolicy.WHEN_SEALED))
        return tuple(work)

    def _rows_wanted(self, now: Now, bucket: TokenBucket, slots: int) -> list[int]:
        if self._limited:
            quota = int(bucket.available(now.mono_s))
            # A sub-file range costs a job and a look at its whole file, however few rows it has: no more of them than will do.
            slots = min(slots, max(1, quota // SPLIT_ROWS_MIN))
            return [len(range(slot, quota, slots)) for slot in range(slots)] if quota > 0 else []
        left = self._total - self._begun.taken(self._prepared).size
        rows = tapered(self._sizer.rows_per_split, left, slots=self._settings.in_flight_max)
        return [max(SPLIT_ROWS_MIN, rows)] * slots

    def _first_gap(self) -> tuple[int, int] | None:
        taken = self._begun.taken(self._prepared)
        if len(taken) > SPANS_MAX and self._begun.running:
            return None
        return taken.first_gap(0, self._total)

    def _next_batch(self, now: Now, permits: Permits, ids: WorkIds) -> Work | None:
        if self._applying is not None or self._applied is not None or not permits.changes:
            return None
        if self._settings.merges:
            # Started only once the seal that announced it is durable.
            batch = None if self.dirty else self._planned
        else:
            batch = self._plan(0)
        if batch is None:
            return None
        work_id = ids.take()
        self._applying = (work_id, batch, now.mono_s)
        return ApplyChanges(work_id, batch.after, batch.upto, ids.epoch, batch.txn)

    def _plan(self, txn: int) -> _Batch | None:
        head = self._head
        if head is None or (self._caught_up and not self._settings.follow):
            return None
        if head.version <= self._consumed:
            if self._head_fresh and not self._caught_up:
                self._catch_up()
            return None
        upto = min(head.version, self._consumed + self._batches.versions)
        whole = upto == head.version and self._head_fresh
        return _Batch(self._consumed, upto, txn, whole=whole, left=head.version - upto)

    def _catch_up(self) -> None:
        self._caught_up, self._phase = True, LIVE
        self._touched += 1

    # -------------------------------------------------------------- results
    def on_result(self, result: Result, now: Now, bucket: TokenBucket) -> TokenBucket:
        """See `ports.Strategy`."""
        match result:
            case SplitStaged(work_id=work_id, files=files) if work_id in self._begun.running:
                bucket, one = self._begun.finish(work_id, files, now.mono_s, bucket)
                if one.charged is ChargePolicy.NEVER and not self._limited:
                    self._sizer = self._sizer.observe(one.rows, now.mono_s - one.since_s)
            case ChangesApplied(work_id=work_id) if self._applying and self._applying[0] == work_id:
                _, batch, since_s = self._applying
                self._applying, self._applied = None, (batch, result)
                self._touched += 1
                self._batches = self._batches.observe(batch.upto - batch.after, now.mono_s - since_s)
            case _:
                pass
        return bucket

    def on_lost(self, work_id: int) -> None:
        """Forget it; an announced MERGE is announced anew, because later seals have outrun its number."""
        self._begun.running.pop(work_id, None)
        if self._applying and self._applying[0] == work_id:
            self._applying = self._planned = None
            self._touched += 1

    # -------------------------------------------------------------- sealing
    @property
    def dirty(self) -> bool:
        """Does the stored state not say everything?"""
        return self._touched != self._sealed_mark

    def prepare_commit(
        self, now: Now, bucket: TokenBucket, ids: WorkIds, *, release_all: bool, may_merge: bool
    ) -> tuple[TokenBucket, CommitRequest]:
        """Hand over what is finished; under a limit sub-file ranges one epoch later, so that slow reads do not bunch.

        The quota of epoch e starts with e's first moment and is sealed by the barrier that closes e + 1:
        a read may take up to two epochs before the sealed rate shows it. What was read ahead has its own pace.
        """
        bucket = self._begun.admit(now.mono_s, bucket, held=release_all)
        ready = self._begun.take_ready(ids.epoch if self._limited and not release_all else None)
        files = [file for one in ready for file in one.files]
        rows = sum(file.rows for file in files)
        for one in ready:
            self._prepared = self._prepared.add(one.start, one.stop)
        self._rows += rows
        self._splits += sum(one.last for one in ready)
        self._touched += bool(ready)
        changes = 0
        if self._applied is not None:
            batch, applied = self._applied
            changes = applied.changes
            files += applied.files
            self._consumed, self._applied, self._planned = batch.upto, None, None
            self._judged = batch
            if batch.whole and not self._caught_up:
                self._catch_up()
        if self._phase == SNAPSHOT and self._prepared.size == self._total:
            self._phase, self._phase_changed, self._head_fresh = CATCH_UP, True, False
        if self._phase != SNAPSHOT and self._settings.merges and self._applying is None:
            self._announce(txn_version(ids.attempt, ids.epoch + 1) if may_merge else None)
        self._prepared_mark = self._touched
        size_bytes = sum(file.size_bytes for file in files)
        reserves = self._planned is not None
        taken = CommitRequest(tuple(files), rows, changes, size_bytes, dirty=self.dirty, reserves_epoch=reserves)
        return bucket, taken

    def _announce(self, txn: int | None) -> None:
        planned = None if txn is None else self._plan(txn)
        if planned is not None or self._planned is not None:
            self._touched += 1
        self._planned = planned

    def _judge(self, batch: _Batch, now: Now) -> None:
        """Judge a batch that is durable.

        Before the job has caught up all that is pending counts. Afterwards what came while a batch ran is no lag: the
        next one takes it. What counts then is what a batch had to leave.
        """
        if self._head is None:
            return
        lag = batch.left if self._caught_up else max(0, self._head.version - batch.upto)
        self._pending_limit = self._pending_limit.step(lag, batch.upto - batch.after)
        self._steps = (*self._steps[-STEPS_WATCHED:], _Step(now.mono_s, batch.upto, self._head.version))

    def _divergence(self) -> tuple[str, ...]:
        """Name both rates when the lag does not fall."""
        first, last = (self._steps[0], self._steps[-1]) if self._steps else (None, None)
        if not self._pending_limit.non_convergent or first is None or last is None or last.at_s <= first.at_s:
            return ()
        seconds = last.at_s - first.at_s
        made, applied = (last.head - first.head) / seconds, (last.upto - first.upto) / seconds
        words = (
            f"{STUCK} over {STEPS_WATCHED} batches: the source makes {made:.2g} versions/s, {applied:.2g} are applied"
        )
        return (words,)

    def on_sealed(self, now: Now) -> None:
        """See `ports.Strategy`."""
        self._sealed_mark = self._prepared_mark
        judged, self._judged = self._judged, None
        if judged is not None:
            self._judge(judged, now)
        sealed_rows = self._prepared.size - self._sealed.size
        self._sealed = self._prepared
        if sealed_rows:
            self._meter = self._meter.observe(sealed_rows, now.mono_s)
        self._rows_sealed = self._rows

    # -------------------------------------------------------------- view
    def facts(self, *, limit: int | None, held: bool) -> Facts:
        """See `ports.Strategy`."""
        left = self._total - self._sealed.size
        first, head = self._first_head, self._head
        seen_s = 0.0 if first is None or head is None else (head.timestamp_ms - first.timestamp_ms) / 1000
        return Facts(
            rows=self._total,
            rows_left=left,
            copy=estimate(left, self._meter) if left and not held else None,
            rows_per_s=self._meter.rows_per_s,
            limit_rows_per_s=limit,
            versions_done=self._consumed - self._pinned.version,
            versions_left=0 if head is None else max(0, head.version - self._consumed),
            version_s=self._batches.version_s,
            versions_per_s=(head.version - first.version) / seen_s if first and head and seen_s > 0 else 0.0,
            held=held,
        )

    def view(self, now: Now) -> StrategyView:
        """See `ports.Strategy`."""
        left = self._total - self._sealed.size
        moving = bool(left) and not self._held
        eta = estimate(left, self._meter) if moving else None
        lag = 0 if self._head is None else max(0, self._head.version - self._consumed)
        lag_ms = 0 if self._head is None or not lag else max(0, now.wall_ms - self._consumed_ms())
        per_split = max(1, self._sizer.rows_per_split)
        return StrategyView(
            phase=self._phase,
            rows_total=self._pinned.rows_live,
            rows_done=self._rows_sealed + self._rows_filtered,
            rows_filtered=self._rows_filtered,
            splits_done=self._splits,
            splits_left=-(-left // per_split),
            consumed=self._consumed,
            head=self._head,
            lag_versions=lag,
            lag_ms=lag_ms,
            rows_per_s=self._meter.rows_per_s if moving else 0.0,
            eta_s=None if eta is None else eta.seconds,
            eta_low_s=None if eta is None else eta.low,
            eta_high_s=None if eta is None else eta.high,
            caught_up=self._caught_up,
            non_convergent=self._pending_limit.non_convergent,
            grid=self._grid(),
            reason=self._reason(),
            warnings=(*self._warnings(now), *self._divergence()),
        )

    @property
    def _rows_filtered(self) -> int:
        """Rows of the source that passed by and are not in the target: known by the row index, of which every row has its turn."""
        if not self._settings.filtered or not self._total:
            return 0
        return max(0, self._pinned.rows_live * self._sealed.size // self._total - self._rows_sealed)

    def _warnings(self, now: Now) -> tuple[str, ...]:
        """Say in time that what is still needed will be gone; after catching up only what is known to be old counts."""
        since_ms = self._times.get(self._consumed, None if self._caught_up else self._pinned.timestamp_ms)
        if self._head is None or since_ms is None:
            return ()
        words = warn(self._consumed, since_ms, self._head.version, self._head.kept_s, now.wall_ms)
        if words is None and self._phase == SNAPSHOT:
            words = warn_short(self._seconds_left(), self._head.kept_s)
        return () if words is None else (words,)

    def _seconds_left(self) -> float | None:
        """Return how long history will take at this limit or at this pace; None: nobody knows yet."""
        left = self._total - self._sealed.size
        eta = estimate(left, self._meter)
        paces = [left / self._rate] if self._rate else []
        return max([*paces, *([] if eta is None or self._held else [eta.seconds])], default=None)

    def _consumed_ms(self) -> int:
        """Commit time of what is consumed, as far as it is known: that of the pinned version or of a head."""
        return self._times.get(self._consumed, self._pinned.timestamp_ms)

    def _grid(self) -> tuple[int, ...]:
        cells = min(GRID_CELLS_MAX, self._total)
        edges = [self._total * cell // cells for cell in range(cells + 1)] if cells else [0]
        covered = [stop - start - self._sealed.gaps(start, stop).size for start, stop in itertools.pairwise(edges)]
        return tuple(
            100 * done // (stop - start) for done, (start, stop) in zip(covered, itertools.pairwise(edges), strict=True)
        )

    def _reason(self) -> str:
        if self._phase == SNAPSHOT:
            return ""
        if self._applying is not None:
            _, batch, _ = self._applying
            doing = "merging" if self._settings.merges else "reading"
            return f"{doing} the changes of versions {batch.after + 1} to {batch.upto}"
        return "waiting for the first look at the source" if self._head is None else ""


def build(spec: BackfillSpec, pinned: Pinned) -> SnapshotStrategy:
    """Make the machine of a job."""
    return SnapshotStrategy(pinned, SnapshotSettings.of(spec))
