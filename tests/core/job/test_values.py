"""The small values that everything is built of."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from backfill_core.pacing.convergence import LagTrend, PendingLimit
from backfill_core.pacing.eta import RateMeter, estimate
from backfill_core.pacing.sizing import SplitSizer, split_span
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.positions.file_ranges import file_ranges
from backfill_core.positions.intervals import IntervalSet

SPANS = some.lists(some.tuples(some.integers(0, 60), some.integers(0, 60)), max_size=12)


def as_set(spans):
    return {n for start, stop in spans for n in range(start, stop)}


def built(spans):
    result = IntervalSet()
    for start, stop in spans:
        result = result.add(start, stop)
    return result


class TestAnIntervalSetIsASet:
    """Nothing is done twice and nothing is left out."""

    @given(SPANS)
    def test_it_holds_what_was_added(self, spans):
        """Rows that are sealed must count as sealed, and no others."""
        assert as_set(built(spans).spans) == as_set(spans)

    @given(SPANS)
    @example([(0, 3), (3, 5)])
    @example([(3, 5), (0, 3)])
    def test_its_spans_are_sorted_disjoint_and_never_touch(self, spans):
        """So the stored form is as short as it can be."""
        flat = [end for span in built(spans).spans for end in span]

        assert flat == sorted(set(flat))

    @given(SPANS, some.integers(0, 60), some.integers(0, 60))
    def test_gaps_are_those_of_sets(self, spans, start, stop):
        """A gap that is not found is never copied."""
        whole = built(spans)

        assert as_set(whole.gaps(start, stop).spans) == set(range(start, stop)) - as_set(spans)

    @given(SPANS)
    def test_it_comes_back_from_its_stored_form(self, spans):
        """A restart reads what the last commit wrote."""
        assert IntervalSet.from_json(built(spans).to_json()) == built(spans)

    @pytest.mark.parametrize("value", [[[3, 3]], [[5, 2]], [[0, 4], [3, 6]], [[0, 4], [4, 6]], [[9, 10], [1, 2]]])
    def test_a_damaged_stored_form_is_refused(self, value):
        """A guess at a damaged state would lose or double rows."""
        with pytest.raises(ValueError, match="not an interval set"):
            IntervalSet.from_json(value)


class TestARateIsKept:
    """R-SNAP-41, R-SNAP-42: rows a second, down to one and exactly nothing at zero."""

    def test_zero_admits_nothing_ever(self):
        """Not even a burst, or a pause would leak rows."""
        bucket = TokenBucket.full(0, 0.0)

        assert bucket.available(1e9) == 0.0

    def test_no_limit_admits_everything(self):
        """A job without a limit must never wait for the bucket."""
        assert TokenBucket.full(None, 0.0).available(0.0) == float("inf")

    @pytest.mark.parametrize("rate", [1, 2, 3])
    def test_one_row_a_second_is_one_row_a_second(self, rate):
        """R-SNAP-42: RisingWave's builder died at 1 and 2."""
        bucket, taken = TokenBucket.full(rate, 0.0, burst_s=1.1), 0
        for second in range(100):
            rows = int(bucket.available(float(second)))
            bucket, taken = bucket.take(rows, float(second)), taken + rows

        assert abs(taken - 100 * rate) <= rate

    @given(some.integers(1, 10_000), some.lists(some.tuples(some.floats(0, 3), some.integers(0, 20_000)), max_size=30))
    def test_over_any_time_it_admits_at_most_rate_times_time_and_a_burst(self, rate, steps):
        """A limit protects others only if it holds over every window."""
        bucket, now_s, taken = TokenBucket.full(rate, 0.0), 0.0, 0
        for passed_s, wanted in steps:
            now_s += passed_s
            rows = min(wanted, int(bucket.available(now_s)))
            bucket, taken = bucket.take(rows, now_s), taken + rows

        assert taken <= rate * now_s + rate + 1

    def test_a_debt_is_paid_before_anything_else_is_read(self):
        """A large split is read whole, and paid for afterwards."""
        bucket = TokenBucket.full(100, 0.0).take(300, 0.0)

        assert bucket.available(1.9) == 0.0
        assert bucket.available(2.5) == pytest.approx(50, abs=0.1)

    def test_a_raised_rate_brings_no_windfall(self):
        """A new limit must not begin with a burst."""
        bucket = TokenBucket.full(10, 0.0).with_rate(1_000_000, 1.0)

        assert bucket.available(1.0) < 1


