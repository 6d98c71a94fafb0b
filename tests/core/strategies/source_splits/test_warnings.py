"""What needs a user while a topic is read: producers that are faster than the job, and records that go before they are read."""

from __future__ import annotations

from dataclasses import replace

from support.source_splits.by_hand import ByHand

from backfill_core.pacing.convergence import STEPS_WATCHED
from backfill_core.positions.offsets import count
from backfill_core.protocol.events import Head, SourcePolled
from backfill_core.protocol.strategy import Facts, StrategyView

DAY_S = 86_400


def turns(one: ByHand, count: int, *, written: int) -> StrategyView:
    """So many reads of what is new, a second each; before each so many records come."""
    for _ in range(count):
        one.produce("0", written)
        one.poll()
        (work,) = one.start()
        one.now_s += 1
        one.finish(work)
        one.commit()
    return one.strategy.view(one.now)


class TestProducersThatAreFasterThanTheRead:
    """R-SRC-41: what is new has no limit, so only the pace of the reads can be too slow."""

    def test_are_said_with_both_rates(self) -> None:
        """Ten records a second come, and a read takes four."""
        found = turns(ByHand(0, read_max=4, follow=True), STEPS_WATCHED + 2, written=10)

        assert found.non_convergent
        (warning,) = found.warnings
        assert warning.code == "NonConvergent"
        assert "10 records/s are written, 4 are read" in warning.message

    def test_a_read_that_takes_all_that_came_is_fast_enough(self) -> None:
        """However much comes in each turn: the next one takes it."""
        found = turns(ByHand(0, read_max=100, follow=True), 3 * STEPS_WATCHED, written=90)

        assert (found.non_convergent, found.warnings) == (False, ())

    def test_what_waited_for_a_driver_is_no_fault_while_it_gets_less(self) -> None:
        """After hours without a driver there is much to read."""
        one = ByHand(0, read_max=10, follow=True)
        one.produce("0", 1000)

        assert not turns(one, 2 * STEPS_WATCHED, written=1).non_convergent


class TestHistoryThatIsKeptForTooShort:
    """What is gone before it is read ends the job for good."""

    def test_is_said_while_there_is_time(self) -> None:
        """A day for a thousand records at one in a hundred seconds; and no word once history is read."""
        one = ByHand(1000, follow=True)
        head = Head({"0": 1000}, one.now.wall_ms, "topic-1", kept_s=DAY_S)
        one.strategy.on(SourcePolled(head), one.now)
        before = one.strategy.view(one.now).warnings
        one.strategy.on(SourcePolled(replace(head, kept_s=100)), one.now)
        one.limit(1)
        (warning,) = one.strategy.view(one.now).warnings
        one.limit(None)
        one.run()
        one.strategy.on(SourcePolled(replace(head, kept_s=100)), one.now)

        assert before == ()
        assert warning.code == "RetentionShort"
        assert "raise the retention of the source, or the limit" in warning.message
        assert one.strategy.view(one.now).warnings == ()


class TestLagByPartition:
    """R-SRC-42: offsets of history and new ones, of the partitions that are furthest behind."""

    def test_is_bounded(self) -> None:
        """A topic of many partitions is not as many series."""
        one = ByHand(*range(1, 31))
        one.produce("0", 500)
        one.poll()
        found = one.strategy.view(one.now)

        assert found.lag_by_partition is not None
        assert found.lag_by_partition.shown[:2] == (("0", 501), ("29", 30))
        assert (len(found.lag_by_partition.shown), found.lag_by_partition.others) == (20, 10)
        assert found.lag_records == sum(n for _, n in found.lag_by_partition.shown) + found.lag_by_partition.others_sum


class TestTheTimeThatIsLeft:
    """Of history, and of what is new."""

    @staticmethod
    def copied(one: ByHand, offsets: int) -> Facts:
        """A commit after some offsets of history."""
        one.now_s += 1
        (work, *_) = one.start()
        assert count(work.ranges) == offsets
        one.finish(work)
        one.commit()
        return one.strategy.view(one.now).facts

    def test_is_not_that_of_the_limit_before(self) -> None:
        """Offsets a second under two limits do not mix; under none it is what was measured without one."""
        one = ByHand(100_000, in_flight_max=1, read_max=1000)
        one.poll()
        for _ in range(3):
            free = self.copied(one, 1000)
        one.limit(10)
        limited = one.strategy.view(one.now).facts
        one.limit(None)
        lifted = one.strategy.view(one.now).facts

        assert [facts.copy and facts.copy.seconds for facts in (free, limited, lifted)] == [97, 9700, 97]
        assert (free.rows_per_s, limited.rows_per_s, lifted.rows_per_s) == (1000, 0, 0)

    def test_counts_what_is_new_at_the_pace_of_history(self) -> None:
        """A target with one row a key gets it after history; no time at all was shown for it."""
        one = ByHand(100_000, in_flight_max=1, read_max=1000)
        one.poll()
        for _ in range(3):
            self.copied(one, 1000)
        one.produce("0", 500)
        one.poll()
        facts = one.strategy.view(one.now).facts

        assert (facts.versions_left, facts.version_s) == (500, 1 / 1000)


class TestALimitThatIsLifted:
    """Its last reads are committed under the next one, and say nothing of its pace (fault U4)."""

    def test_leaves_no_rate_behind(self) -> None:
        """Two reads of ten records a second: a history of seconds was to take days."""
        one = ByHand(1_000_000, in_flight_max=3)
        one.limit(10)
        begun = []
        for _ in range(2):
            one.second()
            begun += one.start()
        one.limit(None)
        one.second()
        begun += one.start()
        rates = []
        for work in begun:
            one.now_s += 1
            one.finish(work)
            one.commit()
            rates.append(one.strategy.view(one.now).facts.rows_per_s)

        assert len(begun) > 2
        assert not any(0 < rate < 1000 for rate in rates), rates
