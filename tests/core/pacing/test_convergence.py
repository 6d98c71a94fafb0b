"""The shrinking limit (R-SNAP-23, R-SNAP-25, R-SNAP-26)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.pacing.convergence import STEPS_WATCHED, TIMES_MAX, EpochTimes, LagTrend, PendingLimit

steps = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=40)


class TestTheLimitOnlyShrinks:
    """R-SNAP-23, R-SNAP-25: the limit only shrinks, so that job and upstream must meet."""

    @given(st.one_of(st.none(), st.integers(0, 1000)), steps)
    def test_the_limit_follows_the_formula_and_never_rises(
        self, limit: int | None, taken: list[tuple[int, int]]
    ) -> None:
        """The formula is `max(0, min(lag, limit - elapsed / 2))`, in whole and half units."""
        limiter, halves = PendingLimit(limit), None if limit is None else 2 * limit
        for lag, elapsed in taken:
            before, limiter = limiter.limit, limiter.step(lag, elapsed)
            halves = 2 * lag if halves is None else max(0, min(2 * lag, halves - elapsed))
            assert limiter.limit is not None
            assert 2 * limiter.limit == halves
            assert before is None or limiter.limit <= before

    @given(st.integers(0, 10_000), st.integers(1, 100))
    def test_the_limit_is_zero_after_as_many_epochs_as_it_is_wide(self, limit: int, elapsed: int) -> None:
        """The upstream advances at most one epoch while the job advances two, so catch-up is bounded."""
        limiter = PendingLimit(limit)
        for _ in range(2 * limit // elapsed + 1):
            limiter = limiter.step(10**6, elapsed)
        assert limiter.limit == 0


S3 = [
    # consumed, pulled, lag after, limit after
    (110, 150, 40, 40),
    (120, 160, 40, 35),
    (130, 170, 40, 30),
    (140, None, 30, 25),
    (150, 180, 30, 20),
    (160, None, 20, 15),
    (170, 190, 20, 10),
    (180, None, 10, 5),
    (190, None, 0, 0),
]
"""Worked example S3 of semantics 4.2, row by row; the last row has nothing left to pull."""


class TestWorkedExampleS3:
    """Four epochs are pending after the snapshot of 100; one more upstream barrier becomes ready per step."""

    @pytest.mark.parametrize("start", [140, None])
    def test_the_limit_follows_the_example_row_by_row(self, start: int | None) -> None:
        """`None` represents the raw-epoch quirk: practically unlimited until the first step."""
        limiter, pending, ready = PendingLimit(start), [110, 120, 130, 140], [150]
        for consumed, pulled, lag, limit in S3:
            assert pending.pop(0) == consumed
            got = None
            newest = pending[-1] if pending else None
            # The executor does the same: while a group is pending, it pulls ready epochs as long as the limit allows.
            allowed = limiter.limit is None or (newest is not None and newest - consumed < limiter.limit)
            if newest is not None and ready and allowed:
                got = ready.pop(0)
                pending.append(got)
            assert got == pulled
            ready = [*ready, max([*pending, *ready, consumed]) + 10][:1]
            after = pending[-1] - consumed if pending else 0
            limiter = limiter.step(after, 10)
            assert (after, limiter.limit) == (lag, limit)
        assert pending == []


class TestNonConvergent:
    """The condition names both rates if the lag did not fall over ten steps."""

    @given(st.lists(st.integers(0, 1000), min_size=1, max_size=40))
    def test_the_lag_is_compared_with_the_lag_ten_steps_ago(self, lags: list[int]) -> None:
        """An earlier comparison would mistake a burst for a trend; a comparison with the beginning would use outdated
        lags."""
        trend = LagTrend()
        for at, lag in enumerate(lags):
            trend = trend.observe(lag)
            judged = at >= STEPS_WATCHED
            assert trend.non_convergent == (judged and lag >= lags[at - STEPS_WATCHED] > 0)

    def test_a_falling_lag_converges(self) -> None:
        """A slow job is not stuck, as long as its lag falls."""
        trend = LagTrend()
        for lag in range(1000, 900, -1):
            trend = trend.observe(lag)
        assert not trend.non_convergent

    def test_a_caught_up_job_is_not_stuck(self) -> None:
        """A lag of 0 does not fall either."""
        trend = LagTrend()
        for _ in range(50):
            trend = trend.observe(0)
        assert not trend.non_convergent

    def test_the_trend_stores_a_bounded_number_of_lags(self) -> None:
        """The trend lives as long as the job follows its source."""
        trend = LagTrend()
        for _ in range(500):
            trend = trend.observe(5)
        assert len(trend.lags) == STEPS_WATCHED + 1


polls = st.lists(st.tuples(st.integers(0, 50), st.integers(-100, 1000)), max_size=40)


class TestCommitTimesOfVersions:
    """`EpochTime` measures with these times: a job sees only the versions that were newest at a poll."""

    @given(polls, st.integers(0, 60), st.integers(0, 60))
    def test_a_later_version_is_never_earlier(self, seen: list[tuple[int, int]], first: int, second: int) -> None:
        """A clock that goes back must not make a lag negative."""
        times = EpochTimes()
        for version, timestamp_ms in seen:
            times = times.learn(version, timestamp_ms)
        assert times.at(min(first, second)) <= times.at(max(first, second))

    def test_time_passes_evenly_between_two_polled_versions(self) -> None:
        """A batch may end between two polled versions."""
        times = EpochTimes().learn(10, 1000).learn(20, 2000)
        assert [times.at(version) for version in (5, 10, 13, 20, 99)] == [1000, 1000, 1300, 2000, 2000]

    def test_only_consumed_versions_are_dropped(self) -> None:
        """The time of a version that was never polled needs the polled version before it."""
        times = EpochTimes().learn(10, 1000).learn(20, 2000).learn(30, 4000)
        assert times.forget_before(25).at(25) == times.at(25) == 3000
        assert len(times.forget_before(25).points) == 2

    def test_the_number_of_times_is_bounded(self) -> None:
        """A job that is far behind polls for hours; the newest version is kept."""
        times = EpochTimes()
        for version in range(2 * TIMES_MAX):
            times = times.learn(version, version)
        assert len(times.points) == TIMES_MAX
        assert times.at(2 * TIMES_MAX - 1) == 2 * TIMES_MAX - 1
