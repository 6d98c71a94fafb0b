"""Copy of the rows of one pinned version in splits of any size and order, with or without a rate limit.

The row index numbers the rows of the version's files in path order, by prefix sums. The copied rows are a set of intervals of it,
so splits may be retried and committed in any order (R-SNAP-6, 16, 37). The set only grows (R-SNAP-36). An attempt counts rows in the
order in which it reads the files, but `covered` and `done` use the row index.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from backfill_api.spec.override import Width
from backfill_core.pacing.row_costs import RowCosts, mean_row_bytes
from backfill_core.pacing.sizing import SplitSizer, leaves_more, split_span, tapered
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.phases.prefetch import RATE_MIN, ChargePolicy, is_short
from backfill_core.phases.split_tracker import Splits
from backfill_core.positions.done_files import SPANS_MAX, Done, bounded
from backfill_core.positions.file_order import FileOrder, OrderWatermark
from backfill_core.positions.intervals import IntervalSet
from backfill_core.positions.partitions import PartitionTally
from backfill_core.positions.reading_order import ReadingOrder
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.eta import RateMeter
from backfill_core.protocol.events import LimitSet
from backfill_core.protocol.strategy import Permits
from backfill_core.protocol.work import ReadSplit, SplitStaged, StagedFile

FIRST_SPLIT_ROWS = 300_000
"""Small, because a JVM that has just started needs seven times longer for the rows. If columns are decoded, `SPLIT_ROWS_MIN` is used."""

UNSURE = 4.0
"""Standard errors by which a count that is only known on average may be off."""

SPLIT_ROWS_MIN = 50_000
SPLIT_ROWS_MAX = 50_000_000


@dataclass(frozen=True, slots=True)
class CopySettings:
    """Settings of a copy; they do not change its result."""

    filtered: bool
    """True if the transform drops rows, so that the files' row counts differ from the rows read."""

    in_flight_max: int
    split_target_s: float
    reads_ahead: bool
    """True if files may be read before a limit admits their rows."""

    whole_files: bool = False
    """True if no file is cut, not even by a limit. The limit then admits a file when the debt is paid, and the file's rows become debt."""

    decodes: bool = False
    """True if all or some columns of every file are decoded. Then the first splits may be smaller than a file, also without a limit."""


