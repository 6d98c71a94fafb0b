"""Rate and time left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.protocol.eta import SAMPLES_MAX, Eta, RateMeter, estimate

seals = st.lists(st.tuples(st.floats(0, 10), st.integers(0, 10**6)), max_size=60)


def metered(observed: list[tuple[float, int]]) -> RateMeter:
    meter, now_s = RateMeter().observe(0, 0.0), 0.0
    for pause_s, rows in observed:
        now_s += pause_s
        meter = meter.observe(rows, now_s)
    return meter


def estimated(rows_left: int, meter: RateMeter) -> Eta | None:
    """Return the estimate at the newest seal."""
    return estimate(rows_left, meter, meter.last_s or 0.0)


class TestTheRate:
    """The rate counts sealed rows per second; staged rows without a seal do not count."""

    def test_steady_seals_give_their_rate(self) -> None:
        """The seals have 1,000 rows every two seconds."""
        assert metered([(2.0, 1000)] * 10).rows_per_s == pytest.approx(500)

    def test_the_rate_follows_a_change(self) -> None:
        """An estimate from last night is useless."""
        assert metered([(1.0, 10)] * 100 + [(1.0, 1000)] * SAMPLES_MAX).rows_per_s == pytest.approx(1000)

    def test_the_rate_is_weighted_by_time(self) -> None:
        """A long slow seal weighs more than a short fast one."""
        assert metered([(9.0, 900), (1.0, 1100)]).rows_per_s == pytest.approx(200)

    def test_the_first_seal_only_starts_the_clock(self) -> None:
        """The start of its rows is unknown."""
        assert RateMeter().observe(10**6, 5.0).rows_per_s == 0

    def test_seals_at_the_same_time_count_as_one(self) -> None:
        """There is no division by zero, and no rows are lost."""
        assert metered([(1.0, 100), (0.0, 100)]).rows_per_s == pytest.approx(200)

    def test_a_pause_does_not_change_the_rate(self) -> None:
        """The rate after a night's pause is the rate before it."""
        meter = metered([(1.0, 100)] * 5).hold(5.0, held=True).hold(50_000.0, held=False).observe(100, 50_001.0)
        assert meter.rows_per_s == pytest.approx(100)

    def test_rates_of_two_limits_do_not_mix(self) -> None:
        """A throttled job is not as fast as before for the next thirty commits; the first commit has rows of both
        limits."""
        before = metered([(1.0, 1000)] * 9).under(100)
        after = before.observe(900, 10.0)

        assert (before.rows_per_s, after.rows_per_s) == (100, 100)
        assert (before.measured, after.measured) == (0, 0)
        assert after.under(100).observe(50, 11.0).rows_per_s == pytest.approx(50)

    @given(seals)
    def test_the_number_of_samples_is_bounded(self, observed: list[tuple[float, int]]) -> None:
        """A job may seal for weeks."""
        assert len(metered(observed).samples) <= SAMPLES_MAX


class TestUnderANewLimit:
    """Until two seals happened under a new limit, the previous rate estimates the rest only where it must."""

    def test_a_lower_limit_is_the_rate(self) -> None:
        """A job that was faster before is now as fast as the limit allows."""
        eta = estimated(5000, metered([(1.0, 1000)] * 9).under(100))

        assert eta is not None
        assert eta.seconds == pytest.approx(50)

    def test_a_lifted_limit_gives_no_estimate(self) -> None:
        """A job under ten rows per second once showed 15 minutes for work of 30 seconds."""
        limited = RateMeter().under(10).observe(0, 0.0).observe(10, 1.0).observe(10, 2.0)

        assert limited.rows_per_s == pytest.approx(10)
        assert estimated(1000, limited.under(None)) is None
        assert estimated(1000, limited.under(500)) is None
        assert limited.under(None).measured == 0

    def test_a_rate_measured_without_a_limit_counts_again(self) -> None:
        """The number of limits in between does not matter."""
        free = metered([(1.0, 1000)] * 9).under(10).observe(10, 10.0).observe(10, 11.0).under(20)

        for meter, seconds in ((free.under(None), 5), (free.under(500), 10), (free.under(2000), 5)):
            eta = estimated(5000, meter)
            assert eta is not None
            assert eta.seconds == pytest.approx(seconds)


