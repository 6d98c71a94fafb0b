"""The shrinking limit (R-SNAP-23, R-SNAP-25, R-SNAP-26)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.pacing.convergence import STEPS_WATCHED, TIMES_MAX, EpochTimes, LagTrend, PendingLimit

steps = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=40)


class TestTheLimitOnlyShrinks:
    """R-SNAP-23, R-SNAP-25: so that job and upstream must meet."""

    @given(st.one_of(st.none(), st.integers(0, 1000)), steps)
    def test_follows_the_formula_and_never_rises(self, limit: int | None, taken: list[tuple[int, int]]) -> None:
        """`max(0, min(lag, limit - elapsed / 2))`, in whole and half units."""
        one, halves = PendingLimit(limit), None if limit is None else 2 * limit
        for lag, elapsed in taken:
            before, one = one.limit, one.step(lag, elapsed)
            halves = 2 * lag if halves is None else max(0, min(2 * lag, halves - elapsed))
            assert one.limit is not None
            assert 2 * one.limit == halves
            assert before is None or one.limit <= before

    @given(st.integers(0, 10_000), st.integers(1, 100))
    def test_is_zero_after_as_many_epochs_as_it_is_wide(self, limit: int, elapsed: int) -> None:
        """The upstream advances at most one epoch while the job advances two: bounded catch-up."""
        one = PendingLimit(limit)
        for _ in range(2 * limit // elapsed + 1):
            one = one.step(10**6, elapsed)
        assert one.limit == 0


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
    """Four epochs pending after the snapshot of 100; one more upstream barrier becomes ready per step."""

    @pytest.mark.parametrize("start", [140, None])
    def test_row_by_row(self, start: int | None) -> None:
        """`None` is our spelling of the raw-epoch quirk: practically unlimited until the first step."""
        one, pending, ready = PendingLimit(start), [110, 120, 130, 140], [150]
        for consumed, pulled, lag, limit in S3:
            assert pending.pop(0) == consumed
            got = None
            newest = pending[-1] if pending else None
            # As the executor does: while a group is pending, pull what is ready as long as the limit allows.
            allowed = one.limit is None or (newest is not None and newest - consumed < one.limit)
            if newest is not None and ready and allowed:
                got = ready.pop(0)
                pending.append(got)
            assert got == pulled
            ready = [*ready, max([*pending, *ready, consumed]) + 10][:1]
            after = pending[-1] - consumed if pending else 0
            one = one.step(after, 10)
            assert (after, one.limit) == (lag, limit)
        assert pending == []


class TestNonConvergent:
    """The condition that names both rates: lag did not fall over ten steps."""

    @given(st.lists(st.integers(0, 1000), min_size=1, max_size=40))
    def test_compares_with_ten_steps_ago(self, lags: list[int]) -> None:
        """Neither earlier (a burst is no trend) nor from the beginning (the past is past)."""
        one = LagTrend()
        for at, lag in enumerate(lags):
            one = one.observe(lag)
            judged = at >= STEPS_WATCHED
            assert one.non_convergent == (judged and lag >= lags[at - STEPS_WATCHED] > 0)

    def test_a_falling_lag_converges(self) -> None:
        """A slow job is not a stuck one, as long as its lag falls."""
        one = LagTrend()
        for lag in range(1000, 900, -1):
            one = one.observe(lag)
        assert not one.non_convergent

    def test_caught_up_is_not_stuck(self) -> None:
        """A lag of 0 does not fall either."""
        one = LagTrend()
        for _ in range(50):
            one = one.observe(0)
        assert not one.non_convergent

    def test_remembers_a_bounded_number_of_lags(self) -> None:
        """It lives as long as the job follows its source."""
        one = LagTrend()
        for _ in range(500):
            one = one.observe(5)
        assert len(one.lags) == STEPS_WATCHED + 1


polls = st.lists(st.tuples(st.integers(0, 50), st.integers(-100, 1000)), max_size=40)


class TestCommitTimesOfVersions:
    """What `EpochTime` measures with: a job sees only the versions that were newest when it looked."""

    @given(polls, st.integers(0, 60), st.integers(0, 60))
    def test_a_later_version_is_never_earlier(self, seen: list[tuple[int, int]], one: int, other: int) -> None:
        """A clock that goes back must not make a lag negative."""
        times = EpochTimes()
        for version, timestamp_ms in seen:
            times = times.learn(version, timestamp_ms)
        assert times.at(min(one, other)) <= times.at(max(one, other))

    def test_time_passes_evenly_between_two_that_were_seen(self) -> None:
        """A batch may end in the middle of what one look showed."""
        times = EpochTimes().learn(10, 1000).learn(20, 2000)
        assert [times.at(version) for version in (5, 10, 13, 20, 99)] == [1000, 1000, 1300, 2000, 2000]

    def test_forgets_what_is_consumed_and_no_more(self) -> None:
        """The time of a version that was not seen itself needs the one seen before it."""
        times = EpochTimes().learn(10, 1000).learn(20, 2000).learn(30, 4000)
        assert times.forget_before(25).at(25) == times.at(25) == 3000
        assert len(times.forget_before(25).known) == 2

    def test_remembers_a_bounded_number(self) -> None:
        """A job that is far behind polls for hours; the newest version stays known."""
        times = EpochTimes()
        for version in range(2 * TIMES_MAX):
            times = times.learn(version, version)
        assert len(times.known) == TIMES_MAX
        assert times.at(2 * TIMES_MAX - 1) == 2 * TIMES_MAX - 1
