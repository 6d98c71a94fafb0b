"""The sizes of the next pieces, after a width changed while the pieces of earlier ones run."""

from __future__ import annotations

from support.arrangement import by_hand as keys
from support.arrangement.by_hand import ids
from support.source_splits import by_hand as topic

from backfill_api.spec.override import Width
from backfill_core.pacing.sizing import SplitSizer
from backfill_core.phases.key_copy_settings import KeyCopySettings
from backfill_core.positions.offsets import count
from backfill_core.protocol.events import WidthSet
from backfill_core.protocol.work import KeyRangeStaged

TEN = ids(*range(10))


class TestTheTargetDuration:
    """Pieces take the target time at the measured speed."""

    def test_measured_rows_follow_the_target_in_proportion_and_within_their_bounds(self) -> None:
        """Before the first measurement the rows stay: a Java that has just started is slow."""
        fresh = SplitSizer(4.0, 1000, 100, 10_000)
        measured = fresh.observe(1000, 4.0)

        assert (fresh.toward(8.0).rows, fresh.toward(8.0).target_s) == (1000, 8.0)
        assert [measured.toward(seconds).rows for seconds in (4.0, 8.0, 1.0, 0.1, 600.0)] == [
            1000,
            2000,
            250,
            100,
            10_000,
        ]
        assert measured.toward(8.0).observe(2000, 8.0).rows == 2000

    def test_reads_of_the_history_of_a_topic_follow_and_new_records_do_not(self) -> None:
        """The live side has the duration of a batch."""
        world = topic.ByHand(10_000_000, in_flight_max=1, follow=True)
        (first,) = world.start(changes=False)
        world.now_s += 4
        world.finish(first)
        (second,) = world.start(changes=False)
        world.strategy.on(WidthSet(Width(split_target_seconds=8)), world.now)
        world.now_s += 4 * count(second.ranges) / count(first.ranges)
        world.finish(second)
        (third,) = world.start(changes=False)

        assert (count(first.ranges), count(second.ranges), count(third.ranges)) == (300_000, 300_000, 600_000)


class TestTheRowsOfAChunk:
    """A chunk that starts later has the new bound; one that waits is read in parts."""

    def test_the_next_chunk_has_the_rows_in_force(self) -> None:
        """The chunk that is being read stays as it is."""
        attempt = keys.ByHand([TEN], cuts=ids(*range(9)), chunk_rows=4, in_flight_max=1)
        (first,) = attempt.start()
        attempt.strategy.on(WidthSet(Width(chunk_rows=2)), attempt.now)
        assert attempt.start() == []
        attempt.finish(first)
        (second,) = attempt.start()

        assert (first.high, second.low, second.high) == ((3,), (3,), (5,))

    def test_a_chunk_ends_at_a_cut_of_the_attempt(self) -> None:
        """A smaller one would be read up to the cut, and no other chunk beside it."""
        settings = KeyCopySettings(2, 4.0, rows_per_cut=50_000)

        assert settings.under(Width(chunk_rows=10_000)).chunk_rows == 50_000
        assert settings.under(Width(chunk_rows=90_000)).chunk_rows == 90_000
        assert settings.under(Width(chunk_rows=90_000)).under(Width(chunk_rows=0)).chunk_rows is None

    def test_a_lost_chunk_is_read_again_in_parts(self) -> None:
        """It was planned with more rows than a chunk may have now."""
        attempt = keys.ByHand([TEN], cuts=ids(4), rows_per_cut=5, chunk_rows=5, in_flight_max=1)
        (first,) = attempt.start()
        attempt.strategy.on(WidthSet(Width(chunk_rows=2)), attempt.now)
        attempt.lose(first)
        (again,) = attempt.start()

        assert (first.rows_max, again.rows_max) == (None, 2)
        attempt.finish(again)
        attempt.run()

    def test_zero_rows_let_chunks_follow_the_time(self) -> None:
        """As without `chunkRows` in the spec."""
        attempt = keys.ByHand([TEN], cuts=ids(*range(9)), chunk_rows=1, in_flight_max=1)
        (first,) = attempt.start()
        attempt.strategy.on(WidthSet(Width(chunk_rows=0)), attempt.now)
        attempt.finish(first)
        (second,) = attempt.start()

        assert (first.high, second.high, second.rows_max) == ((0,), None, None)

    def test_a_bound_that_arrives_during_the_first_read_does_not_fail_the_job(self) -> None:
        """The first read is small by itself. If it ends at a key that is too large, it is read again, whole."""
        attempt = keys.ByHand([[(key,) for key in "abc"]], types=("string",), rows_per_cut=1_000_000, in_flight_max=1)
        (first,) = attempt.start()
        attempt.strategy.on(WidthSet(Width(chunk_rows=2)), attempt.now)
        attempt.strategy.on(keys.WorkFinished(KeyRangeStaged(first.work_id, (), 2, ("x" * 100_000,))), attempt.now)

        assert attempt.strategy.status.failure is None
