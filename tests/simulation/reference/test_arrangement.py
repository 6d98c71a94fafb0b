"""The row-by-row machine of arrangement backfill against its worked examples and its numbered rules."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.reference.arrangement import Input, Key, ReferenceArrangement, Rows, Values, VnodeProgress
from support.reference.vocabulary import Barrier, Fatal, Mutation, Report, Watermark

ID = Key((0,))
TS_ID = Key((0, 1))
"""Sorted by time, then id; the stream key is the id alone."""


def rows(*given: tuple[str, Any]) -> Rows:
    """Return a chunk; a row that is no tuple is one column."""
    return Rows(tuple((op, row if isinstance(row, tuple) else (row,)) for op, row in given))


def inserts(*keys: Any) -> Rows:
    return rows(*(("+", key) for key in keys))


def machine(table: list[Any], key: Key = ID, **more: Any) -> ReferenceArrangement:
    """Return a machine that has emitted its first barrier."""
    one = ReferenceArrangement([row if isinstance(row, tuple) else (row,) for row in table], key, **more)
    one.upstream.append(Barrier(0, 1))
    assert one.poll()
    return one


def feed(one: ReferenceArrangement, *messages: Input, polls: int | None = None) -> list[Input]:
    """Let messages arrive, take them all (and `polls` snapshot items after), and return what came out."""
    before = len(one.emitted)
    one.upstream.extend(messages)
    while one.upstream:
        one.poll()
    for _ in range(polls or 0):
        one.poll()
    return one.emitted[before:]


def done(position: Values | None, count: int) -> VnodeProgress:
    return VnodeProgress(position, finished=True, rows=count)


def at(position: Values | None, count: int) -> VnodeProgress:
    return VnodeProgress(position, finished=False, rows=count)


class TestA1FilterReplicateFinish:
    """One vnode from its first row to the report of its end."""

    def test_table(self) -> None:
        """R-ARR-1, 2, 6, 7, 10, 11, 12, 14, 15, 22, 24, 25, 27, 28, 29, 31, 32: as in the worked example."""
        one = machine([1, 2, 3, 4, (5,)], chunk_size=2)
        assert (one.emitted, one.stored) == ([Barrier(0, 1)], {})
        assert feed(one, polls=2) == [inserts(1, 2)]
        assert feed(one, polls=1) == []
        changes = rows(("-", 1), ("+", 6), ("U-", 3), ("U+", 3))
        assert feed(one, changes) == []
        visible = rows(("-", 1), ("U-", 3), ("U+", 3))
        assert feed(one, Barrier(1, 2)) == [inserts(3), visible, Barrier(1, 2)]
        assert one.reports == [Report("update", 2, 3)]
        assert one.stored == {0: at((3,), 3)}
        assert feed(one, polls=2) == [inserts(4, 5)]
        assert feed(one, inserts(7)) == []
        assert feed(one, polls=2) == [inserts(6), inserts(7)]
        assert feed(one, rows(("-", 2))) == [rows(("-", 2))]
        assert feed(one, Barrier(2, 3)) == [Barrier(2, 3)]
        assert one.stored == {0: done((6,), 6)}
        assert one.reports[-1] == Report("finish", 3, 6)


class TestA2UpdateStraddlingThePosition:
    """The order of reading is not the identity of a row."""

    @pytest.mark.parametrize(
        ("old", "new", "emitted"),
        [
            pytest.param(5, 20, [("-", (5, "id"))], id="leaves: the new row is read later"),
            pytest.param(20, 5, [("+", (5, "id"))], id="arrives"),
            pytest.param(5, 7, [("U-", (5, "id")), ("U+", (7, "id"))], id="stays visible"),
            pytest.param(20, 30, [], id="stays hidden"),
        ],
    )
    def test_table(self, old: int, new: int, emitted: list[tuple[str, Values]]) -> None:
        """R-ARR-13, 17: each half is judged by its own position."""
        one = machine([(old, "id"), (99, "z")], TS_ID, stored={0: at((10, "x"), 1)}, paused=True, newly_added=False)
        out = feed(one, rows(("U-", (old, "id")), ("U+", (new, "id"))), Barrier(1, 2))
        assert out == [*([Rows(tuple(emitted))] if emitted else []), Barrier(1, 2)]


class TestA3MinimumProgress:
    """However busy the upstream, an epoch reads one row."""

    def test_table(self) -> None:
        """R-ARR-10, 14, 18, 24: the forced row moves the position before the changes are judged."""
        one = machine([10, 20, 30])
        assert feed(one, inserts(5), Barrier(1, 2)) == [inserts(10), inserts(5), Barrier(1, 2)]
        assert feed(one, inserts(15), Barrier(2, 3)) == [inserts(20), inserts(15), Barrier(2, 3)]

    def test_not_without_a_permit(self) -> None:
        """R-ARR-19: a limiter without a permit keeps the barrier quick; the change waits for the snapshot."""
        one = machine([10, 20, 30], rate_limit=2)
        feed(one, polls=2)
        assert feed(one, Barrier(1, 2)) == [Barrier(1, 2)]
        assert feed(one, inserts(25), Barrier(2, 3)) == [Barrier(2, 3)]
        one.second()
        one.run()
        assert feed(one, Barrier(3, 4))[-1] == Barrier(3, 4)
        assert (25,) in {row for message in one.emitted if isinstance(message, Rows) for _, row in message.rows}

    @pytest.mark.parametrize("more", [{"paused": True}, {"rate_limit": 0}])
    def test_not_while_reading_is_off(self, more: dict[str, Any]) -> None:
        """R-ARR-19, 34, 35: nothing of the snapshot; barriers and reports go on."""
        one = machine([10], **more)
        assert feed(one, inserts(5), Barrier(1, 2)) == [Barrier(1, 2)]
        assert one.reports == [Report("update", 2, 0)]


class TestA4TheEndFoundAtABarrier:
    """The forced read finds that nothing is left; what is buffered has no other way out."""

    def test_table(self) -> None:
        """R-ARR-20, 29: emitted unfiltered, stored as complete on this barrier, reported on the next."""
        one = machine([1], stored={0: at((1,), 1)}, newly_added=False)
        assert feed(one, inserts(2), Barrier(3, 4)) == [inserts(2), Barrier(3, 4)]
        assert one.stored == {0: done((1,), 1)}
        assert not any(report.kind == "finish" for report in one.reports)
        feed(one, Barrier(4, 5))
        assert one.reports[-1] == Report("finish", 5, 1)


class TestA5RestartWithMixedVnodes:
    """One actor may own vnodes of every state."""

    STORED = {0: done((5,), 5), 1: at((8,), 3)}

    def restarted(self, **more: Any) -> ReferenceArrangement:
        table = [(key,) for key in (3, 5, 6, 7, 8, 11, 13, 14)]
        return machine(
            table, vnode_of=lambda row: row[0] % 3, vnodes=(0, 1, 2), stored=self.STORED, newly_added=False, **more
        )

    def test_table(self) -> None:
        """R-ARR-13, 21, 23, 25, 32, 39: each goes on from its own value."""
        one = self.restarted(paused=True)
        changes = rows(("+", 30), ("+", 4), ("+", 10), ("+", 2))
        assert feed(one, changes, Barrier(1, 2)) == [rows(("+", 30), ("+", 4)), Barrier(1, 2)]
        assert one.reports == [Report("update", 2, 8)]
        feed(one, Barrier(2, 3, mutation=Mutation(pause=False)))
        one.run()
        read = sorted(row[0] for message in one.emitted[3:] if isinstance(message, Rows) for _, row in message.rows)
        assert read == [2, 5, 8, 10, 11, 13, 14]

    def test_completed_vnodes_pass_when_none_is_in_progress(self) -> None:
        """R-ARR-21: the second hole of the original."""
        one = machine(
            [(3,), (4,)], vnode_of=lambda row: row[0] % 3, vnodes=(0, 1), stored={0: done((3,), 1)}, newly_added=False,
            paused=True,
        )  # fmt: skip
        assert feed(one, rows(("+", 6), ("+", 7)), Barrier(1, 2)) == [rows(("+", 6)), Barrier(1, 2)]


class TestTheRules:
    """What the examples leave open."""

    def test_the_first_message_is_a_barrier(self) -> None:
        """R-ARR-1, 3: before any state is read or written."""
        one = ReferenceArrangement([], ID)
        one.upstream.append(inserts(1))
        with pytest.raises(Fatal):
            one.poll()

    def test_all_finished_forwards_and_reads_nothing(self) -> None:
        """R-ARR-4, 31: the end is reported once more after a restart."""
        one = machine([1, 2], stored={0: done((2,), 2)}, newly_added=False)
        assert feed(one, inserts(3), Barrier(1, 2), Watermark(4)) == [inserts(3), Barrier(1, 2), Watermark(4)]
        assert (one.scanned, one.reports) == ([], [Report("finish", 2, 2)])

    def test_a_new_job_cannot_be_finished(self) -> None:
        """R-ARR-5: a newly added executor has read nothing, so a stored end is damage."""
        with pytest.raises(Fatal):
            machine([1], stored={0: done((1,), 1)})

    def test_keys_are_read_in_their_order(self) -> None:
        """R-ARR-7: DESC turns the order round, and NULL is the largest value."""
        one = machine([(1, "b"), (None, "a"), (2, "c"), (1, "a")], Key((0, 1), (True, False)), chunk_size=9)
        one.run()
        assert one.emitted[1:] == [inserts((None, "a"), (2, "c"), (1, "a"), (1, "b"))]

    def test_a_chunk_is_of_one_vnode_and_within_the_limit(self) -> None:
        """R-ARR-8, 9: as many rows as a second may have, two at least for the two halves of an update."""
        one = machine(list(range(8)), vnode_of=lambda row: row[0] % 2, vnodes=(0, 1), chunk_size=4, rate_limit=1)
        for _ in range(9):
            one.second()
            one.run()
        chunks = [message.rows for message in one.emitted if isinstance(message, Rows)]
        assert all(len(chunk) <= 2 and len({row[0] % 2 for _, row in chunk}) == 1 for chunk in chunks)

    def test_the_vnode_is_that_of_the_distribution_key(self) -> None:
        """R-ARR-16: the key begins with another column."""
        stored = {0: done(None, 0), 1: at(None, 0)}
        one = machine(
            [], TS_ID, vnode_of=lambda row: row[1] % 2, vnodes=(0, 1), stored=stored, newly_added=False, paused=True
        )
        assert feed(one, rows(("+", (1, 2)), ("+", (2, 1))), Barrier(1, 2)) == [rows(("+", (1, 2))), Barrier(1, 2)]

    def test_watermarks_wait_for_the_end(self) -> None:
        """R-ARR-26: dropped while backfilling; afterwards those of a column that is output."""
        one = machine([1], output=(0,))
        feed(one, Watermark(1))
        one.run()
        assert feed(one, Watermark(2)) == [Watermark(2)]

    def test_only_what_changed_is_stored(self) -> None:
        """R-ARR-27: a barrier without progress writes nothing."""
        one = machine([1, 2], paused=True)
        feed(one, Barrier(1, 2), Barrier(2, 3))
        assert one.writes == 0

    def test_no_rows_at_all(self) -> None:
        """R-ARR-30: without a position, count 0; finished on the second barrier."""
        one = machine([])
        one.run()
        feed(one, Barrier(1, 2))
        assert (one.stored, one.reports) == ({0: done(None, 0)}, [Report("finish", 2, 0)])

    def test_commands_act_after_their_barrier(self) -> None:
        """R-ARR-33, 34, 35, 37: resume and throttle change reading only, from the next epoch on."""
        one = machine([1, 2, 3], paused=True)
        commanded = Barrier(1, 2, mutation=Mutation(pause=False, throttle=(0,)))
        feed(one, commanded, polls=3)
        assert one.emitted == [Barrier(0, 1), commanded]
        feed(one, Barrier(2, 3, mutation=Mutation(throttle=(None,))))
        one.run()
        assert one.emitted[-1] == inserts(1, 2, 3)

    def test_a_throttle_for_others_changes_nothing(self) -> None:
        """R-ARR-36: a command for another executor must not start or stop this one."""
        one = machine([1, 2, 3], rate_limit=0)
        feed(one, Barrier(1, 2, mutation=Mutation()), polls=2)
        assert one.emitted == [Barrier(0, 1), Barrier(1, 2)]

    def test_a_table_without_a_key_is_read_once(self) -> None:
        """R-ARR-40: its single row has no position to go on from, so the end of the vnode is found without another scan."""
        one = machine([("only",)], Key(()), chunk_size=1)
        feed(one, polls=1)
        feed(one, Barrier(1, 2))
        one.run()
        assert [message for message in one.emitted if isinstance(message, Rows)] == [inserts("only")]
        assert one.scanned == [0]

    def test_output_is_projected_and_keys_are_not(self) -> None:
        """R-ARR-41: the key need not be among the columns that go on."""
        one = machine([(1, "a", "x"), (2, "b", "y")], output=(2, 1))
        one.run()
        assert one.emitted[1:] == [rows(("+", ("x", "a")), ("+", ("y", "b")))]


class World:
    """An upstream table by id, its changes, and a downstream that applies what is emitted."""

    VNODES = 3

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.clock = 1
        self.table: dict[int, Values] = {one: self.draw(one) for one in range(self.rng.randrange(12))}
        self.before = dict(self.table)
        self.next_id = 100
        self.key = Key((0, 1), (self.rng.random() < 0.5, self.rng.random() < 0.5))
        self.size = self.rng.choice((1, 2, 3, 256))
        self.one = self.start({}, self.table.values(), newly_added=True)
        self.committed: list[Input] = []

    def draw(self, one: int) -> Values:
        return (self.rng.choice((None, *range(6))), one, self.rng.randrange(100))

    @staticmethod
    def vnode_of(row: Values) -> int:
        return int(row[1]) % World.VNODES

    def start(self, stored: dict[int, VnodeProgress], table: Any, *, newly_added: bool) -> ReferenceArrangement:
        one = ReferenceArrangement(
            list(table), self.key, vnode_of=self.vnode_of, vnodes=range(self.VNODES), stored=stored, chunk_size=self.size,
            newly_added=newly_added, rate_limit=self.rng.choice((None, 2)), paused=self.rng.random() < 0.2,
        )  # fmt: skip
        one.upstream.append(Barrier(self.clock - 1, self.clock))
        one.poll()
        return one

    def change(self) -> None:
        """Insert, update (the order column too), or delete a row of the upstream."""
        drawn = self.rng.random()
        if drawn < 0.4 or not self.table:
            self.next_id += 1
            self.table[self.next_id] = self.draw(self.next_id)
            self.one.upstream.append(rows(("+", self.table[self.next_id])))
        elif drawn < 0.8:
            one = self.rng.choice(sorted(self.table))
            new = self.draw(one)
            self.one.upstream.append(rows(("U-", self.table[one]), ("U+", new)))
            self.table[one] = new
        else:
            self.one.upstream.append(rows(("-", self.table.pop(self.rng.choice(sorted(self.table))))))

    def epoch(self, *, idle: bool = False) -> None:
        """Let an epoch pass: changes and reading in any order, then a barrier; then look, and perhaps crash."""
        self.one.second()
        for _ in range(self.rng.randrange(8)):
            if not idle and self.rng.random() < 0.6:
                self.change()
            self.one.poll()
        pause = {True: False, False: None}[self.one.paused and self.rng.random() < 0.5]
        throttle = (None,) if idle else None
        barrier = Barrier(self.clock, self.clock + 1, mutation=Mutation(pause=pause, throttle=throttle))
        self.clock += 1
        self.one.upstream.append(barrier)
        while self.one.upstream:
            self.one.poll()
        self.before = dict(self.table)
        self.check()
        if not idle and self.rng.random() < 0.25:
            stored, length = self.one.durable()
            self.committed += self.one.emitted[:length]
            self.one = self.start(stored, self.before.values(), newly_added=False) if stored else self.afresh()

    def afresh(self) -> ReferenceArrangement:
        self.committed.clear()
        return self.start({}, self.before.values(), newly_added=True)

    def check(self) -> None:
        """Compare the downstream with the upstream's rows up to each vnode's position."""
        there: dict[int, Values] = {}
        for message in [*self.committed, *self.one.emitted]:
            for op, row in message.rows if isinstance(message, Rows) else ():
                if op in ("-", "U-"):
                    assert there.pop(row[1]) == row
                else:
                    assert row[1] not in there
                    there[row[1]] = row
        assert there == {one: row for one, row in self.before.items() if self.expected(row)}

    def expected(self, row: Values) -> bool:
        at = self.one.stored.get(self.vnode_of(row))
        if at is None or (at.position is None and not at.finished):
            return False
        return at.finished or self.key.order(self.key.of(row)) <= self.key.order(at.position or ())


def test_the_worlds_are_worth_it() -> None:
    """A world that never crashes, or in which the position decides nothing, proves nothing."""
    crashes = hidden = finished = 0
    for seed in range(50):
        world = World(seed)
        for _ in range(12):
            before = world.one
            world.epoch()
            crashes += world.one is not before
            hidden += any(not world.expected(row) for row in world.before.values())
        finished += world.one.phase == "forwarding"
    assert (crashes > 50, hidden > 100, finished > 5) == (True, True, True), (crashes, hidden, finished)


@pytest.mark.parametrize("seed", range(150))
def test_the_core_invariant_holds_at_every_barrier(seed: int) -> None:
    """R-ARR-38, 42: whatever is read, changed, paused, limited or killed, no row is lost, doubled or early."""
    world = World(seed)
    for _ in range(12):
        world.epoch()
    for _ in range(30):
        world.epoch(idle=True)
    assert world.one.phase == "forwarding"