class Copy:
    """The splits of one pinned version, from their selection to their commit."""

    def __init__(
        self,
        rows: Sequence[int],
        settings: CopySettings,
        order: FileOrder | None = None,
        file_bytes: Sequence[int] = (),
        live: Sequence[int] = (),
        partitions: Sequence[str] = (),
    ) -> None:
        """Start without copied rows; all but `settings` and `order` have one value for each file, or none if it is not known."""
        self._settings, self._rows, self._order, self._bytes = settings, rows, order, file_bytes
        self._live, self._partitions = live, partitions
        self._reading = ReadingOrder(rows, order)
        self.tally = PartitionTally(self._reading.by_place(partitions), self._reading.offsets)
        self.total = self._reading.offsets[-1]
        self.sealed = IntervalSet()
        """Durable rows, in the order of reading."""

        self.prepared = IntervalSet()
        """Rows handed to a commit, in the order of reading."""

        self.complete = not self.total
        """True if every row was handed to a commit; the copy is durable only with that commit."""

        self.rows = self.rows_sealed = 0
        """Rows of the snapshot's files: handed to a commit, and durable."""

        self.splits = 0
        self._mixed = False
        """True if the newest commit contains rows that were started under another limit."""

        self.revision = 0
        """Number of changes of the stored state."""

        self._splits = Splits(filtered=settings.filtered)
        self._bucket = TokenBucket.unlimited()
        self._barrier_passed = self._limited = self._began = False
        self.rate_limit: float | None = None
        self._costs = self._seen = RowCosts(self._reading.offsets, live=live)
        """Cost of rows under the limit, and the number of rows that readers see."""

        self.rows_left = round(self._seen.of(0, self.total))
        """Rows that readers see and that are not durable."""

        self.rows_filtered = 0
        """Durable rows that the filter excluded. The count never falls: a file that is done in part counts with its guaranteed minimum."""

        self.meter = RateMeter()
        self._sizer = SplitSizer(
            target_s=settings.split_target_s,
            rows=SPLIT_ROWS_MIN if settings.decodes else FIRST_SPLIT_ROWS,
            rows_min=SPLIT_ROWS_MIN,
            rows_max=SPLIT_ROWS_MAX,
        )
        self._cuts = settings.decodes and not settings.whole_files
        """True if the next split without a limit may end inside a file. Each cut reads its whole file, so only the first splits do."""

    def resume(self, done: IntervalSet, rows: int, splits: int, filtered: int = 0) -> None:
        """Resume after the commits of an earlier attempt; its counts continue (R-SNAP-44)."""
        self._reading = ReadingOrder(self._rows, self._order, done)
        self.sealed = self.prepared = self._reading.in_order(done)
        self.complete = done.size == self.total
        self.rows = self.rows_sealed = rows
        self.splits, self.rows_filtered = splits, filtered
        self.tally = PartitionTally(self._reading.by_place(self._partitions), self._reading.offsets)
        self.tally.advance(self.sealed)
        self._costs = self._seen = RowCosts(self._reading.offsets, live=self._reading.by_place(self._live))
        self._count()

    def _count(self) -> None:
        """Count the durable rows that readers see."""
        self.rows_left = self._left(self.sealed)
        self.rows_filtered = self._filtered(self.sealed, self.rows_sealed)

    def _left(self, done: IntervalSet) -> int:
        return round(self._seen.of(0, self.total) - sum(self._seen.of(*span) for span in done.spans))

    def _filtered(self, part: IntervalSet, rows: int) -> int:
        """Return the rows that the filter excluded from a part of which `rows` passed; never less than counted before."""
        if not self._settings.filtered:
            return self.rows_filtered
        spans, offsets = part.spans, self._reading.offsets
        done = round(self._seen.of(0, self.total)) - self._left(part)
        # The rows of a part of a file are known only on average.
        parts = {
            bisect_right(offsets, edge) - 1
            for span in spans
            for edge in span
            if offsets[bisect_right(offsets, edge) - 1] != edge
        }
        unsure: float = UNSURE * sum(self._seen.of(offsets[file], offsets[file + 1]) for file in parts) ** 0.5
        return max(self.rows_filtered, round(done - rows - unsure))

    # -------------------------------------------------------------- state
    @property
    def covered(self) -> IntervalSet:
        """Durable part of the row index."""
        return self._reading.in_row_index(self.sealed)

    @property
    def done(self) -> Done:
        """Part of the row index that was handed to a commit, in a bounded form."""
        return bounded(self._reading.in_row_index(self.prepared), self._rows)

    @property
    def rows_filtered_prepared(self) -> int:
        """Value of `rows_filtered` once everything handed to a commit is durable."""
        return self._filtered(self.prepared, self.rows)

    @property
    def watermark(self) -> OrderWatermark | None:
        """Position that the copy has reached in the requested order."""
        return self._reading.watermark(self.sealed)

    @property
    def rows_per_split(self) -> int:
        """Target rows of the next split without a limit."""
        return self._sizer.rows_per_split

    @property
    def all_staged(self) -> bool:
        """True if all missing rows are staged, so that a commit completes the copy."""
        return bool(self._splits.staged) and not self._splits.running and self._first_gap() is None

    @property
    def begins(self) -> bool:
        """True if the first rows of this attempt are decoded and staged, without a limit. Their commit waits for no barrier."""
        decoded = self._settings.decodes and not self._limited
        return decoded and bool(self._splits.staged) and not self._began

    # -------------------------------------------------------------- events
    def set_limit(self, limit: LimitSet, now: Now) -> None:
        """Limit the rows or bytes per second; the first limit starts with the rows of one second."""
        row_bytes = mean_row_bytes(self._rows, self._bytes)
        rate = limit.in_rows(row_bytes).rows_per_s
        self._splits.limit += rate != self.meter.limit
        self.meter = self.meter.under(rate)
        file_bytes = self._bytes if limit.counts_bytes(row_bytes) else ()
        self._costs = RowCosts(self._reading.offsets, self._reading.by_place(file_bytes)) if file_bytes else self._seen
        self._bucket = self._bucket.under(rate, now.mono_s, limit.burst_s)

    def set_width(self, width: Width) -> None:
        """Change the number and the duration of splits; splits that are being read are not affected."""
        if width.max_in_flight is not None:
            self._settings = replace(self._settings, in_flight_max=width.max_in_flight)
        if width.split_target_seconds is not None:
            self._sizer = self._sizer.toward(width.split_target_seconds)

    def pass_barrier(self) -> None:
        """Note a barrier: a limit admits the quota of one epoch at each."""
        self._barrier_passed = True

    def finish(self, result: SplitStaged, now: Now) -> None:
        """Take a finished split; it waits for the next commit."""
        if result.work_id not in self._splits.running:
            return
        self._bucket, split = self._splits.finish(result.work_id, result.files, now.mono_s, self._bucket)
        if split.charged is ChargePolicy.NEVER and not self._limited:
            took_s = now.mono_s - split.since_s
            self._sizer = self._sizer.observe(split.rows, took_s)
            self._cuts = self._cuts and self._sizer.doubles_after(took_s)

    def lose(self, work_id: int) -> None:
        """Forget a split, so that its rows are read again."""
        self._splits.running.pop(work_id, None)

    # -------------------------------------------------------------- choosing work
    def propose(self, permits: Permits, ids: Iterator[int], now: Now) -> tuple[ReadSplit, ...]:
        """Return the splits that start now."""
        at_barrier, self._barrier_passed = self._barrier_passed, False
        work = self._chosen(at_barrier, permits, ids, now)
        if at_barrier:
            self._bucket = self._bucket.passing(now.mono_s, kept=self._splits.buffer.kept)
        return work

    def _chosen(self, at_barrier: bool, permits: Permits, ids: Iterator[int], now: Now) -> tuple[ReadSplit, ...]:
        self.rate_limit = self._bucket.rate_per_s
        self._limited = self.rate_limit is not None
        self._cuts = self._cuts and not self._limited
        self.meter = self.meter.hold(now.mono_s, held=not permits.history)
        if self._limited and permits.history:
            if at_barrier:
                # A barrier without a commit also admits its share. The next commit includes it.
                self._bucket = self._splits.admit(now.mono_s, self._bucket, held=False)
            ahead = self._read_ahead(permits.epoch, ids, now)
            if self._splits.anything_ahead:
                # Sub-file ranges would use the remaining tokens in the bucket, and each range reads its whole file.
                return ahead
        # Under a limit the quotas of two epochs overlap: one is being read, one waits for its barrier.
        in_flight_max = self._settings.in_flight_max
        slots = in_flight_max * (2 if self._limited else 1) - len(self._splits.running)
        if not permits.history or slots <= 0 or (self._limited and not at_barrier):
            return ()
        policy = ChargePolicy.WHEN_STARTED if self._limited else ChargePolicy.NEVER
        work: list[ReadSplit] = []
        exact = self._limited and not self._settings.whole_files
        for share in self._rows_wanted(now, min(slots, in_flight_max)):
            # A file that exceeds its share is charged to the next share.
            rows = share if exact else int(min(share, self._bucket.available(now.mono_s)))
            gap = self._first_gap()
            if self._limited and gap is not None and rows >= 1:
                rows = self._costs.rows(gap[0], rows)
            if gap is None or rows < 1:
                break
            cuts = exact or (self._cuts and leaves_more(self._reading.offsets, gap, rows))
            span = split_span(self._reading.offsets, gap, rows, exact=cuts)
            if span is None:
                break
            self._bucket = self._bucket.take(self._costs.of(*span), now.mono_s)
            work.append(self._begin(span, (), policy, permits.epoch, next(ids), now))
        return tuple(work)

    def _begin(
        self,
        span: tuple[int, int],
        boundaries: tuple[int, ...],
        policy: ChargePolicy,
        epoch: Epoch,
        work_id: int,
        now: Now,
    ) -> ReadSplit:
        start, stop = span
        split = ReadSplit(work_id, self._reading.ranges(start, stop), start, stop, epoch.number, boundaries)
        return self._splits.begin(split, now.mono_s, policy, self._costs)

    def _read_ahead(self, epoch: Epoch, ids: Iterator[int], now: Now) -> tuple[ReadSplit, ...]:
        """Start whole files at any time, while less than a few seconds of rows are buffered; see `prefetch`."""
        if (self.rate_limit or 0) < RATE_MIN or not self._settings.reads_ahead:
            return ()
        splits, in_flight_max = self._splits, self._settings.in_flight_max
        work: list[ReadSplit] = []
        while len(splits.reading_ahead) < in_flight_max and len(splits.running) < 2 * in_flight_max:
            gap, under_way = self._first_gap(), sum(split.rows for split in splits.reading_ahead)
            if gap is None:
                break
            row_cost, offsets = self._costs.at(gap[0]), self._reading.offsets
            second = (self.rate_limit or 0) / row_cost
            next_split = splits.buffer.next_split(
                offsets,
                gap,
                under_way=under_way,
                bucket=self._bucket,
                now_s=now.mono_s,
                row_cost=row_cost,
                grid=splits.grid(second, is_short=is_short(offsets, gap[0], second)),
            )
            if next_split is None:
                break
            span, boundaries = next_split
            work.append(self._begin(span, boundaries, ChargePolicy.WHEN_SEALED, epoch, next(ids), now))
        return tuple(work)

    def _rows_wanted(self, now: Now, slots: int) -> list[int]:
        if self._limited:
            quota = int(self._bucket.available(now.mono_s))
            # A sub-file range costs a Spark job and a read of its whole file, so the number of ranges is small.
            slots = min(slots, max(1, quota // SPLIT_ROWS_MIN))
            return [len(range(slot, quota, slots)) for slot in range(slots)] if quota > 0 else []
        left = self.total - self._splits.taken(self.prepared).size
        rows = tapered(self._sizer.rows_per_split, left, slots=self._settings.in_flight_max)
        return [max(SPLIT_ROWS_MIN, rows)] * slots

    def _first_gap(self) -> tuple[int, int] | None:
        taken = self._splits.taken(self.prepared)
        if len(taken) > SPANS_MAX and self._splits.running:  # only the first gap is read
            return None
        return taken.first_gap(0, self.total)

    # -------------------------------------------------------------- committing
    def prepare_commit(self, epoch: Epoch, permits: Permits, now: Now) -> tuple[StagedFile, ...]:
        """Hand over the finished splits. Under a limit, sub-file ranges follow one epoch later, so that slow reads do not bunch.

        The quota of epoch e starts with the epoch, and the barrier that closes e + 1 commits it. So a read may take up to two
        epochs before the committed rate shows it. Rows that were read ahead of the limit have a separate pace.
        """
        held = permits.history_held
        self._bucket = self._splits.admit(now.mono_s, self._bucket, held=held)
        ready = self._splits.take_ready(epoch.number if self._limited and not held else None)
        self._mixed = self._mixed or any(split.limit != self._splits.limit for split in ready)
        files = tuple(file for split in ready for file in split.files)
        for split in ready:
            self.prepared = self.prepared.add(split.start, split.stop)
        self.rows += sum(file.rows for file in files)
        self.splits += sum(split.last for split in ready)
        self.revision += bool(ready)
        self._began = self._began or bool(ready)
        self.complete = self.complete or self.prepared.size == self.total
        return files

    def seal(self, now: Now) -> None:
        """Record that the last commit is durable."""
        before = self.rows_left
        self.sealed, self.rows_sealed = self.prepared, self.rows
        self.tally.advance(self.sealed)
        self._count()
        sealed_rows = before - self.rows_left
        if sealed_rows:
            self.meter = self.meter.restart(now.mono_s) if self._mixed else self.meter.observe(sealed_rows, now.mono_s)
        self._mixed = False
