"""The worked examples of arrangement backfill, played with the strategy itself; a chunk is what the example's builder holds."""

from __future__ import annotations

from typing import Any

import pytest
from support.arrangement.by_hand import ByHand
from support.reference.arrangement import Key, Values

from backfill_core.positions.vnode_positions import Completed, NotStarted, Reached, UpTo, VnodePositions
from backfill_core.protocol.work import ApplyChanges, ReadKeyRange
from backfill_core.strategies.arrangement.stored import READING, ArrangementStored


def ids(*keys: int) -> list[Values]:
    return [(one,) for one in keys]


def stored_at(space_of: ByHand, *reached: Reached, consumed: int = 0, rows: int = 0) -> ArrangementStored:
    """Return a state with these positions, one for each vnode."""
    return ArrangementStored(
        "table", consumed, READING, space_of.space, VnodePositions.of(reached), rows, rows, len(reached), None
    )


class TestA1FilterReplicateFinish:
    """One vnode from its first row to the end."""

    def test_table(self) -> None:
        """R-ARR-6, 7, 12, 14, 24, 25, 28, 32: changes are judged by the position after the round's chunks."""
        one = ByHand([ids(1, 2, 3, 4, 5)], cuts=ids(2, 3, 5), in_flight_max=2, chunk_rows=1)
        first, second = one.start()
        one.finish(first)
        one.finish(second)
        one.change((2,), (3,), (4,), (5,), (6,))

        one.commit()

        assert one.stored.positions == VnodePositions.of([UpTo((3,))])
        assert sorted(one.target) == [1, 2, 3]
        merge, *ahead = one.start()
        assert isinstance(merge, ApplyChanges)
        one.finish(merge)
        for chunk in ahead:
            one.finish(chunk)
        one.change(*ids(2, 3, 4, 5, 6, 7))
        one.commit()
        assert next(chunk for chunk in one.chunks if chunk[2] == 1) == ((3,), (5,), 1)
        one.change(*ids(3, 4, 5, 6, 7))
        one.run()
        assert sorted(one.target) == [3, 4, 5, 6, 7]
        assert one.stored.positions == VnodePositions.of([Completed()])


class TestA2UpdateStraddlingThePosition:
    """The order of reading is not the identity of a row."""

    @pytest.mark.parametrize(
        ("old", "new", "there"),
        [
            pytest.param(5, 20, [], id="leaves: the new row is read later"),
            pytest.param(20, 5, [(5, 1)], id="arrives"),
            pytest.param(5, 7, [(7, 1)], id="stays visible"),
            pytest.param(20, 30, [], id="stays hidden"),
        ],
    )
    def test_table(self, old: int, new: int, there: list[Values]) -> None:
        """R-ARR-13, 17: the batch is bounded by the position, and each half is judged by its own."""
        order: dict[str, Any] = {"key": Key((0, 1)), "types": ("long", "long")}
        before = [(old, 1), (99, 2)]
        target = [row for row in before if row[0] <= 10]
        blank = ByHand([before], **order)
        one = ByHand([before], stored=stored_at(blank, UpTo((10, 0)), rows=1), target=target, **order)
        one.change((new, 1), (99, 2))

        one.commit(history=False)
        (merge,) = one.start(history=False)
        one.finish(merge)
        one.commit(history=False)

        assert isinstance(merge, ApplyChanges)
        assert list(one.target.values()) == there
        one.run()
        assert sorted(one.target.values()) == [(new, 1), (99, 2)]


class TestA3MinimumProgress:
    """However busy the upstream, a round reads one chunk."""

    def test_table(self) -> None:
        """R-ARR-14, 18, 24: the chunk moves the position before the changes are judged."""
        one = ByHand([ids(10, 20, 30)], cuts=ids(10, 20, 30), chunk_rows=1, in_flight_max=1)
        (chunk,) = one.start()
        one.change(*ids(5, 10, 20, 30))
        one.finish(chunk)
        one.commit()
        assert sorted(one.target) == [10]
        one.finish(one.start()[0])
        one.change(*ids(5, 10, 15, 20, 30))

        one.commit()

        assert (sorted(one.target), one.stored.positions) == ([5, 10], VnodePositions.of([UpTo((10,))]))
        assert one.chunks[-1] == ((10,), (20,), 1)

    def test_without_a_permit(self) -> None:
        """R-ARR-19: a limit that has none left lets the changes pass; before the first row they are hidden, and read later."""
        one = ByHand([ids(10, 20, 30)], cuts=ids(10, 20, 30))
        one.limit(0)
        one.change(*ids(5, 10, 20, 30))
        one.second()

        assert one.round() == []

        assert (one.target, one.stored.consumed, one.stored.positions.started) == ({}, 1, False)


class TestA4TheHoleOfTheLastRead:
    """What comes while the end is found is not lost."""

    def test_table(self) -> None:
        """R-ARR-20: the last chunk is open-ended, and the vnodes are completed with its commit; then all changes pass."""
        blank = ByHand([ids(1)])
        one = ByHand([ids(1)], stored=stored_at(blank, UpTo((1,)), rows=1), target=ids(1))
        (last,) = one.start()
        one.change(*ids(1, 2))

        one.finish(last)
        one.commit()

        assert (one.target, one.stored.positions) == ({1: (1,)}, VnodePositions.of([Completed()]))
        one.run()
        assert sorted(one.target) == [1, 2]
        assert one.bound is None


class TestA5RestartWithMixedVnodes:
    """Each vnode goes on from its own position."""

    @staticmethod
    def vnode_of(row: Values) -> int:
        return int(row[0]) % 3

    def opened(self, versions: list[list[Values]], **more: Any) -> ByHand:
        return ByHand(versions, cuts=ids(6, 9), vnodes=3, vnode_of=self.vnode_of, **more)

    def restarted(self) -> ByHand:
        blank = self.opened([ids(1)])
        state = stored_at(blank, Completed(), UpTo((8,)), NotStarted(), rows=3)
        # Vnode 0 has the rows 3, 6, 12; of vnode 1 the rows 1, 4, 7 are there, 10 and 13 are not; of vnode 2 none.
        rows = ids(1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13)
        there = ids(1, 3, 4, 6, 7, 12)
        return self.opened([rows], stored=state, target=there)

    def test_table(self) -> None:
        """R-ARR-23, 32, 38, 39: completed vnodes are not read; the others go on where they were; the count goes on too."""
        one = self.restarted()
        one.run()

        read = [(work.vnodes, work.low, work.high) for work in one.begun if isinstance(work, ReadKeyRange)]
        assert [vnodes for vnodes, low, _ in read if low is None] == [((2, 3),)]
        assert not any(first <= 0 < stop for vnodes, _, _ in read for first, stop in vnodes)
        assert next(low for vnodes, low, _ in read if any(first <= 1 < stop for first, stop in vnodes)) == (8,)
        assert sorted(one.target) == [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13]
        assert one.stored.rows_read == 3 + 6

    def test_changes_of_completed_vnodes_pass(self) -> None:
        """R-ARR-21: also while another vnode has not started, and nothing may be read."""
        one = self.restarted()
        one.change(*(row for row in [*one.versions[0], (0,), (5_000,)] if row not in ids(3, 2, 4)))
        one.commit(history=False)

        (merge,) = one.start(history=False)
        one.finish(merge)
        one.commit(history=False)

        assert sorted(one.target) == [0, 1, 6, 7, 12]
