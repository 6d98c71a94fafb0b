"""Order of changes and rows when both are ready, and the report of the end of the copy and of the job."""

from __future__ import annotations

from support.arrangement.by_hand import ByHand, begun, ids

from backfill_core.positions.vnode_positions import Completed, VnodePositions
from backfill_core.protocol.work import ApplyChanges, ReadKeyRange

TEN = ids(*range(10))


class TestTheTurn:
    """Changes and rows may be ready at the same time."""

    def test_changes_take_precedence_over_rows(self) -> None:
        """R-ARR-10: the batch begins before any further range, and no further range has the version that it replaces."""
        attempt = begun(in_flight_max=4)
        attempt.round()
        attempt.change(*TEN[1:], (10,))
        attempt.commit()

        merge, *ahead = attempt.start()

        assert isinstance(merge, ApplyChanges)
        assert [work.version for work in ahead if isinstance(work, ReadKeyRange)] == [1, 1]

    def test_rows_wait_while_changes_are_ready(self) -> None:
        """R-ARR-10: a reader is free, but its rows would be outdated."""
        attempt = begun()
        attempt.round()
        attempt.change(*TEN[1:])

        assert attempt.start() == []
        assert attempt.strategy.status.wants_announcement


class TestTheEnd:
    """The last chunk is found, committed, and only then reported."""

    @staticmethod
    def staged(*rows: int) -> ByHand:
        """Return an attempt whose only chunk is staged."""
        attempt = ByHand([ids(*rows)])
        (last,) = attempt.start()
        attempt.finish(last)
        return attempt

    def test_the_end_lets_all_changes_pass_at_once(self) -> None:
        """R-ARR-22: the job waits for no barrier, neither for the commit nor for the next poll, and filters nothing."""
        attempt = ByHand([ids(1, 2)], cuts=ids(1), chunk_rows=1)
        first, last = attempt.start()
        attempt.finish(first)
        attempt.commit()
        attempt.finish(last)
        assert attempt.strategy.status.wants_commit
        assert attempt.commit().polls

        attempt.change((2,), (3,))
        assert attempt.strategy.status.wants_announcement
        assert attempt.commit().announces
        (merge,) = attempt.start()
        attempt.finish(merge)
        assert attempt.strategy.status.wants_commit
        attempt.commit()

        assert isinstance(merge, ApplyChanges)
        assert (merge.bound, sorted(attempt.target)) == (None, [2, 3])

    def test_the_end_of_the_copy_is_reported_once_it_is_durable(self) -> None:
        """R-ARR-29: the commit of the last rows stores the end; after a crash before that, the rows are read again."""
        attempt = self.staged(1)
        assert attempt.strategy.status.covered is not None

        request = attempt.prepare()

        assert attempt.stored.positions == VnodePositions.of([Completed()])
        assert attempt.strategy.status.covered is not None
        attempt.seal(request)
        assert attempt.strategy.status.covered is None

    def test_the_end_of_the_job_is_reported_once_it_is_durable(self) -> None:
        """R-ARR-31: the report comes after the state with the end was written."""
        attempt = self.staged(1)
        attempt.commit()
        attempt.poll()

        request = attempt.prepare()

        assert (attempt.strategy.status.caught_up, attempt.strategy.status.complete) == (True, False)
        attempt.seal(request)
        assert attempt.strategy.status.complete

    def test_the_end_is_reported_again_after_a_restart(self) -> None:
        """R-ARR-31: a finished state reads and merges nothing, and only needs a poll of the source."""
        attempt = self.staged(1)
        attempt.run()

        again = ByHand([ids(1)], stored=attempt.stored, target=ids(1))
        again.poll()
        assert again.start() == []
        again.commit()

        assert (again.strategy.status.covered, again.strategy.status.complete) == (None, True)
        assert again.begun == []