class TestSplitsCutTheLine:
    """Every row of the row index is in exactly one split, whatever their sizes."""

    @given(
        some.lists(some.integers(0, 30), min_size=1, max_size=12),
        some.lists(some.tuples(some.integers(1, 40), some.booleans()), min_size=200, max_size=200),
    )
    def test_splits_follow_each_other_without_hole_or_overlap(self, files, sizes):
        """R-SNAP-16: a hole loses rows, and an overlap doubles them."""
        prefix = [0]
        for rows in files:
            prefix.append(prefix[-1] + rows)
        at, found = 0, []
        for rows, exact in sizes:
            span = split_span(prefix, (at, prefix[-1]), rows, exact=exact)
            if span is None:
                break
            found += [
                (file_range.file, row)
                for file_range in file_ranges(prefix, *span)
                for row in range(file_range.start, file_range.stop)
            ]
            at = span[1]

        assert at == prefix[-1]
        assert found == [(file, row) for file, rows in enumerate(files) for row in range(rows)]

    def test_without_a_limit_splits_end_at_files(self):
        """A file that is read by one split is opened once."""
        prefix = [0, 10, 20, 30, 40]

        assert split_span(prefix, (0, 40), 25, exact=False) == (0, 20)
        assert split_span(prefix, (0, 40), 3, exact=False) == (0, 10)
        assert split_span(prefix, (5, 40), 3, exact=False) == (5, 10)

    def test_under_a_limit_they_have_the_size_asked_for(self):
        """One file may hold more rows than a second may take."""
        assert split_span([0, 10, 20], (3, 20), 1, exact=True) == (3, 4)

    def test_sizes_go_to_the_target_duration_by_doubling_at_most(self):
        """One fast split must not cause one of minutes."""
        sizer = SplitSizer(target_s=4.0, rows=100, rows_min=10, rows_max=100_000)
        sizes = []
        for _ in range(12):
            sizer = sizer.observe(sizer.rows, sizer.rows / 1000)
            sizes.append(sizer.rows)

        assert all(later <= 2 * sooner for sooner, later in zip([100, *sizes], sizes, strict=False))
        assert sizes[-1] == 4000


class TestThePendingLimit:
    """R-SNAP-23, R-SNAP-25, R-SNAP-26."""

    def test_worked_example_s3(self):
        """semantics 4.2 S3: lags and limits of each consumed barrier, epochs 10 apart."""
        pending, limits = PendingLimit(limit=140), []
        for lag, elapsed in [(40, 10), (40, 10), (40, 10), (30, 10), (30, 10), (20, 10), (20, 10), (10, 10), (0, 10)]:
            pending = pending.step(lag, elapsed)
            limits.append(pending.limit)

        assert limits == [40, 35, 30, 25, 20, 15, 10, 5, 0]

    @given(some.lists(some.tuples(some.integers(0, 1000), some.integers(1, 100)), max_size=40))
    def test_the_limit_never_grows_and_never_is_negative(self, steps):
        """The way to Live ends only if the limit shrinks."""
        pending, before = PendingLimit(limit=None), float("inf")
        for lag, elapsed in steps:
            pending = pending.step(lag, elapsed)
            assert 0 <= pending.limit <= before
            before = pending.limit

    def test_ten_steps_without_a_smaller_lag_are_said(self):
        """A job that never catches up must say so."""
        falling, level = LagTrend(), LagTrend()
        for step in range(12):
            falling, level = falling.observe(100 - step), level.observe(50)

        assert level.non_convergent
        assert not falling.non_convergent


class TestTheEstimate:
    """An ETA has an interval, and none is better than a wrong one."""

    def test_there_is_none_before_there_is_a_rate(self):
        """A guess without a measurement misleads."""
        assert estimate(100, RateMeter()) is None

    def test_a_steady_rate_gives_a_narrow_interval_around_the_truth(self):
        """The interval says how far the ETA can be trusted."""
        meter = RateMeter()
        for second in range(10):
            meter = meter.observe(1000, float(second))
        eta = estimate(50_000, meter)

        assert eta.seconds == pytest.approx(50)
        assert eta.low == pytest.approx(50)
        assert eta.high == pytest.approx(50)

    @given(some.lists(some.integers(1, 10_000), min_size=3, max_size=40))
    def test_the_estimate_is_within_its_own_interval(self, rows):
        """An ETA outside of its own bounds is plainly wrong."""
        meter = RateMeter()
        for second, count in enumerate(rows):
            meter = meter.observe(count, float(second))
        eta = estimate(1_000_000, meter)

        assert eta.low <= eta.seconds <= eta.high
