"""The row-by-row machine of snapshot backfill against a plain table, for any order of messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest
from support.reference.snapshot import ReferenceSnapshot
from support.reference.vocabulary import Barrier, Chunk, Message, Progress, Row, Table


class _History:
    """A random upstream: epochs 10 apart from 100 on, its messages, and its tables."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.state = dict.fromkeys(range(self.rng.choice([0, 1, 9])), 0)
        self.table = Table(2, {100: dict(self.state)})
        self.states = {100: dict(self.state)}
        self.messages: list[Message] = [Barrier(100, 110)]
        for epoch in range(110, 110 + 10 * self.rng.randint(1, 15), 10):
            self._epoch(epoch)

    def _epoch(self, epoch: int) -> None:
        rng, log = self.rng, list[tuple[str, Row, Row | None]]()
        for key in rng.sample(range(12), rng.randint(0, 4)):
            before = self.state.get(key)
            if before is None:
                self.state[key] = epoch
                log.append(("insert", (key, epoch), None))
            elif rng.random() < 0.5:
                log.append(("delete", (key, self.state.pop(key)), None))
            else:
                self.state[key] = epoch
                log.append(("update", (key, before), (key, epoch)))
        self.table.log[epoch] = log
        self.states[epoch] = dict(self.state)
        if log:
            self.messages.append(Chunk(tuple(_as_ops(log))))
        self.messages.append(Barrier(epoch, epoch + 10, checkpoint=rng.random() < 0.7))


def _as_ops(log: list[tuple[str, Row, Row | None]]) -> Iterable[tuple[str, Row]]:
    for kind, row, new in log:
        if kind == "update" and new is not None:
            yield from (("U-", row), ("U+", new))
        else:
            yield ("+" if kind == "insert" else "-", row)


def played(messages: Iterable[Message]) -> Counter[Row]:
    """Return the rows of a consumer after these messages; a duplicate or unknown row shows as a count."""
    rows = Counter[Row]()
    for message in messages:
        for op, row in message.rows if isinstance(message, Chunk) else ():
            rows[row] += 1 if op in ("+", "U+") else -1
    return Counter({row: count for row, count in rows.items() if count})


class _Play:
    """A control plane, an upstream and crashes around the machine; checks each emitted barrier."""

    def __init__(self, seed: int) -> None:
        self.history, self.rng = _History(seed), Random(seed + 1)
        self.real = {message.prev: message for message in self.history.messages if isinstance(message, Barrier)}
        self.kept = list[Message]()
        self.stored = dict[int, Progress]()
        self.crashes = 0
        self._own, self._first = Barrier(0, 1), self.real[100]

    def run(self) -> None:
        """Continue until the last barrier of the upstream was emitted."""
        while not self._attempt():
            self.crashes += 1
            assert self.crashes < 200

    def _attempt(self) -> bool:
        table, rng = self.history.table, self.rng
        executor = ReferenceSnapshot(table, 100, vnodes=range(2), stored=self.stored, chunk_size=rng.choice([1, 2, 5]))
        messages = self.history.messages
        at = next(index for index, message in enumerate(messages) if message == self.real[self._first.prev]) + 1
        executor.upstream.append(self._first)
        executor.injected.append(self._own)
        curr, last = self._own.curr, messages[-1]
        assert isinstance(last, Barrier)
        while rng.random() > 0.01:
            if at < len(messages) and rng.random() < 0.4:
                executor.upstream.append(messages[at])
                at += 1
            sent = {message.prev for message in messages[:at] if isinstance(message, Barrier)}
            if executor.phase != "start" and not executor.injected and rng.random() < 0.3:
                following = self._next(executor, curr)
                if following is not None and (following.prev < 100 or following.prev in sent):
                    executor.injected.append(following)
                    curr = following.curr
            if executor.poll() and isinstance(executor.emitted[-1], Barrier):
                self._check(executor, executor.emitted[-1])
                if executor.emitted[-1].pair == last.pair:
                    return True
        self._recover(executor, [message for message in messages[:at] if isinstance(message, Barrier)])
        return False

    def _next(self, executor: ReferenceSnapshot, curr: int) -> Barrier | None:
        """Return fake epochs until the snapshot is finished, then its own, then the real ones."""
        if curr >= 100:
            return self.real.get(curr)
        return Barrier(curr, 100) if executor.phase == "passing" else Barrier(curr, curr + 1, self.rng.random() < 0.7)

    def _check(self, executor: ReferenceSnapshot, barrier: Barrier) -> None:
        rows = played([*self.kept, *executor.emitted])
        if barrier.prev >= 100:
            assert rows == Counter(self.history.states[barrier.prev].items())
            return
        expected = Counter[Row]()
        for vnode, progress in executor.stored.items():
            vnode_rows = self.history.table.rows(100, vnode)
            expected.update(row for row in vnode_rows if progress.position is None or row[0] < progress.position)
        assert rows == expected

    def _recover(self, executor: ReferenceSnapshot, sent: list[Barrier]) -> None:
        """Reset both sides to the last checkpoint; a merged job shares the upstream's."""
        self.stored, count = executor.durable()
        self.kept += executor.emitted[:count]
        closed = [message for message in self.kept if isinstance(message, Barrier)]
        if not closed:
            return
        committed = closed[-1].prev
        self._own = self.real[committed] if committed >= 100 else Barrier(committed, committed + 1)
        checkpoints = [barrier for barrier in sent if barrier.checkpoint and barrier.prev >= max(100, committed)]
        merged = executor.phase == "live" or not checkpoints
        first = self.real[max(100, committed)] if merged else checkpoints[-1]
        self._first = Barrier(*first.pair)


class TestAnyInterleaving:
    """R-SNAP-8, 9, 15, 19, 37, 38: after each barrier the consumer has exactly the stored rows."""

    @pytest.mark.parametrize("seed", range(150))
    def test_the_consumer_is_right_at_every_barrier(self, seed: int) -> None:
        """Crashes happen at any time: both sides discard everything that was not durable."""
        _Play(seed).run()

    def test_the_plays_cover_crashes(self) -> None:
        """Without crashes, the test above would prove less."""
        plays = [_Play(seed) for seed in range(20)]
        for play in plays:
            play.run()
        assert sum(play.crashes for play in plays) > 10
