"""Whose turn it is when changes and rows are ready, and when the end of the copy and of the job is reported."""

from __future__ import annotations

from support.arrangement.by_hand import ByHand, begun, ids

from backfill_core.positions.vnode_positions import Completed, VnodePositions
from backfill_core.protocol.work import ApplyChanges, ReadKeyRange

TEN = ids(*range(10))


class TestTheTurn:
    """Changes and rows may be ready at the same time."""

    def test_changes_go_first(self) -> None:
        """R-ARR-10: the batch begins before a further range does, and no further range is of the version that it replaces."""
        one = begun(in_flight_max=4)
        one.round()
        one.change(*TEN[1:], (10,))
        one.commit()

        merge, *ahead = one.start()

        assert isinstance(merge, ApplyChanges)
        assert [work.version for work in ahead if isinstance(work, ReadKeyRange)] == [1, 1]

    def test_rows_wait_while_changes_are_ready(self) -> None:
        """R-ARR-10: a reader is free, and what it would read is old."""
        one = begun()
        one.round()
        one.change(*TEN[1:])

        assert one.start() == []
        assert one.strategy.status.wants_announcement


class TestTheEnd:
    """The last chunk is found, committed, and only then reported."""

    @staticmethod
    def staged(*rows: int) -> ByHand:
        """Return an attempt whose only chunk is staged."""
        one = ByHand([ids(*rows)])
        (last,) = one.start()
        one.finish(last)
        return one

    def test_lets_all_changes_pass_at_once(self) -> None:
        """R-ARR-22: no barrier is waited for, neither for the commit nor for the next look at the source, and nothing is filtered."""
        one = self.staged(1, 2)
        assert one.strategy.status.wants_commit
        assert one.commit().polls

        one.change((2,), (3,))
        assert one.strategy.status.wants_announcement
        assert one.commit().announces
        (merge,) = one.start()
        one.finish(merge)
        assert one.strategy.status.wants_commit
        one.commit()

        assert isinstance(merge, ApplyChanges)
        assert (merge.bound, sorted(one.target)) == (None, [2, 3])

    def test_of_the_copy_is_reported_once_it_is_durable(self) -> None:
        """R-ARR-29: it is stored by the commit of the last rows; a crash before that reads them again."""
        one = self.staged(1)
        assert one.strategy.status.covered is not None

        request = one.prepare()

        assert one.stored.positions == VnodePositions.of([Completed()])
        assert one.strategy.status.covered is not None
        one.seal(request)
        assert one.strategy.status.covered is None

    def test_of_the_job_is_reported_once_it_is_durable(self) -> None:
        """R-ARR-31: after the state that says so was written."""
        one = self.staged(1)
        one.commit()
        one.poll()

        request = one.prepare()

        assert (one.strategy.status.caught_up, one.strategy.status.complete) == (True, False)
        one.seal(request)
        assert one.strategy.status.complete

    def test_is_reported_once_more_after_a_restart(self) -> None:
        """R-ARR-31: a finished state reads and merges nothing, and needs a look at the source only."""
        one = self.staged(1)
        one.run()

        again = ByHand([ids(1)], stored=one.stored, target=ids(1))
        again.poll()
        assert again.start() == []
        again.commit()

        assert (again.strategy.status.covered, again.strategy.status.complete) == (None, True)
        assert again.begun == []
