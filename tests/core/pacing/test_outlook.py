"""What a plan says of partitions with offsets: which are large, what may be gone, whether readers keep up."""

import pytest

from backfill_core.pacing.outlook import warn_of_ending, warn_of_speed
from backfill_core.positions.offsets import Largest

FIRST, NEWEST = {"0": 100, "1": 0}, {"0": 600, "1": 400}


class TestTheLargest:
    """A topic of a thousand partitions has a bounded plan and bounded metrics."""

    def test_are_shown_and_the_rest_is_summed(self):
        """Nothing is left out of the sum."""
        found = Largest.of({str(number): number for number in range(1000)}, 10)

        assert found.shown[0] == ("999", 999)
        assert (len(found.shown), found.others) == (10, 990)
        assert found.others_sum + sum(number for _, number in found.shown) == sum(range(1000))

    def test_of_few_are_all(self):
        """Equal ones in the order of their names, so that two looks do not differ."""
        assert Largest.of({"1": 5, "0": 5, "2": 7}, 10) == Largest((("2", 7), ("0", 5), ("1", 5)), 0, 0)


class TestRetentionAgainstTheDuration:
    """A record that goes before it is read ends the job for good."""

    @pytest.mark.parametrize(
        ("kept_from", "said"),
        [
            ({"0": 100, "1": 0}, None),
            ({"0": 50, "1": 0}, None),  # what the spec leaves out may go
            ({"0": 101, "1": 0}, "1 of 900 offsets, in 1 of 2 partitions"),
            ({"0": 700, "1": 10}, "510 of 900 offsets, in 2 of 2 partitions"),  # what comes later is not history
        ],
    )
    def test_counts_what_may_be_gone_when_the_job_ends(self, kept_from, said):
        """By the ages of the records themselves."""
        found = warn_of_ending(FIRST, NEWEST, kept_from, needed_s=7200, kept_s=7 * 86_400)

        assert [one.code for one in found] == ([] if said is None else ["RetentionEnding"])
        if said is not None:
            assert said in found[0].message
            assert "keeps a record for 7 d, the job may take 2 h" in found[0].message


class TestProducersAgainstTheRead:
    """A job that never catches up should not be begun."""

    @pytest.mark.parametrize(("read_per_s", "said"), [(11.0, False), (10.0, True), (5.0, True), (0.0, False)])
    def test_names_both_rates(self, read_per_s, said):
        """Without a rate of this machine nothing can be said."""
        found = warn_of_speed({"0": 0}, {"0": 200, "1": 400}, seconds=60, read_per_s=read_per_s)

        assert [one.code for one in found] == ["NonConvergent"] * said
        if said:
            assert f"10 records/s were written in the last 1 min, and {read_per_s:,.0f} are read" in found[0].message
