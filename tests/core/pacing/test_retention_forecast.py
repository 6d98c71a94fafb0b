"""Forecast in a plan for a topic: large partitions, records that may expire, and readers that are too slow."""

import pytest

from backfill_core.pacing.retention_forecast import warn_of_ending, warn_of_speed
from backfill_core.positions.offsets import Largest

FIRST, NEWEST = {"0": 100, "1": 0}, {"0": 600, "1": 400}


class TestTheLargest:
    """A topic with a thousand partitions has a bounded plan and bounded metrics."""

    def test_the_largest_are_shown_and_the_rest_is_summed(self):
        """The sum includes every partition."""
        largest = Largest.of({str(number): number for number in range(1000)}, 10)

        assert largest.shown[0] == ("999", 999)
        assert (len(largest.shown), largest.others) == (10, 990)
        assert largest.others_sum + sum(number for _, number in largest.shown) == sum(range(1000))

    def test_a_few_partitions_are_all_shown(self):
        """Equal partitions are sorted by name, so that two reads do not differ."""
        assert Largest.of({"1": 5, "0": 5, "2": 7}, 10) == Largest((("2", 7), ("0", 5), ("1", 5)), 0, 0)


class TestRetentionAgainstTheDuration:
    """A record that expires before it is read ends the job permanently."""

    @pytest.mark.parametrize(
        ("kept_from", "message"),
        [
            ({"0": 100, "1": 0}, None),
            ({"0": 50, "1": 0}, None),  # records before the spec's first offset may expire
            ({"0": 101, "1": 0}, "1 of 900 offsets, in 1 of 2 partitions"),
            ({"0": 700, "1": 10}, "510 of 900 offsets, in 2 of 2 partitions"),  # later records are not history
        ],
    )
    def test_records_that_may_expire_before_the_end_are_counted(self, kept_from, message):
        """The ages of the records decide."""
        warnings = warn_of_ending(FIRST, NEWEST, kept_from, needed_s=7200, kept_s=7 * 86_400)

        assert [warning.code for warning in warnings] == ([] if message is None else ["RetentionEnding"])
        if message is not None:
            assert message in warnings[0].message
            assert "keeps a record for 7 d, the job may take 2 h" in warnings[0].message


class TestProducersAgainstTheRead:
    """A job that never catches up should not be started."""

    @pytest.mark.parametrize(("read_per_s", "warned"), [(11.0, False), (10.0, True), (5.0, True), (0.0, False)])
    def test_the_warning_names_both_rates(self, read_per_s, warned):
        """Without a measured read rate, no warning is possible."""
        warnings = warn_of_speed({"0": 0}, {"0": 200, "1": 400}, seconds=60, read_per_s=read_per_s)

        assert [warning.code for warning in warnings] == ["NonConvergent"] * warned
        if warned:
            assert f"10 records/s were written in the last 1 min, and {read_per_s:,.0f} are read" in warnings[0].message
