"""Worked examples of arrangement backfill, run with the strategy itself; a chunk corresponds to the builder in the
example."""

from __future__ import annotations

from typing import Any

import pytest
from support.arrangement.by_hand import ByHand
from support.reference.arrangement import Key, Values

from backfill_core.positions.vnode_positions import Completed, NotStarted, Reached, UpTo, VnodePositions
from backfill_core.protocol.work import ApplyChanges, ReadKeyRange
from backfill_core.strategies.arrangement.stored import READING, ArrangementStored


def ids(*keys: int) -> list[Values]:
    return [(key,) for key in keys]


def stored_at(space_of: ByHand, *reached: Reached, consumed: int = 0, rows: int = 0) -> ArrangementStored:
    """Return a state with these positions, one for each vnode."""
    return ArrangementStored(
        "table", consumed, READING, space_of.space, VnodePositions.of(reached), rows, rows, len(reached), None
    )


class TestA1FilterReplicateFinish:
    """One vnode runs from its first row to the end."""

    def test_changes_are_judged_by_the_position_after_the_round(self) -> None:
        """R-ARR-6, 7, 12, 14, 24, 25, 28, 32: changes are judged by the position after the round's chunks."""
        attempt = ByHand([ids(1, 2, 3, 4, 5)], cuts=ids(2, 3, 5), in_flight_max=2, chunk_rows=1)
        first, second = attempt.start()
        attempt.finish(first)
        attempt.finish(second)
        attempt.change((2,), (3,), (4,), (5,), (6,))

        attempt.commit()

        assert attempt.stored.positions == VnodePositions.of([UpTo((3,))])
        assert sorted(attempt.target) == [1, 2, 3]
        merge, *ahead = attempt.start()
        assert isinstance(merge, ApplyChanges)
        attempt.finish(merge)
        for chunk in ahead:
            attempt.finish(chunk)
        attempt.change(*ids(2, 3, 4, 5, 6, 7))
        attempt.commit()
        assert next(chunk for chunk in attempt.chunks if chunk[2] == 1) == ((3,), (5,), 1)
        attempt.change(*ids(3, 4, 5, 6, 7))
        attempt.run()
        assert sorted(attempt.target) == [3, 4, 5, 6, 7]
        assert attempt.stored.positions == VnodePositions.of([Completed()])


class TestA2UpdateStraddlingThePosition:
    """The reading order is not the identity of a row."""

    @pytest.mark.parametrize(
        ("old", "new", "rows"),
        [
            pytest.param(5, 20, [], id="leaves: the new row is read later"),
            pytest.param(20, 5, [(5, 1)], id="arrives"),
            pytest.param(5, 7, [(7, 1)], id="stays visible"),
            pytest.param(20, 30, [], id="stays hidden"),
        ],
    )
    def test_each_half_of_an_update_is_judged_by_its_position(self, old: int, new: int, rows: list[Values]) -> None:
        """R-ARR-13, 17: the position bounds the batch, and each half is judged by its own position."""
        order: dict[str, Any] = {"key": Key((0, 1)), "types": ("long", "long")}
        before = [(old, 1), (99, 2)]
        target = [row for row in before if row[0] <= 10]
        blank = ByHand([before], **order)
        attempt = ByHand([before], stored=stored_at(blank, UpTo((10, 0)), rows=1), target=target, **order)
        attempt.change((new, 1), (99, 2))

        attempt.commit(history=False)
        (merge,) = attempt.start(history=False)
        attempt.finish(merge)
        attempt.commit(history=False)

        assert isinstance(merge, ApplyChanges)
        assert list(attempt.target.values()) == rows
        attempt.run()
        assert sorted(attempt.target.values()) == [(new, 1), (99, 2)]


