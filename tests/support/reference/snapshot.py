"""Snapshot backfill, row by row, by semantics 2.2 (SNAP-new with the fixes): the reference model for other implementations.

It uses nothing of the implementation under test. A table has vnodes (`key % vnodes`), versions by epoch, and a change log by
epoch. The machine has two input queues (`upstream`, `injected`) and one output list; `poll` does one step. A checkpoint barrier
makes everything before it durable: `durable()` is the state of a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from support.reference.vocabulary import Barrier, Builder, Chunk, Fatal, Message, Mutation, Progress, Report, Row, Table


# ------------------------------------------------------------------ the executor
class ReferenceSnapshot:
    """One actor. Phases: `start`, `snapshot`, `passing`, `log`, `live`."""

    def __init__(
        self,
        table: Table,
        snapshot_epoch: int | None,
        *,
        vnodes: Iterable[int] = (0,),
        stored: Mapping[int, Progress] | None = None,
        chunk_size: int = 256,
        rate_limit: int | None = None,
        project: Callable[[Row], Row] = lambda row: row,
        slowable: bool = True,
    ) -> None:
        """Begin with the stored state of a former run, if any; nothing is emitted before both first barriers.

        `slowable`: an upstream that is not drained waits. One that cannot be slowed arrives regardless of the limit.
        """
        self.upstream: deque[Message] = deque()
        self.injected: deque[Barrier] = deque()
        self.emitted: list[Message] = []
        self.reports: list[Report] = []
        self.stored: dict[int, Progress] = dict(stored or {})
        self.phase = "start"
        self.pending: list[Barrier] = []
        self.polling = False
        self.limit = 0.0
        self.consumed = 0
        self.discarded = 0
        self.paused = False
        self._table, self._epoch, self._vnodes = table, snapshot_epoch, frozenset(vnodes)
        self._chunk_size, self._rate, self._project, self._slowable = chunk_size, rate_limit, project, slowable
        self._permits = rate_limit
        self._chain: int | None = None
        self._readers: dict[int, deque[Row]] = {}
        self._counts: dict[int, int] = {}
        self._exhausted = False
        self._stepped: Barrier | None = None
        self._owes_finish = False
        self._live_rows = 0
        self._durable: tuple[dict[int, Progress], int] = (dict(self.stored), 0)
        self._builder = Builder(chunk_size, self._emit)

    # -------------------------------------------------------------- environment
    def second(self) -> None:
        """Let a second pass: it gives the permits of the limit, unused ones are not kept."""
        self._permits = self._rate

    def durable(self) -> tuple[dict[int, Progress], int]:
        """Return the progress of the last checkpoint, and the number of emitted messages that belong to it."""
        return self._durable

    def run(self) -> None:
        """Poll until there is nothing to do."""
        while self.poll():
            pass

    def poll(self) -> bool:
        """Do one step: drain the upstream first, then a barrier, then a row (R-SNAP-40)."""
        if self.phase == "start":
            return self._start()
        if self.phase == "live":
            return self._live()
        if self.upstream and self._drain_allowed():
            self._drain()
            return True
        if self.injected:
            return self._on_injected(self.injected[0])
        return self.phase == "snapshot" and self._read_row()

    # -------------------------------------------------------------- output and progress
    def _emit(self, message: Message) -> None:
        if isinstance(message, Chunk):
            message = Chunk(tuple((op, self._project(row)) for op, row in message.rows))
        self.emitted.append(message)

    def _close(self, barrier: Barrier) -> None:
        """Commit, then emit the barrier (R-SNAP-35)."""
        committed = dict(self.stored)
        self._emit(barrier)
        if barrier.checkpoint:
            self._durable = (committed, len(self.emitted))

    def store(self, vnode: int, new: Progress) -> None:
        """Check and keep a vnode's progress (R-SNAP-36)."""
        old = self.stored.get(vnode)
        if old is not None and old != new:
            if new.epoch < old.epoch or (new.epoch == old.epoch and old.finished):
                raise Fatal(f"progress of vnode {vnode} goes back: {old} to {new}")
            if new.epoch == old.epoch and new.rows < old.rows:
                raise Fatal(f"row count of vnode {vnode} goes back: {old} to {new}")
            stuck = new.position is not None and old.position is not None and new.position <= old.position
            if new.epoch == old.epoch and stuck:
                raise Fatal(f"position of vnode {vnode} goes back: {old} to {new}")
        self.stored[vnode] = new

    def _is_consumed(self, vnode: int, epoch: int) -> bool:
        progress = self.stored.get(vnode)
        return progress is not None and progress.finished and progress.epoch == epoch

    def _next_in_chain(self, barrier: Barrier) -> None:
        if self._chain is not None and barrier.prev != self._chain:
            raise Fatal(f"barrier {barrier.pair} does not follow {self._chain} (R-SNAP-12)")
        self._chain = barrier.curr

    def _apply(self, mutation: Mutation) -> None:
        if mutation.pause is not None:
            self.paused = mutation.pause
        if mutation.throttle is not None:
            (self._rate,) = mutation.throttle
            self._permits = self._rate

    # -------------------------------------------------------------- startup
    def _start(self) -> bool:
        if not self.upstream or not self.injected:
            return False
        first, own = self.upstream.popleft(), self.injected.popleft()
        if not isinstance(first, Barrier):
            raise Fatal("the first message must be a barrier")
        needed = first.pair != own.pair
        if needed and self._epoch is None:
            raise Fatal("a backfill needs a snapshot epoch")
        if needed and self._epoch is not None:
            self._check_epoch(self._epoch, first)
        self._next_in_chain(own)
        self._close(own)
        self._apply(own.mutation)
        if not needed:
            if not all(self._is_consumed(vnode, first.prev) for vnode in self._vnodes):
                raise Fatal("not backfilled up to the first barrier (R-SNAP-2)")
            self._owes_finish, self.phase = True, "live"
            return True
        self._hold_first(first)
        assert self._epoch is not None
        if own.prev >= self._epoch:
            self._begin_log(own.prev)
        else:
            self._open_readers(self._epoch)
        return True

    def _check_epoch(self, epoch: int, first: Barrier) -> None:
        if epoch > first.prev:
            raise Fatal("the snapshot is younger than the upstream (R-SNAP-4)")

    def _hold_first(self, first: Barrier) -> None:
        self._keep(first)

    def _open_readers(self, epoch: int) -> None:
        """Start each vnode at its stored position, inclusive; finished ones are not read (R-SNAP-6)."""
        for vnode in sorted(self._vnodes):
            progress = self.stored.get(vnode)
            self._counts[vnode] = progress.rows if progress else 0
            rows = [] if progress and progress.finished else self._table.rows(epoch, vnode)
            start = progress.position if progress else None
            self._readers[vnode] = deque(row for row in rows if start is None or row[0] >= start)
        self.phase = "snapshot"
        self._exhausted = not any(self._readers.values())

    # -------------------------------------------------------------- draining the upstream
    def _keep(self, message: Message) -> None:
        if isinstance(message, Barrier):
            self.pending.append(message)
            self.polling = not message.checkpoint
        else:
            self.discarded += 1
            self.polling = True

    def _drain(self) -> None:
        self._keep(self.upstream.popleft())

    def _drain_allowed(self) -> bool:
        if self.phase in ("snapshot", "passing"):
            return True
        return self.polling or self.lag < self.limit or not self._slowable

    @property
    def lag(self) -> int:
        """Return the epochs between the consumed one and the newest pending barrier."""
        return self.pending[-1].prev - self.consumed if self.pending else 0

    @property
    def _groups(self) -> int:
        return sum(barrier.checkpoint for barrier in self.pending)

    @property
    def _is_due(self) -> bool:
        """Return whether a checkpoint group waits to be consumed."""
        return self._groups > 0

    # -------------------------------------------------------------- phase 1
    def _read_row(self) -> bool:
        if self.paused or self._permits == 0 or self._exhausted:
            return False
        # All vnodes are read concurrently: the one with the fewest rows goes first.
        vnode = min(
            (vnode_ for vnode_, rows in self._readers.items() if rows),
            key=lambda vnode_: (self._counts[vnode_], vnode_),
            default=None,
        )
        if vnode is None:
            self._builder.flush()
            self._exhausted = True
            return True
        if self._permits is not None:
            self._permits -= 1
        self._counts[vnode] += 1
        self._builder.add(("+", self._readers[vnode].popleft()))
        return True

    def _on_injected(self, barrier: Barrier) -> bool:
        if self.phase == "log":
            return self._log_step(barrier)
        self.injected.popleft()
        self._next_in_chain(barrier)
        if self.phase == "snapshot":
            self._snapshot_barrier(barrier)
        else:
            self._passing_barrier(barrier)
        self._apply(barrier.mutation)
        return True

    def _snapshot_barrier(self, barrier: Barrier) -> None:
        assert self._epoch is not None
        finishing = self._exhausted
        if not finishing and barrier.curr >= self._epoch:
            raise Fatal("rows of the snapshot remain at its epoch (R-SNAP-13)")
        self._builder.flush()
        for vnode, rows in self._readers.items():
            position = rows[0][0] if rows else None
            if (old := self.stored.get(vnode)) is None or not old.finished:
                self.store(vnode, Progress(self._epoch, self._counts[vnode], not rows, position))
        self.reports.append(Report("finish" if finishing else "update", barrier.curr, sum(self._counts.values())))
        self._close(barrier)
        # A paused executor never finishes, even if nothing is left to read.
        self._exhausted = finishing or not (any(self._readers.values()) or self.paused)
        if finishing:
            self.phase = "passing"

    def _passing_barrier(self, barrier: Barrier) -> None:
        """Pass a barrier between the end of the snapshot and its epoch; the barrier after that carries no data (R-SNAP-18)."""
        assert self._epoch is not None
        if barrier.prev < self._epoch < barrier.curr:
            raise Fatal("the snapshot's epoch was jumped over")
        self._close(barrier)
        if barrier.prev == self._epoch:
            self._begin_log(self._epoch)

    # -------------------------------------------------------------- phase 2
    def _begin_log(self, consumed: int) -> None:
        # A quirk: the first limit is measured from epoch 0, so it is practically unlimited.
        self.limit = float(self.pending[-1].prev) if self.pending else 0.0
        self.consumed = consumed
        if self.pending and self.pending[0].prev == consumed:
            self.pending.pop(0)
        self._enter_log()

    def _enter_log(self) -> None:
        self.phase = "log"
        if not self._is_due and not self.polling:
            self._owes_finish, self.phase = True, "live"

    def _log_step(self, barrier: Barrier) -> bool:
        if self._stepped is None:
            if not self._is_due:
                if not self.upstream:
                    return False
                self._drain()
                return True
            self._next_in_chain(barrier)
            self._step(barrier)
            self._stepped = barrier
        if not self._table.committed(barrier.prev):
            return False
        self.injected.popleft()
        self._stepped = None
        self._replay(barrier)
        return True

    def _step(self, barrier: Barrier) -> None:
        """Take one barrier off the pending ones, drain as far as allowed, shrink the limit (R-SNAP-23, R-SNAP-25)."""
        oldest = self.pending[0]
        if oldest.prev < barrier.prev:
            raise Fatal("a pending barrier is older than the consumed epoch (R-SNAP-27)")
        if oldest.prev == barrier.prev:
            if oldest.pair != barrier.pair:
                raise Fatal("the pending barrier does not match the injected one (R-SNAP-27)")
            self.pending.pop(0)
        elapsed, self.consumed = barrier.prev - self.consumed, barrier.prev
        while self._groups and self.upstream and self._drain_allowed():
            self._drain()
        self.limit = max(0.0, min(self.lag, self.limit - elapsed / 2))

    def _replay(self, barrier: Barrier) -> None:
        """Emit exactly the changes of the epoch that the barrier closes (R-SNAP-19)."""
        builder = Builder(self._chunk_size, self._emit)
        for vnode in sorted(self._vnodes):
            counted = 0
            for kind, row, new in self._table.changes(barrier.prev, vnode):
                if kind == "update":
                    assert new is not None
                    builder.add(("U-", row), ("U+", new))
                    counted += 2
                else:
                    builder.add(("+" if kind == "insert" else "-", row))
                    counted += 1
            self.store(vnode, Progress(barrier.prev, counted, finished=True, position=None))
        builder.flush()
        finished = not self._is_due and not self.polling
        self._report_log(barrier, finished=finished)
        self._close(barrier)
        self._apply(barrier.mutation)
        if barrier.mutation.vnodes is not None:
            raise Fatal("vnodes cannot change while the log is replayed (R-SNAP-33)")
        if finished:
            self.phase = "live"

    def _report_log(self, barrier: Barrier, *, finished: bool) -> None:
        if finished and self.lag:
            raise Fatal("finished with a lag")
        self.reports.append(Report("finish log" if finished else "update log", barrier.curr, self.lag))

    # -------------------------------------------------------------- phase 3
    def _live(self) -> bool:
        if self.upstream and not isinstance(self.upstream[0], Barrier):
            message = self.upstream.popleft()
            if isinstance(message, Chunk):
                message = Chunk(tuple(_split_key_changes(message.rows)))
                self._live_rows += len(message.rows)
            self._emit(message)
            return True
        if not self.upstream or not self.injected:
            return False
        barrier, own = self.upstream.popleft(), self.injected.popleft()
        assert isinstance(barrier, Barrier)
        if barrier.pair != own.pair:
            raise Fatal("the inputs' barriers do not match")
        self._next_in_chain(own)
        for vnode in self._vnodes:
            self.store(vnode, Progress(own.prev, self._live_rows, finished=True, position=None))
        self._live_rows = 0
        if self._owes_finish:
            self._owes_finish = False
            self.reports.append(Report("finish log", own.curr, 0))
        self._close(own)
        if own.mutation.vnodes is not None:
            self._adopt(own.mutation.vnodes, own.prev)
        return True

    def _adopt(self, vnodes: frozenset[int], epoch: int) -> None:
        """Own other vnodes from now on; the former owner must have brought each to this epoch."""
        for vnode in vnodes:
            if not self._is_consumed(vnode, epoch):
                raise Fatal(f"vnode {vnode} is not consumed at {epoch}")
        self._vnodes = vnodes


def _split_key_changes(rows: Iterable[tuple[str, Row]]) -> Iterable[tuple[str, Row]]:
    """Rewrite update pairs that change the key as a delete and an insert (R-SNAP-48)."""
    before: Row | None = None
    for op, row in rows:
        if op == "U-":
            before = row
            continue
        if op == "U+" and before is not None:
            same = before[0] == row[0]
            yield ("U-" if same else "-", before)
            yield ("U+" if same else "+", row)
            before = None
            continue
        yield (op, row)