class TestTheEstimate:
    """The estimate is the seconds left, with an interval that narrows as the rate steadies."""

    @given(st.integers(0, 10**9), seals)
    def test_the_estimate_lies_within_its_interval(self, rows_left: int, observed: list[tuple[float, int]]) -> None:
        """The estimate is never negative and never infinite."""
        meter = metered(observed)
        eta = estimated(rows_left, meter)
        if meter.rows_per_s <= 0:
            assert eta is None
        else:
            assert eta is not None
            assert 0 <= eta.low <= eta.seconds * (1 + 1e-9)
            assert eta.seconds <= eta.high * (1 + 1e-9) < float("inf")

    def test_there_is_no_estimate_without_a_rate(self) -> None:
        """The job was paused from the start or has just begun: no number is better than a wrong one."""
        assert estimated(100, RateMeter()) is None
        assert estimated(100, metered([(1.0, 0)] * 5)) is None

    def test_a_steady_rate_has_a_narrow_interval(self) -> None:
        """An unsteady rate has a wide interval around the same average."""
        steady = estimated(10_000, metered([(1.0, 100)] * 20))
        unsteady = estimated(10_000, metered([(1.0, 20), (1.0, 180)] * 10))
        assert steady is not None
        assert unsteady is not None
        assert steady.seconds == unsteady.seconds == pytest.approx(100)
        assert steady.high - steady.low < 25
        assert unsteady.high - unsteady.low > 35

    def test_few_samples_have_a_wider_interval(self) -> None:
        """Two rates that agree by chance do not prove that the next hour has this rate."""
        few, many = (estimated(10_000, metered([(1.0, 90), (1.0, 110)] * pairs)) for pairs in (1, 10))
        assert few is not None
        assert many is not None
        assert few.seconds == many.seconds == pytest.approx(100)
        assert few.high - few.low > 1.5 * (many.high - many.low)

    def test_last_seals_of_a_job_are_less_certain_than_many(self) -> None:
        """Deviations of a hundred seals cancel each other out, the deviation of one does not."""
        meter = metered([(1.0, 50), (1.0, 150)] * 10)
        last, many = estimated(100, meter), estimated(10_000, meter)
        assert last is not None
        assert many is not None
        assert last.high / last.seconds > 1.5 * many.high / many.seconds

    def test_time_left_falls_between_two_seals(self) -> None:
        """Rows in flight are not durable, but they are worked on; a late seal does not count as progress."""
        meter = metered([(2.0, 200)] * 10)
        left = [estimate(1000, meter, 20.0 + passed_s) for passed_s in (0.0, 1.0, 2.0, 60.0)]
        assert [None if eta is None else eta.seconds for eta in left] == pytest.approx([10, 9, 8, 8])

    def test_time_left_does_not_change_in_a_pause(self) -> None:
        """No rows are copied, so a long pause would end with an estimate of zero."""
        eta = estimate(1000, metered([(2.0, 200)] * 10).hold(20.0, held=True), 60.0)
        assert eta is not None
        assert eta.seconds == pytest.approx(10)

    def test_one_sample_gives_a_wide_interval(self) -> None:
        """The interval is two thirds to double the estimate."""
        eta = estimated(1000, metered([(1.0, 100)]))
        assert eta is not None
        assert (eta.low, eta.high) == (pytest.approx(20 / 3), pytest.approx(20))

    def test_a_finished_copy_has_no_time_left(self) -> None:
        """The last seal may be the one that is being reported."""
        eta = estimated(0, metered([(1.0, 100)] * 3))
        assert eta is not None
        assert eta.high == 0
