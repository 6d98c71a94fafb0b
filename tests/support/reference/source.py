"""Source backfill, row by row, by semantics 2.4 with its fixes: the reference model for other implementations.

It uses nothing of the implementation under test. The machine has one input queue (`upstream`, the shared source), a separate
reader of the topic, the state table that all actors share, and one output list; `poll` does one step. The environment makes the
state table durable (`States.commit`), once every actor has emitted the barrier.

Choices that the rules leave open:

* A split change is applied after its barrier and its commit (R-SRC-36), so its results are stored and reported on the
  next barrier. Its barrier must be a checkpoint: else the machine would wait for a commit that never comes.
* "Nothing to read" on a restart means that rows up to the stored offset were emitted, so the split catches up from there. To
call
  it finished, as for a split without an offset, would let a slower shared source emit them again.
* An offset without a row raises a split that is catching up only if none of its rows was hidden since it began to. Else
  the shared source's copy of the hidden row would be hidden as well.
* A row that arrives invisible moves the state as any other and is counted; its offset has been reached.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from support.reference.topic import (
    BACKFILLING,
    CATCHING_UP,
    FINISHED,
    Broken,
    Reached,
    Reader,
    ReaderError,
    Record,
    Records,
    Split,
    States,
    Topic,
    number,
)
from support.reference.vocabulary import Barrier, Fatal, Mutation, Report, Watermark

Input = Barrier | Records | Watermark | Broken
Output = Barrier | Records | Watermark

INTERVALS_WITHOUT_BARRIER_MAX = 5


class ReferenceSource:
    """One actor. Phases: `start`, `backfilling`, `forwarding`."""

    def __init__(
        self,
        topic: Topic,
        owned: Iterable[int],
        states: States,
        *,
        chunk_size: int = 256,
        rate_limit: int | None = None,
        paused: bool = False,
        barrier_interval_ms: int = 1000,
    ) -> None:
        """Begin with the initial assignment; states are read only after the first barrier was emitted (R-SRC-1)."""
        self.upstream: deque[Input] = deque()
        self.emitted: list[Output] = []
        self.reports: list[Report] = []
        self.warnings: list[str] = []
        self.phase = "start"
        self.splits: dict[int, Split] = dict.fromkeys(owned, Split())
        self.reader = Reader(topic, {})
        self.readers_built = 0
        self.paused = paused
        self.paused_self = False
        self.rows_visible = 0
        self.topic, self.states, self._chunk_size = topic, states, chunk_size
        self._rate, self._permits = rate_limit, rate_limit
        self._interval_ms, self._since_barrier_ms = barrier_interval_ms, 0
        self._passed_over: set[int] = set()
        self.change: Barrier | None = None
        self._awaited: int | None = None
        self._reported_finish = False

    # -------------------------------------------------------------- environment
    def second(self) -> None:
        """Let a second pass: it gives the permits of the limit, unused ones are not kept."""
        self._permits = self._rate

    def pass_ms(self, ms: int) -> None:
        """Let time pass without a barrier."""
        self._since_barrier_ms += ms

    def run(self) -> None:
        """Poll until there is nothing to do."""
        while self.poll():
            pass

    def poll(self) -> bool:
        """Do one step: a due split change, then an upstream message, then a chunk of the reader (R-SRC-21)."""
        if self.change is not None:
            return self._apply_change(self.change)
        if self.upstream:
            self._take(self.upstream.popleft())
            return True
        return self.phase == "backfilling" and self._may_read() and self._read()

    # -------------------------------------------------------------- upstream
    def _take(self, message: Input) -> None:
        if self.phase == "start":
            self._start(message)
        elif isinstance(message, Broken):
            raise Fatal("the upstream failed (R-SRC-39)")
        elif isinstance(message, Barrier):
            self._forward_barrier(message) if self.phase == "forwarding" else self._backfill_barrier(message)
        elif self.phase == "forwarding":
            self.emitted.append(message)
        elif isinstance(message, Records):
            self._emit_visible(message.rows, self._judge_upstream)

    def _start(self, first: Input) -> None:
        if not isinstance(first, Barrier):
            raise Fatal("the first message must be a barrier")
        self.emitted.append(first)
        for split in self.splits:
            self.splits[split] = self._informed(split, self.states.read(split) or Split())
        self._rebuild()
        self.phase = "backfilling"

    def _informed(self, split: int, at: Split) -> Split:
        """Determine whether history has records to read; only at startup (R-SRC-5, R-SRC-6)."""
        if at.kind != BACKFILLING:
            return at
        partition = self.topic.partitions[split]
        latest = partition.latest(partition.start if at.offset is None else number(at.offset))
        if latest is not None:
            return replace(at, target=latest)
        return Split(FINISHED) if at.offset is None else replace(at, kind=CATCHING_UP)

    def _judge_upstream(self, row: Record) -> bool:
        """Move a split by a row of the shared source; return whether the row is visible."""
        at, reached = self._owned(row.split), number(row.offset)
        if at.kind == FINISHED:
            return True
        done = number(at.offset) if at.offset is not None else None
        if at.kind == BACKFILLING:
            if done is None or done < reached:
                self.splits[row.split] = replace(at, target=row.offset)
            elif done == reached:
                self.splits[row.split] = replace(at, kind=FINISHED, offset=None)
            else:
                self.splits[row.split] = replace(at, kind=CATCHING_UP)
            return False
        assert done is not None
        if reached >= done:
            self.splits[row.split] = replace(at, kind=FINISHED, offset=None)
        return reached > done

    def _owned(self, split: int) -> Split:
        if split not in self.splits:
            raise Fatal(f"split {split} belongs to another actor")
        return self.splits[split]

    # -------------------------------------------------------------- history
    @property
    def parked(self) -> bool:
        """Return whether the reader is kept but not read, by command or for lack of barriers."""
        return self.paused or self.paused_self

    def _may_read(self) -> bool:
        return not self.parked and self._rate != 0 and self._permits != 0

    def _rebuild(self) -> None:
        """Build a reader of the splits that are being backfilled, each after its offset (R-SRC-3, R-SRC-4)."""
        positions = {}
        for split, at in self.splits.items():
            partition = self.topic.partitions[split]
            after = partition.start if at.offset is None else number(at.offset)
            if at.kind == BACKFILLING:
                positions[split] = partition.low if after is None else after + 1
        self.reader = Reader(self.topic, positions)
        self.readers_built += 1

    def _read(self) -> bool:
        size = min(limit for limit in (self._chunk_size, self._rate, self._permits) if limit is not None)
        try:
            items = self.reader.fetch(size)
        except ReaderError:
            self._rebuild()
            return True
        if not items:
            return False
        if self._since_barrier_ms > INTERVALS_WITHOUT_BARRIER_MAX * self._interval_ms:
            self.paused_self = True
        rows = []
        for item in items:
            if isinstance(item, Reached):
                self.judge_reached(item)
            else:
                rows.append(replace(item, visible=self._judge_history(item) and item.visible))
        self._emit_visible(rows, lambda row: row.visible)
        self.rows_visible += sum(row.visible for row in rows)
        if self._permits is not None:
            self._permits -= len(rows)
        return True

    def _judge_history(self, row: Record) -> bool:
        """Move a split by a row of the reader and count it; return whether the row is visible."""
        at = replace(self._owned(row.split), rows=self.splits[row.split].rows + 1)
        self.splits[row.split] = self._advanced(at, row.offset) if at.kind == BACKFILLING else at
        if at.kind == CATCHING_UP:
            self._passed_over.add(row.split)
        return at.kind == BACKFILLING

    @staticmethod
    def _advanced(at: Split, offset: str) -> Split:
        """Return the split after an offset: at or past the target it stops, unfinished, because the shared source may lag."""
        stops = at.target is not None and number(offset) >= number(at.target)
        return replace(at, kind=CATCHING_UP if stops else BACKFILLING, offset=offset)

    def judge_reached(self, item: Reached) -> None:
        """Move a split as a row would, without counting (R-SRC-42)."""
        at = self._owned(item.split)
        if at.kind == BACKFILLING:
            self.splits[item.split] = self._advanced(at, item.offset)
        elif at.kind == CATCHING_UP and item.split not in self._passed_over:
            self.splits[item.split] = replace(at, offset=item.offset)

    # -------------------------------------------------------------- output
    def _emit_visible(self, rows: Iterable[Record], judge: Callable[[Record], bool]) -> None:
        """Emit a chunk with every row at its place, or nothing if none is visible (R-SRC-19, R-SRC-43)."""
        judged = tuple(replace(row, visible=judge(row) and row.visible) for row in rows)
        if any(row.visible for row in judged):
            self.emitted.append(Records(judged))

    # -------------------------------------------------------------- barriers
    def _backfill_barrier(self, barrier: Barrier) -> None:
        """Handle a barrier, in the order of the rules."""
        self._since_barrier_ms, self.paused_self = 0, False
        self._command(barrier.mutation)
        for split, at in self.splits.items():
            self.states.write(barrier.prev, split, at)
        self._report(barrier)
        self.emitted.append(barrier)
        self._await_change(barrier)
        if self.change is None and self._reported_finish and self._may_leave(barrier):
            for split, at in self.splits.items():
                self.states.write(barrier.curr, split, at)
            self.phase = "forwarding"

    def _command(self, mutation: Mutation) -> None:
        if mutation.pause is not None and mutation.pause == self.paused:
            self.warnings.append("already paused" if self.paused else "not paused")
        elif mutation.pause is not None:
            self.paused = mutation.pause
        if mutation.throttle is not None and mutation.throttle != (self._rate,):
            (self._rate,) = mutation.throttle
            self._permits = self._rate
            self._rebuild()

    def _report(self, barrier: Barrier) -> None:
        """Report the rows, or the end, which is reported once: nothing may be reported after it (R-SRC-27)."""
        if not self._reported_finish:
            self._reported_finish = all(at.kind != BACKFILLING for at in self.splits.values())
            kind = "finish" if self._reported_finish else "update"
            self.reports.append(Report(kind, barrier.curr, sum(at.rows for at in self.splits.values())))

    def _may_leave(self, barrier: Barrier) -> bool:
        """Judge the whole table, but only once a checkpoint after the report has made it readable (R-SRC-26)."""
        if self._awaited is None:
            self._awaited = barrier.prev if barrier.checkpoint else None
            return False
        owned_finished = all(at.kind == FINISHED for at in self.splits.values())
        return self.states.epoch >= self._awaited and owned_finished and self.states.all_finished()

    def _forward_barrier(self, barrier: Barrier) -> None:
        self.emitted.append(barrier)
        self._await_change(barrier)

    # -------------------------------------------------------------- split changes
    def _await_change(self, barrier: Barrier) -> None:
        change = barrier.mutation.splits
        if change is not None and change.owned != self.splits.keys():
            if not barrier.checkpoint:
                raise Fatal("splits change on a checkpoint only")
            self.change = barrier

    def _apply_change(self, barrier: Barrier) -> bool:
        """Adopt an assignment once the former owners' last states are committed (R-SRC-36)."""
        if self.states.epoch < barrier.prev:
            return False
        change, before = barrier.mutation.splits, self.splits
        assert change is not None
        self.splits = {}
        for split in sorted(change.owned):
            stored = before.get(split) or self.states.read(split)
            if self.phase == "forwarding" and stored is not None and stored.kind != FINISHED:
                raise Fatal(f"split {split} arrives unfinished after the backfill ended (R-SRC-38)")
            self.splits[split] = stored or Split(FINISHED)
            if split not in before:
                self.states.write(barrier.curr, split, self.splits[split])
        if not change.rescaled:
            for split in before.keys() - change.owned:
                self.states.write(barrier.curr, split, None)
        self._passed_over &= self.splits.keys()
        self.change = None
        if self.phase == "backfilling":
            self._rebuild()
        return True
