"""Warnings while a topic is read: producers that are faster than the job, and records that expire before they are read."""

from __future__ import annotations

from dataclasses import replace

from support.source_splits.by_hand import ByHand
from support.source_splits.merges_by_hand import Driven, topic

from backfill_core.pacing.convergence import STEPS_WATCHED
from backfill_core.positions.offsets import count
from backfill_core.protocol.clock import Now
from backfill_core.protocol.events import Head, LimitSet, SourcePolled
from backfill_core.protocol.strategy import Facts, StrategyView
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.stored import decode
from backfill_core.strategies.source_splits.upsert import UpsertSplits

DAY_S = 86_400


def turns(world: ByHand, count: int, *, written: int) -> StrategyView:
    """Read new records `count` times, a second each; before each read, `written` records arrive."""
    for _ in range(count):
        world.produce("0", written)
        world.poll()
        (work,) = world.start()
        world.now_s += 1
        world.finish(work)
        world.commit()
    return world.strategy.view(world.now)


class TestProducersThatAreFasterThanTheRead:
    """R-SRC-41: new records have no limit, so only the pace of the reads can be too slow."""

    def test_fast_producers_are_reported_with_both_rates(self) -> None:
        """Ten records per second arrive, and a read takes four."""
        view = turns(ByHand(0, read_max=4, follow=True), STEPS_WATCHED + 2, written=10)

        assert view.non_convergent
        (warning,) = view.warnings
        assert warning.code == "NonConvergent"
        assert "10 records/s are written, 4 are read" in warning.message

    def test_a_read_that_takes_all_new_records_is_fast_enough(self) -> None:
        """The number of records per turn does not matter: the next read takes them."""
        view = turns(ByHand(0, read_max=100, follow=True), 3 * STEPS_WATCHED, written=90)

        assert (view.non_convergent, view.warnings) == (False, ())

    def test_a_shrinking_backlog_causes_no_warning(self) -> None:
        """After hours without a driver there is much to read."""
        world = ByHand(0, read_max=10, follow=True)
        world.produce("0", 1000)

        assert not turns(world, 2 * STEPS_WATCHED, written=1).non_convergent


class TestHistoryThatIsKeptForTooShort:
    """A record that expires before it is read ends the job permanently."""

    def test_a_short_retention_is_reported_while_there_is_time(self) -> None:
        """The retention is a day for a thousand records at one per hundred seconds; the warning ends once history is
        read."""
        world = ByHand(1000, follow=True)
        head = Head({"0": 1000}, world.now.wall_ms, "topic-1", kept_s=DAY_S)
        world.strategy.on(SourcePolled(head), world.now)
        before = world.strategy.view(world.now).warnings
        world.strategy.on(SourcePolled(replace(head, kept_s=100)), world.now)
        world.limit(1)
        (warning,) = world.strategy.view(world.now).warnings
        world.limit(None)
        world.run()
        world.strategy.on(SourcePolled(replace(head, kept_s=100)), world.now)

        assert before == ()
        assert warning.code == "RetentionShort"
        assert "raise the retention of the source, or the limit" in warning.message
        assert world.strategy.view(world.now).warnings == ()


class TestRemovalsThatAreKeptForTooShort:
    """Compaction drops a record without a value a day after it compacted the key. A job that reads it later keeps the row."""

    @staticmethod
    def warned(removals_kept_s: int) -> tuple[list[str], list[str]]:
        """Return the warnings of a target with one row per key, and those of one with a row per record, for 1,000 records at one per second."""
        seen = list[list[str]]()
        for machine in (Driven(topic(p0=1000)).machine, ByHand(1000).strategy):
            machine.on(LimitSet(1, 1.0), Now(0.0, 0))
            head = Head({"0": 1000}, 0, machine.stored.source_id, removals_kept_s=removals_kept_s)
            machine.on(SourcePolled(head), Now(0.0, 0))
            seen.append([warning.message for warning in machine.view(Now(0.0, 0)).warnings])
        return seen[0], seen[1]

    def test_a_history_that_takes_longer_is_reported(self) -> None:
        """Only a target with one row per key loses a removal."""
        (message,), of_records = self.warned(2000)

        assert "raise delete.retention.ms of the topic" in message
        assert of_records == []

    def test_a_history_that_is_read_in_time_is_not_reported(self) -> None:
        """A third of the time is left for delays."""
        assert self.warned(4000) == ([], [])


