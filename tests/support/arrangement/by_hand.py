"""The arrangement strategy driven by hand over a table in memory: a test ends each piece of work, and commits are durable at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from support.reference.arrangement import Key, Values
from support.simulation.batch_parts import in_part

from backfill_core.positions.change_parts import KeyPart
from backfill_core.positions.key_order import KeyColumn, KeyOrder
from backfill_core.positions.key_scan import KeyCut, KeyScan
from backfill_core.positions.vnode_positions import (
    Completed,
    KeyBound,
    KeySpace,
    NotStarted,
    Reached,
    UpTo,
    VnodePositions,
)
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import (
    BarrierPassed,
    Head,
    LimitSet,
    Sealed,
    SourcePolled,
    WorkFinished,
    WorkLost,
)
from backfill_core.protocol.strategy import CommitRequest, Opened, Permits, Pinned
from backfill_core.protocol.work import (
    ApplyChanges,
    ChangesApplied,
    ChangesCut,
    KeyProven,
    KeyRangeStaged,
    ProveKey,
    ReadKeyRange,
    StagedFile,
)
from backfill_core.strategies.arrangement.params import ArrangementSettings
from backfill_core.strategies.arrangement.stored import ArrangementStored, decode
from backfill_core.strategies.arrangement.strategy import ArrangementStrategy


class ByHand:
    """One attempt over a table whose key is its last column; `target` holds the committed rows by key."""

    def __init__(
        self,
        versions: Sequence[Iterable[Values]],
        *,
        key: Key | None = None,
        types: tuple[str, ...] = ("long",),
        cuts: Sequence[Values] = (),
        rows_per_cut: int = 1,
        vnodes: int = 1,
        vnode_of: Callable[[Values], int] = lambda row: 0,
        stored: ArrangementStored | None = None,
        last_txn: int | None = None,
        target: Iterable[Values] = (),
        proves_key: bool = False,
        key_proven: bool = False,
        splits_keys: bool = False,
        rows_after: int | None = None,
        **settings: Any,
    ) -> None:
        """Open at the newest version."""
        self.versions = [list(rows) for rows in versions]
        self._key = key or Key((0,))
        self._vnode_of = vnode_of
        self.target = {row[-1]: row for row in target}
        directions = self._key.descending or (False,) * len(types)
        columns = (KeyColumn(f"c{at}", type_, directions[at]) for at, type_ in enumerate(types))
        self.space = KeySpace(KeyOrder(tuple(columns)), ("id",), vnodes)
        behind = rows_per_cut if rows_after is None else rows_after
        line = KeyScan(self.space, tuple(KeyCut(cut, rows_per_cut) for cut in cuts), behind)
        newest = len(self.versions) - 1
        opened = Opened(
            Pinned(newest, 0, "table", "", (), len(self.versions[newest])),
            last_txn,
            proves_key=proves_key,
            key_proven=key_proven,
            splits_keys=splits_keys,
            line=line,
        )
        self.strategy = ArrangementStrategy(
            opened, line, ArrangementSettings(**{"merges": True, "filtered": False, **settings}), stored
        )
        self.now_s = 0.0
        self.running: dict[int, ReadKeyRange | ApplyChanges | ProveKey] = {}
        self.begun: list[ReadKeyRange | ApplyChanges | ProveKey] = []
        self.reads: list[int] = []
        """Number of rows of each read."""

        self._next_id, self._epoch, self._tables = 1, Epoch(1, 1), 0
        self.commit()

    # -------------------------------------------------------------- the world
    @property
    def now(self) -> Now:
        """Virtual time of the attempt."""
        return Now(self.now_s, 0)

    def change(self, *rows: Values) -> None:
        """Make a version of these rows, and let the strategy see it."""
        self.versions.append(list(rows))
        self.poll()

    def poll(self) -> None:
        """Let the strategy see the newest version."""
        self.strategy.on(SourcePolled(Head(len(self.versions) - 1, 0)), self.now)

    def limit(self, rows_per_s: int | None) -> None:
        """Set a limit."""
        self.strategy.on(LimitSet(rows_per_s, 1.0), self.now)

    def second(self) -> None:
        """Let a second pass, and a barrier with it."""
        self.now_s += 1
        self.pass_barrier()

    def pass_barrier(self) -> None:
        """Let a barrier pass now."""
        self.strategy.on(BarrierPassed(self._epoch, scheduled=True), self.now)

    def _permits(self, *, history: bool, changes: bool) -> Permits:
        return Permits(history, changes, checks=True, epoch=self._epoch, first_id=self._next_id)

    # -------------------------------------------------------------- steps
    def start(self, *, history: bool = True, changes: bool = True) -> list[ReadKeyRange | ApplyChanges | ProveKey]:
        """Let the strategy choose work; return the work that begins."""
        work = list(self.strategy.propose(self._permits(history=history, changes=changes), self.now))
        self._next_id += len(work)
        self.running |= {piece.work_id: piece for piece in work}
        self.begun += work
        return work

    def finish(self, work: ReadKeyRange | ApplyChanges | ProveKey) -> None:
        """Let a piece of work end well; a MERGE changes the target at once."""
        del self.running[work.work_id]
        match work:
            case ReadKeyRange():
                self.strategy.on(WorkFinished(self._read(work)), self.now)
            case ApplyChanges():
                self.strategy.on(WorkFinished(self._merge(work)), self.now)
            case ProveKey():
                self.strategy.on(WorkFinished(KeyProven(work.work_id)), self.now)

    def cut(self, work: ReadKeyRange | ApplyChanges | ProveKey, *keys: int) -> None:
        """Answer a batch with cuts after some keys."""
        del self.running[work.work_id]
        order = KeyOrder((KeyColumn("id", "long"),))
        self.strategy.on(WorkFinished(ChangesCut(work.work_id, order, tuple((key,) for key in keys))), self.now)

    def lose(self, work: ReadKeyRange | ApplyChanges | ProveKey) -> None:
        """Let a piece of work fail."""
        del self.running[work.work_id]
        self.strategy.on(WorkLost(work.work_id), self.now)

    def commit(self, *, history: bool = True, changes: bool = True) -> CommitRequest:
        """Prepare a commit and make it durable; compare the target with the stored state."""
        request = self.prepare(history=history, changes=changes)
        self.seal(request)
        return request

    def prepare(self, *, history: bool = True, changes: bool = True) -> CommitRequest:
        """Prepare a commit; it is in flight until `seal`."""
        return self.strategy.prepare_commit(self._epoch, self._permits(history=history, changes=changes), self.now)

    def seal(self, request: CommitRequest) -> None:
        """Make a prepared commit durable; compare the target with the stored state."""
        for file in request.files:
            rows: Any = file.handle
            for row in rows:
                assert row[-1] not in self.target, "a row of a chunk already exists"
                self.target[row[-1]] = row
        self._epoch = self._epoch.after(2 if request.announces else 1)
        self._tables += 1
        self.strategy.on(Sealed(self._epoch.number, self._tables, 0.1), self.now)
        self.check()

    def round(self) -> list[ReadKeyRange | ApplyChanges | ProveKey]:
        """Start all work that may start, end it in order, and commit; return the work."""
        work = self.start()
        for piece in work:
            self.finish(piece)
        self.commit()
        return work

    def run(self) -> None:
        """Continue until nothing starts and the strategy is caught up."""
        for _ in range(100):
            self.strategy.on(SourcePolled(Head(len(self.versions) - 1, 0)), self.now)
            self.second()
            if not self.round() and self.strategy.status.caught_up:
                return
        raise AssertionError("the strategy does not catch up")

    # -------------------------------------------------------------- what work does
    def at(self, row: Values) -> Any:
        """Return the value that orders rows."""
        return self._key.order(self._key.of(row))

    def _read(self, work: ReadKeyRange) -> KeyRangeStaged:
        chosen = {vnode for span in work.vnodes for vnode in range(*span)}
        rows = sorted((row for row in self.versions[work.version] if self._vnode_of(row) in chosen), key=self.at)
        if work.low is not None:
            rows = [row for row in rows if self.at(row) > self._key.order(work.low)]
        if work.high is not None:
            rows = [row for row in rows if self.at(row) <= self._key.order(work.high)]
        taken = rows[: work.rows_max]
        self.reads.append(len(taken))
        cut_off = bool(taken) and len(taken) == work.rows_max
        files = (StagedFile(f"s{work.work_id}", 1, len(taken), taken),) if taken else ()
        last = self._key.of(taken[-1]) if cut_off else None
        return KeyRangeStaged(work.work_id, files, len(taken), last, self._line(work) if cut_off else None)

    def _line(self, work: ReadKeyRange) -> KeyScan | None:
        """Cut a version after every five rows, if the work asks for it."""
        if not work.takes_cuts:
            return None
        rows = sorted(self.versions[work.version], key=self.at)
        ends = [self._key.of(row) for row in rows[4::5]]
        return KeyScan(self.space, tuple(KeyCut(end, 5) for end in ends), len(rows) - 5 * len(ends))

    def _merge(self, work: ApplyChanges) -> ChangesApplied:
        old = {row[-1]: row for row in self.versions[work.after]}
        new = {row[-1]: row for row in self.versions[work.upto]}
        changed = [key for key in {**old, **new} if old.get(key) != new.get(key) and in_part(work.part, key)]
        for key in changed:
            if key in new and (work.bound is None or self._within(new[key], work.bound.positions)):
                self.target[key] = new[key]
            else:
                self.target.pop(key, None)
        return ChangesApplied(work.work_id, len(changed))

    def _reached(self, row: Values, positions: VnodePositions) -> Reached:
        return [reached for count, reached in positions.runs for _ in range(count)][self._vnode_of(row)]

    def _within(self, row: Values, positions: VnodePositions) -> bool:
        match self._reached(row, positions):
            case NotStarted():
                return False
            case UpTo(position=position):
                return self.at(row) <= self._key.order(position)
            case Completed():
                return True

    # -------------------------------------------------------------- state
    @property
    def stored(self) -> ArrangementStored:
        """State that the newest commit stored, read from its JSON."""
        return decode(self.strategy.stored.encode())

    def check(self) -> None:
        """Assert R-ARR-42: the target holds exactly the rows at or before the positions, at the consumed version.

        Between two parts of a batch, the keys of the merged parts have the rows of its last version.
        """
        stored = self.stored
        rows, parts = self.versions[stored.consumed], stored.parts
        if parts is not None and parts.done:
            merged = KeyPart(parts.order, None, parts.cuts[parts.done - 1])
            rows = [row for row in rows if not in_part(merged, row[-1])]
            rows += [row for row in self.versions[parts.upto] if in_part(merged, row[-1])]
        expected = [row for row in rows if self._within(row, stored.positions)]
        assert sorted(self.target.values(), key=self.at) == sorted(expected, key=self.at)

    @property
    def bound(self) -> KeyBound | None:
        """Bound of the newest batch."""
        batches = [work for work in self.begun if isinstance(work, ApplyChanges)]
        return batches[-1].bound

    @property
    def chunks(self) -> list[tuple[Any, Any, int]]:
        """Low, high and version of each chunk that was begun."""
        return [(work.low, work.high, work.version) for work in self.begun if isinstance(work, ReadKeyRange)]


def ids(*keys: int) -> list[Values]:
    """Return rows of one column."""
    return [(key,) for key in keys]


def begun(**settings: Any) -> ByHand:
    """Return ten rows, a cut after each, in chunks of one row, two concurrently."""
    return ByHand([ids(*range(10))], cuts=ids(*range(9)), **{"chunk_rows": 1, **settings})
