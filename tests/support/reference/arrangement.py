"""Arrangement backfill, row by row, by semantics 2.1 with its fixes: the reference model for other implementations.

It uses nothing of the implementation under test. A row is a tuple of values. The machine has one input queue (`upstream`), a
shadow of the upstream table (`replica`) and one output list; `poll` does one step. A checkpoint barrier makes everything before
it durable: `durable()` is the state of a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

from support.reference.vocabulary import Barrier, Fatal, Report, Watermark

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """A chunk of rows with an operation each: `+`, `-`, `U-`, `U+`."""

    rows: tuple[tuple[str, Values], ...]


Input = Barrier | Rows | Watermark


@total_ordering
class _Part:
    """One column of a key: NULL is the largest value; DESC reverses the order."""

    def __init__(self, value: Any, *, descending: bool) -> None:
        self._value, self._descending = value, descending

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Part) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __lt__(self, other: _Part) -> bool:
        if self == other:
            return False
        left, right = (other._value, self._value) if self._descending else (self._value, other._value)
        return right is None if left is None or right is None else bool(left < right)


@dataclass(frozen=True, slots=True)
class Key:
    """Columns that sort rows inside a vnode, each with its direction."""

    columns: tuple[int, ...]
    descending: tuple[bool, ...] = ()

    def of(self, row: Values) -> Values:
        """Return the stored key of a row."""
        return tuple(row[column] for column in self.columns)

    def order(self, key: Values) -> tuple[_Part, ...]:
        """Return the sort key of a key."""
        directions = self.descending or (False,) * len(self.columns)
        return tuple(_Part(value, descending=down) for value, down in zip(key, directions, strict=True))


@dataclass(frozen=True, slots=True)
class VnodeProgress:
    """The stored row of a vnode. `position` is the key of the last emitted snapshot row; `None` if nothing was emitted."""

    position: Values | None
    finished: bool
    rows: int


class ReferenceArrangement:
    """One actor. Phases: `start`, `backfilling`, `finishing`, `forwarding`."""

    def __init__(
        self,
        table: Iterable[Values],
        key: Key,
        *,
        vnode_of: Callable[[Values], int] = lambda row: 0,
        vnodes: Iterable[int] = (0,),
        stored: Mapping[int, VnodeProgress] | None = None,
        chunk_size: int = 256,
        rate_limit: int | None = None,
        output: tuple[int, ...] | None = None,
        newly_added: bool = True,
        paused: bool = False,
    ) -> None:
        """Begin with the upstream at the first barrier's `prev`, and with the stored state of a former run."""
        self.upstream: deque[Input] = deque()
        self.emitted: list[Input] = []
        self.reports: list[Report] = []
        self.stored: dict[int, VnodeProgress] = dict(stored or {})
        self.phase = "start"
        self.paused = paused
        self.writes = 0
        self.scanned: list[int] = []
        """The vnodes of each scan of the upstream, scan after scan."""

        self._key, self._vnode_of, self._vnodes = key, vnode_of, tuple(sorted(vnodes))
        self.replica: dict[Values, Values] = {key.of(row): row for row in table if vnode_of(row) in self._vnodes}
        self._chunk_size, self._rate, self._permits = chunk_size, rate_limit, rate_limit
        self._output, self._newly_added = output, newly_added
        self._now: dict[int, VnodeProgress] = dict(self.stored)
        self._buffer: list[Rows] = []
        self._builders: dict[int, list[Values]] = {vnode: [] for vnode in self._vnodes}
        self._reader: deque[Values] | None = None
        self._saw_snapshot = False
        self._already = False
        self._durable: tuple[dict[int, VnodeProgress], int] = (dict(self.stored), 0)

    # -------------------------------------------------------------- environment
    def second(self) -> None:
        """Let a second pass: it gives the permits of the limit, unused ones are not kept."""
        self._permits = self._rate

    def durable(self) -> tuple[dict[int, VnodeProgress], int]:
        """Return the progress of the last checkpoint, and the number of emitted messages that belong to it."""
        return self._durable

    def run(self) -> None:
        """Poll until there is nothing to do."""
        while self.poll():
            pass

    def poll(self) -> bool:
        """Do one step: an upstream message first, then a snapshot row (R-ARR-10)."""
        if self.upstream:
            self._take(self.upstream.popleft())
            return True
        if self.phase == "backfilling" and self._may_read():
            self._read()
            return True
        return False

    # -------------------------------------------------------------- upstream
    def _take(self, message: Input) -> None:
        if self.phase == "start":
            self._start(message)
        elif self.phase == "backfilling":
            if isinstance(message, Barrier):
                self._close_epoch(message)
            elif isinstance(message, Rows):
                self._buffer.append(message)
        elif isinstance(message, Barrier):
            self._pass_barrier(message)
        else:
            self._emit(message)

    def _start(self, first: Input) -> None:
        if not isinstance(first, Barrier):
            raise Fatal("the first message must be a barrier")
        self._emit(first)
        self._already = all(self._is_finished(vnode) for vnode in self._vnodes)
        if self._already and self._newly_added:
            raise Fatal("a new job is stored as finished (R-ARR-5)")
        self.phase = "finishing" if self._already else "backfilling"

    def _pass_barrier(self, barrier: Barrier) -> None:
        """Forward a barrier; the first one after the snapshot stores and reports the end."""
        if self.phase == "finishing":
            if not self._already:
                self._complete()
            self.reports.append(Report("finish", barrier.curr, self.total))
            self.phase = "forwarding"
        self._commit(barrier)

    # -------------------------------------------------------------- reading the snapshot
    @property
    def total(self) -> int:
        """Return the rows that were emitted from the snapshot, also before a restart (R-ARR-32)."""
        return sum(progress.rows for progress in self._now.values())

    def _is_finished(self, vnode: int) -> bool:
        return vnode in self._now and self._now[vnode].finished

    def _may_read(self) -> bool:
        return not self.paused and self._rate != 0 and self._permits != 0

    def _open_reader(self) -> deque[Values]:
        """Read the upstream at the previous barrier, after each vnode's position; skip finished vnodes."""
        if self._reader is None:
            waiting = []
            for vnode in self._vnodes:
                at = self._now.get(vnode)
                if at is not None and (at.finished or at.position == ()):
                    continue  # () was read before: a table without a key holds one row (R-ARR-40)
                self.scanned.append(vnode)
                rows_ = sorted(
                    (row for row in self.replica.values() if self._vnode_of(row) == vnode),
                    key=lambda row: self._key.order(self._key.of(row)),
                )
                waiting += [
                    row for row in rows_ if at is None or at.position is None or not self._reached(at.position, row)
                ]
            self._reader = deque(waiting)
        return self._reader

    def _reached(self, position: Values, row: Values) -> bool:
        return self._key.order(self._key.of(row)) <= self._key.order(position)

    def _read(self) -> None:
        """Take one item of the snapshot; its end emits the buffer, unfiltered (R-ARR-22)."""
        reader = self._open_reader()
        self._saw_snapshot = True
        if reader:
            self._build(reader.popleft())
            return
        self._flush()
        for chunk in self._buffer:
            self._emit(chunk)
        self._buffer.clear()
        self.phase = "finishing"

    def _build(self, row: Values) -> None:
        if self._permits is not None:
            self._permits -= 1
        vnode = self._vnode_of(row)
        self._builders[vnode].append(row)
        size = self._chunk_size if not self._rate else min(self._chunk_size, max(2, self._rate))
        if len(self._builders[vnode]) >= size:
            self._flush_one(vnode)

    def _flush(self) -> None:
        for vnode in self._vnodes:
            self._flush_one(vnode)

    def _flush_one(self, vnode: int) -> None:
        rows, self._builders[vnode] = self._builders[vnode], []
        if rows:
            self._emit(Rows(tuple(("+", row) for row in rows)))
            before = self._now[vnode].rows if vnode in self._now else 0
            self._now[vnode] = VnodeProgress(self._key.of(rows[-1]), finished=False, rows=before + len(rows))

    # -------------------------------------------------------------- a barrier while backfilling
    def _close_epoch(self, barrier: Barrier) -> None:
        """Handle a barrier, in the order of the rules."""
        complete = False
        if not self._saw_snapshot and self._may_read():
            reader = self._open_reader()  # minimum progress (R-ARR-18)
            if reader:
                self._build(reader.popleft())
            else:
                complete = True
        self._flush()
        for chunk in self._buffer:
            self._emit(chunk if complete else self._marked(chunk))
            self._replicate(chunk)
        self._buffer.clear()
        self.reports.append(Report("update", barrier.curr, self.total))
        if complete:
            self._complete()
        self._commit(barrier)
        if barrier.mutation.pause is not None:
            self.paused = barrier.mutation.pause
        if barrier.mutation.throttle is not None:
            (self._rate,) = barrier.mutation.throttle
            self._permits = self._rate
        self._reader, self._saw_snapshot = None, False
        if complete:
            self.phase, self._already = "finishing", True

    def _complete(self) -> None:
        for vnode in self._vnodes:
            at = self._now.get(vnode, VnodeProgress(None, finished=False, rows=0))
            self._now[vnode] = VnodeProgress(at.position, finished=True, rows=at.rows)

    def _visible(self, row: Values) -> bool:
        at = self._now.get(self._vnode_of(row))
        if at is None:
            return False
        return at.finished or (at.position is not None and self._reached(at.position, row))

    def _marked(self, chunk: Rows) -> Rows:
        """Remove rows that the snapshot will still read; half of an update becomes an insert or a delete (R-ARR-17)."""
        kept: list[tuple[str, Values]] = []
        rows = iter(chunk.rows)
        for op, row in rows:
            if op != "U-":
                kept += [(op, row)] if self._visible(row) else []
                continue
            _, new = next(rows)
            old_seen, new_seen = self._visible(row), self._visible(new)
            if old_seen and new_seen:
                kept += [("U-", row), ("U+", new)]
            elif old_seen or new_seen:
                kept.append(("-", row) if old_seen else ("+", new))
        return Rows(tuple(kept))

    def _replicate(self, chunk: Rows) -> None:
        """Write a chunk in full to the shadow, visible or not (R-ARR-15)."""
        for op, row in chunk.rows:
            if op in ("-", "U-"):
                self.replica.pop(self._key.of(row), None)
            else:
                self.replica[self._key.of(row)] = row

    # -------------------------------------------------------------- output and progress
    def _emit(self, message: Input) -> None:
        if isinstance(message, Rows):
            if not message.rows:
                return
            if self._output is not None:
                columns = self._output
                message = Rows(tuple((op, tuple(row[at] for at in columns)) for op, row in message.rows))
        if isinstance(message, Watermark) and self._output is not None and 0 not in self._output:
            return
        self.emitted.append(message)

    def _commit(self, barrier: Barrier) -> None:
        """Store the vnodes that changed, then emit the barrier (R-ARR-27)."""
        for vnode, progress in self._now.items():
            old = self.stored.get(vnode)
            if progress != old:
                if old is not None and (old.finished or progress.rows < old.rows):
                    raise Fatal(f"progress of vnode {vnode} goes back: {old} to {progress}")
                self.stored[vnode] = progress
                self.writes += 1
        self._emit(barrier)
        if barrier.checkpoint:
            self._durable = (dict(self.stored), len(self.emitted))