class TestAJobThatWasStopped:
    """A job that is stopped for longer than the topic keeps removals may keep rows of removed keys. Its next attempt once said nothing."""

    @staticmethod
    def warned(stopped_s: int, *, unread: int) -> list[str]:
        """Return the warnings of an attempt that begins after a stop, with unread records, of a topic that keeps removals for a day."""
        first = Driven(topic(p0=3))
        first.merge()
        first.commit()
        machine = UpsertSplits(
            topic(p0=3 + unread), SourceSplitsSettings(), decode(first.stored), last_txn=None, committed_ms=0
        )
        head = Head({"0": 3 + unread}, 0, machine.stored.source_id, removals_kept_s=DAY_S)
        for seconds in (stopped_s, stopped_s + 1):
            machine.on(SourcePolled(head), Now(0.0, 1000 * seconds))
        return [warning.message for warning in machine.view(Now(0.0, 1000 * stopped_s)).warnings]

    def test_a_stop_that_is_too_long_is_reported(self) -> None:
        """The warning stays for the attempt."""
        (message,) = self.warned(2 * DAY_S, unread=1)

        assert "did not commit for 2 d" in message
        assert "backfill verify" in message

    def test_a_short_stop_is_not_reported(self) -> None:
        """Removals are kept for that time."""
        assert self.warned(DAY_S, unread=1) == []

    def test_a_job_without_unread_records_is_not_reported(self) -> None:
        """Nothing was written, so nothing was removed."""
        assert self.warned(2 * DAY_S, unread=0) == []


class TestLagByPartition:
    """R-SRC-42: the lag includes offsets of history and new ones, for the partitions that are furthest behind."""

    def test_the_lag_by_partition_is_bounded(self) -> None:
        """A topic of many partitions must not create as many series."""
        world = ByHand(*range(1, 31))
        world.produce("0", 500)
        world.poll()
        view = world.strategy.view(world.now)

        assert view.lag_by_partition is not None
        assert view.lag_by_partition.shown[:2] == (("0", 501), ("29", 30))
        assert (len(view.lag_by_partition.shown), view.lag_by_partition.others) == (20, 10)
        assert view.lag_records == sum(n for _, n in view.lag_by_partition.shown) + view.lag_by_partition.others_sum


class TestTheTimeThatIsLeft:
    """The estimate covers history and new records."""

    @staticmethod
    def copied(world: ByHand, offsets: int) -> Facts:
        """Commit after some offsets of history."""
        world.now_s += 1
        (work, *_) = world.start()
        assert count(work.ranges) == offsets
        world.finish(work)
        world.commit()
        return world.strategy.view(world.now).facts

    def test_the_rate_of_an_old_limit_does_not_count(self) -> None:
        """Rates under two limits do not mix; without a limit, the rate measured without one counts."""
        world = ByHand(100_000, in_flight_max=1, read_max=1000)
        world.poll()
        for _ in range(3):
            free = self.copied(world, 1000)
        world.limit(10)
        limited = world.strategy.view(world.now).facts
        world.limit(None)
        lifted = world.strategy.view(world.now).facts

        assert [facts.copy and facts.copy.seconds for facts in (free, limited, lifted)] == [97, 9700, 97]
        assert (free.rows_per_s, limited.rows_per_s, lifted.rows_per_s) == (1000, 0, 0)

    def test_new_records_are_estimated_at_the_pace_of_history(self) -> None:
        """A target with one row per key gets them after history; the estimate once had no time for them."""
        world = ByHand(100_000, in_flight_max=1, read_max=1000)
        world.poll()
        for _ in range(3):
            self.copied(world, 1000)
        world.produce("0", 500)
        world.poll()
        facts = world.strategy.view(world.now).facts

        assert (facts.versions_left, facts.version_s) == (500, 1 / 1000)


class TestALimitThatIsLifted:
    """Reads under a lifted limit are committed under the next one, and do not measure its pace (fault U4)."""

    def test_a_lifted_limit_leaves_no_rate_behind(self) -> None:
        """After two reads of ten records per second, the estimate for a short history was once days."""
        world = ByHand(1_000_000, in_flight_max=3)
        world.limit(10)
        begun = []
        for _ in range(2):
            world.second()
            begun += world.start()
        world.limit(None)
        world.second()
        begun += world.start()
        rates = []
        for work in begun:
            world.now_s += 1
            world.finish(work)
            world.commit()
            rates.append(world.strategy.view(world.now).facts.rows_per_s)

        assert len(begun) > 2
        assert not any(0 < rate < 1000 for rate in rates), rates