class TestA3MinimumProgress:
    """Each round reads at least one chunk, even with a busy upstream."""

    def test_a_round_reads_one_chunk_before_changes_are_judged(self) -> None:
        """R-ARR-14, 18, 24: the chunk moves the position before the changes are judged."""
        attempt = ByHand([ids(10, 20, 30)], cuts=ids(10, 20, 30), chunk_rows=1, in_flight_max=1)
        (chunk,) = attempt.start()
        attempt.change(*ids(5, 10, 20, 30))
        attempt.finish(chunk)
        attempt.commit()
        assert sorted(attempt.target) == [10]
        attempt.finish(attempt.start()[0])
        attempt.change(*ids(5, 10, 15, 20, 30))

        attempt.commit()

        assert (sorted(attempt.target), attempt.stored.positions) == ([5, 10], VnodePositions.of([UpTo((10,))]))
        assert attempt.chunks[-1] == ((10,), (20,), 1)

    def test_a_round_without_a_permit_lets_changes_pass(self) -> None:
        """R-ARR-19: without permits the changes pass; before the first row they are hidden and read later."""
        attempt = ByHand([ids(10, 20, 30)], cuts=ids(10, 20, 30))
        attempt.limit(0)
        attempt.change(*ids(5, 10, 20, 30))
        attempt.second()

        assert attempt.round() == []

        assert (attempt.target, attempt.stored.consumed, attempt.stored.positions.started) == ({}, 1, False)


class TestA4TheHoleOfTheLastRead:
    """Changes that arrive while the end is found are not lost."""

    def test_the_last_chunk_is_open_ended(self) -> None:
        """R-ARR-20: the last chunk is open-ended, and the vnodes are completed with its commit; then all changes pass."""
        blank = ByHand([ids(1)])
        attempt = ByHand([ids(1)], stored=stored_at(blank, UpTo((1,)), rows=1), target=ids(1))
        (last,) = attempt.start()
        attempt.change(*ids(1, 2))

        attempt.finish(last)
        attempt.commit()

        assert (attempt.target, attempt.stored.positions) == ({1: (1,)}, VnodePositions.of([Completed()]))
        attempt.run()
        assert sorted(attempt.target) == [1, 2]
        assert attempt.bound is None


class TestA5RestartWithMixedVnodes:
    """Each vnode continues from its own position."""

    @staticmethod
    def vnode_of(row: Values) -> int:
        return int(row[0]) % 3

    def opened(self, versions: list[list[Values]], **more: Any) -> ByHand:
        return ByHand(versions, cuts=ids(6, 9), vnodes=3, vnode_of=self.vnode_of, **more)

    def restarted(self) -> ByHand:
        blank = self.opened([ids(1)])
        state = stored_at(blank, Completed(), UpTo((8,)), NotStarted(), rows=3)
        # The target has rows 3, 6, 12 of vnode 0 and rows 1, 4, 7 of vnode 1, but not 10 and 13; it has no row of vnode
        # 2.
        rows = ids(1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13)
        existing = ids(1, 3, 4, 6, 7, 12)
        return self.opened([rows], stored=state, target=existing)

    def test_completed_vnodes_are_not_read_again(self) -> None:
        """R-ARR-23, 32, 38, 39: completed vnodes are not read; the others continue from their positions, and so does
        the count."""
        attempt = self.restarted()
        attempt.run()

        read = [(work.vnodes, work.low, work.high) for work in attempt.begun if isinstance(work, ReadKeyRange)]
        assert [vnodes for vnodes, low, _ in read if low is None] == [((2, 3),)]
        assert not any(first <= 0 < stop for vnodes, _, _ in read for first, stop in vnodes)
        assert next(low for vnodes, low, _ in read if any(first <= 1 < stop for first, stop in vnodes)) == (8,)
        assert sorted(attempt.target) == [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13]
        assert attempt.stored.rows_read == 3 + 6

    def test_changes_of_completed_vnodes_pass(self) -> None:
        """R-ARR-21: the rule also holds while another vnode has not started and no read is allowed."""
        attempt = self.restarted()
        attempt.change(*(row for row in [*attempt.versions[0], (0,), (5_000,)] if row not in ids(3, 2, 4)))
        attempt.commit(history=False)

        (merge,) = attempt.start(history=False)
        attempt.finish(merge)
        attempt.commit(history=False)

        assert sorted(attempt.target) == [0, 1, 6, 7, 12]
