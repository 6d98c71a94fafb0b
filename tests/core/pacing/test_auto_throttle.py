"""The automatic limit: laws of its machine, and its behaviour on a store that refuses requests above a capacity."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.pacing.auto_throttle import AutoSettings, AutoThrottle, Target

COMMITS, ERRORS = Target("commits take", " s", 1.0), Target("the store refuses", " requests a minute", 60.0)
REFUSED = Target("the store refuses", " % of requests", 1.0, is_refused_share=True)
TARGETS = {"commitSeconds": COMMITS, "storeErrors": ERRORS}
VALUES = st.one_of(st.none(), st.floats(0, 500))
OBSERVATIONS = st.lists(st.tuples(VALUES, VALUES, st.booleans(), st.floats(0.1, 90)), max_size=60)


def limits(observations, settings):
    """Return the automatic limit after each observation, with its measurements."""
    auto, now_s, seen = AutoThrottle.begin(settings), 0.0, []
    for commits, errors, used, seconds in observations:
        now_s += seconds
        before, measured = auto, {"commitSeconds": commits, "storeErrors": errors}
        auto = auto.observe(measured, used=used, now_s=now_s)
        broken = (commits or 0) > 1 or (errors or 0) > 60
        seen.append((before, auto, broken, None in (commits, errors), used))
    return seen


class TestAnyObservations:
    """The laws hold for every sequence of measurements."""

    BOUNDS = st.tuples(st.integers(1, 10_000), st.integers(0, 10**6)).map(lambda pair: (pair[0], pair[0] + pair[1]))

    @given(observations=OBSERVATIONS, bounds=BOUNDS)
    def test_the_limit_is_never_below_the_floor_nor_above_the_ceiling(self, observations, bounds):
        """The user sets both: below the floor the job does not end, above the ceiling it may disturb others."""
        for _, auto, *_ in limits(observations, AutoSettings(TARGETS, *bounds)):
            assert bounds[0] <= auto.rows_per_s <= bounds[1]

    @given(observations=OBSERVATIONS)
    def test_a_target_that_is_broken_twice_lowers_the_limit(self, observations):
        """At the floor it cannot fall."""
        steps = limits(observations, AutoSettings(TARGETS, 10, 100_000))
        for (_, _, first, *_), (before, auto, second, *_) in pairwise(steps):
            if first and second:
                assert auto.rate < before.rate or auto.rows_per_s == 10
                assert auto.binding

    @given(observations=OBSERVATIONS)
    def test_missing_and_broken_measurements_never_raise_the_limit(self, observations):
        """A monitoring system that is down must not speed a job up; an unused limit proves nothing."""
        for before, auto, broken, missing, used in limits(observations, AutoSettings(TARGETS, 10, 100_000)):
            if broken or missing or not used:
                assert auto.rate <= before.rate

    def test_one_slow_commit_changes_nothing(self):
        """A garbage collection is no reason to slow down for a minute."""
        auto = AutoThrottle(AutoSettings({"commitSeconds": COMMITS}, 10, 1000), 500.0)
        slow = auto.observe({"commitSeconds": 5.0}, used=True, now_s=1)

        assert slow.rate == 500.0
        assert slow.observe({"commitSeconds": 0.5}, used=True, now_s=2).rate == 950.0
        assert slow.observe({"commitSeconds": 1.02}, used=True, now_s=2).rate == 450.0
        assert slow.observe({"commitSeconds": 1.5}, used=True, now_s=2).rate == pytest.approx(500 * 0.95 / 1.5)
        assert slow.observe({"commitSeconds": 2.5}, used=True, now_s=2).rate == 250.0

    def test_the_reason_names_the_target_that_is_exceeded_most(self):
        """Both are broken: users repair the worse one first."""
        auto, measured = (
            AutoThrottle.begin(AutoSettings(TARGETS, 10, 1000)),
            {"commitSeconds": 2.14, "storeErrors": 61.0},
        )
        for now_s in (1.0, 2.0):
            auto = auto.observe(measured, used=True, now_s=now_s)

        assert auto.binding == "commits take 2.1 s, target 1 s"


@dataclass
class Store:
    """A store that serves a number of requests a second, and refuses the others; a job at a limit sends them."""

    requests_per_s: float
    rows_per_request: int
    rng: Random
    refused: list[float] = field(default_factory=list)
    served: list[float] = field(default_factory=list)

    def observed(self, auto: AutoThrottle, now_s: float) -> AutoThrottle:
        """Return the limit after one second of a job that reads as many rows as limit and store permit."""
        refused = self.second(auto.rows_per_s)
        achieved = self.served[-1] * self.rows_per_request
        return auto.observe({"storeErrors": refused}, used=True, now_s=now_s, achieved=achieved)

    def second(self, rows_per_s: int) -> float:
        """Serve one second, and return the percentage of refused requests."""
        requests = rows_per_s / self.rows_per_request * self.rng.uniform(0.97, 1.03)
        self.served.append(min(requests, self.requests_per_s))
        self.refused.append(max(0.0, requests - self.requests_per_s))
        return 100 * self.refused[-1] / requests


@pytest.mark.parametrize("ceiling", [30_000, 200_000, 2_000_000])
@pytest.mark.parametrize("seed", range(20))
class TestAStoreThatRefusesRequests:
    """A store answers 503 above 200 requests a second, at 100 rows a request: 20,000 rows a second."""

    def test_it_settles_within_30_seconds_near_the_capacity(self, seed, ceiling):
        """At least 80 % of the capacity is used, and less than 1 % of the requests are refused from then on."""
        store = Store(200, 100, Random(seed))
        auto = AutoThrottle.begin(AutoSettings({"storeErrors": REFUSED}, 1_000, ceiling))
        for second in range(330):
            auto = store.observed(auto, float(second))

        served, refused = sum(store.served[30:]), sum(store.refused[30:])
        assert served / 300 >= 0.9 * 200
        assert refused / (served + refused) < 0.01

    def test_a_store_that_recovers_is_used_again(self, seed, ceiling):
        """An incident of half an hour must not slow down the whole day."""
        store = Store(20, 100, Random(seed))
        auto = AutoThrottle.begin(AutoSettings({"storeErrors": REFUSED}, 1_000, ceiling))
        for second in range(60):
            auto = store.observed(auto, float(second))
        low, store.requests_per_s = auto.rows_per_s, 200
        for second in range(60, 3600):
            auto = store.observed(auto, float(second))

        assert low < 2_500
        assert auto.rows_per_s > 15_000

    def test_the_limit_does_not_oscillate(self, seed, ceiling):
        """Every cut is a probe that failed: after 30 seconds there is about one a minute, of at most a fifth."""
        store = Store(200, 100, Random(seed))
        auto, limits = AutoThrottle.begin(AutoSettings({"storeErrors": REFUSED}, 1_000, ceiling)), []
        for second in range(630):
            auto = store.observed(auto, float(second))
            limits.append(auto.rows_per_s)

        cuts = [(before, after) for before, after in pairwise(limits[30:]) if after < before]
        assert len(cuts) <= 12
        assert all(after >= 0.8 * before for before, after in cuts)
