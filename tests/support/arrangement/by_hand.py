"""The arrangement strategy driven by hand over a table in memory: work ends when the test says so, commits are durable at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from support.reference.arrangement import Key, Values

from backfill_core.positions.key_line import KeyCut, KeyLine
from backfill_core.positions.key_order import KeyColumn, KeyOrder
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
    """One attempt over a table whose key is its last column; `target` is what the commits made of the target, by key."""

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
        columns = (KeyColumn(f"c{at}", one, directions[at]) for at, one in enumerate(types))
        self.space = KeySpace(KeyOrder(tuple(columns)), ("id",), vnodes)
        behind = rows_per_cut if rows_after is None else rows_after
        line = KeyLine(self.space, tuple(KeyCut(cut, rows_per_cut) for cut in cuts), behind)
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
        """Rows of each read."""

        self._next_id, self._epoch, self._tables = 1, Epoch(1, 1), 0
        self.commit()

    # -------------------------------------------------------------- the world
    @property
    def now(self) -> Now:
        """The moment."""
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
        """A second passes, and a barrier with it."""
        self.now_s += 1
        self.pass_barrier()

    def pass_barrier(self) -> None:
        """A barrier passes at this moment."""
        self.strategy.on(BarrierPassed(self._epoch, scheduled=True), self.now)

    def _permits(self, *, history: bool, changes: bool) -> Permits:
        return Permits(history, changes, checks=True, epoch=self._epoch, first_id=self._next_id)

    # -------------------------------------------------------------- steps
    def start(self, *, history: bool = True, changes: bool = True) -> list[ReadKeyRange | ApplyChanges | ProveKey]:
        """Let the strategy choose work; return what begins."""
        work = list(self.strategy.propose(self._permits(history=history, changes=changes), self.now))
        self._next_id += len(work)
        self.running |= {one.work_id: one for one in work}
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

    def lose(self, work: ReadKeyRange | ApplyChanges | ProveKey) -> None:
        """Let a piece of work fail."""
        del self.running[work.work_id]
        self.strategy.on(WorkLost(work.work_id), self.now)

    def commit(self, *, history: bool = True, changes: bool = True) -> CommitRequest:
        """Let a commit be prepared, and be durable; hold the target to what it stores."""
        request = self.prepare(history=history, changes=changes)
        self.seal(request)
        return request

    def prepare(self, *, history: bool = True, changes: bool = True) -> CommitRequest:
        """Let a commit be prepared; it is on its way until `seal`."""
        return self.strategy.prepare_commit(self._epoch, self._permits(history=history, changes=changes), self.now)

    def seal(self, request: CommitRequest) -> None:
        """Let a prepared commit be durable; hold the target to what it stores."""
        for file in request.files:
            rows: Any = file.handle
            for row in rows:
                assert row[-1] not in self.target, "a row of a chunk was there already"
                self.target[row[-1]] = row
        self._epoch = self._epoch.after(2 if request.announces else 1)
        self._tables += 1
        self.strategy.on(Sealed(self._epoch.number, self._tables, 0.1), self.now)
        self.check()

    def round(self) -> list[ReadKeyRange | ApplyChanges | ProveKey]:
        """Start what may start, end it in its order, and commit; return what it was."""
        work = self.start()
        for one in work:
            self.finish(one)
        self.commit()
        return work

    def run(self) -> None:
        """Go on until nothing starts and everything is caught up."""
        for _ in range(100):
            self.strategy.on(SourcePolled(Head(len(self.versions) - 1, 0)), self.now)
            self.second()
            if not self.round() and self.strategy.status.caught_up:
                return
        raise AssertionError("it does not come to its end")

    # -------------------------------------------------------------- what work does
    def at(self, row: Values) -> Any:
        """Return what rows are ordered by."""
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

    def _line(self, work: ReadKeyRange) -> KeyLine | None:
        """Cut a version behind every five rows, if the work asks for it."""
        if not work.takes_cuts:
            return None
        rows = sorted(self.versions[work.version], key=self.at)
        ends = [self._key.of(row) for row in rows[4::5]]
        return KeyLine(self.space, tuple(KeyCut(end, 5) for end in ends), len(rows) - 5 * len(ends))

    def _merge(self, work: ApplyChanges) -> ChangesApplied:
        old = {row[-1]: row for row in self.versions[work.after]}
        new = {row[-1]: row for row in self.versions[work.upto]}
        changed = [one for one in {**old, **new} if old.get(one) != new.get(one)]
        for one in changed:
            if one in new and (work.bound is None or self._within(new[one], work.bound.positions)):
                self.target[one] = new[one]
            else:
                self.target.pop(one, None)
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

    # -------------------------------------------------------------- what it says
    @property
    def stored(self) -> ArrangementStored:
        """What the newest commit stored, read from its JSON."""
        return decode(self.strategy.stored.encode())

    def check(self) -> None:
        """R-ARR-42: the target holds exactly the rows at or before the positions, as of the consumed version."""
        stored = self.stored
        there = [row for row in self.versions[stored.consumed] if self._within(row, stored.positions)]
        assert sorted(self.target.values(), key=self.at) == sorted(there, key=self.at)

    @property
    def bound(self) -> KeyBound | None:
        """What the newest batch was bounded by."""
        batches = [one for one in self.begun if isinstance(one, ApplyChanges)]
        return batches[-1].bound

    @property
    def chunks(self) -> list[tuple[Any, Any, int]]:
        """Low, high and version of each chunk that was begun."""
        return [(one.low, one.high, one.version) for one in self.begun if isinstance(one, ReadKeyRange)]


def ids(*keys: int) -> list[Values]:
    """Return rows of one column."""
    return [(key,) for key in keys]


def begun(**settings: Any) -> ByHand:
    """Return ten rows, a cut behind each, in chunks of one row, two side by side."""
    return ByHand([ids(*range(10))], cuts=ids(*range(9)), **{"chunk_rows": 1, **settings})
