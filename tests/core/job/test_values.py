"""Small value types that the rest of the core is built from."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from backfill_core.pacing.convergence import LagTrend, PendingLimit
from backfill_core.pacing.sizing import SplitSizer, split_span
from backfill_core.pacing.throttle import TokenBucket
from backfill_core.positions.file_ranges import file_ranges
from backfill_core.positions.intervals import IntervalSet
from backfill_core.protocol.eta import RateMeter, estimate

SPANS = some.lists(some.tuples(some.integers(0, 60), some.integers(0, 60)), max_size=12)


def as_set(spans):
    return {n for start, stop in spans for n in range(start, stop)}


def built(spans):
    result = IntervalSet()
    for start, stop in spans:
        result = result.add(start, stop)
    return result


class TestAnIntervalSetIsASet:
    """An interval set behaves like a set of integers: nothing is copied twice and nothing is omitted."""

    @given(SPANS)
    def test_an_interval_set_contains_exactly_the_added_spans(self, spans):
        """Sealed rows count as sealed; other rows do not."""
        assert as_set(built(spans).spans) == as_set(spans)

    @given(SPANS)
    @example([(0, 3), (3, 5)])
    @example([(3, 5), (0, 3)])
    def test_spans_are_sorted_disjoint_and_never_adjacent(self, spans):
        """The stored form is therefore as short as possible."""
        flat = [end for span in built(spans).spans for end in span]

        assert flat == sorted(set(flat))

    @given(SPANS, some.integers(0, 60), some.integers(0, 60))
    def test_gaps_equal_the_difference_of_sets(self, spans, start, stop):
        """A missed gap is never copied."""
        whole = built(spans)

        assert as_set(whole.gaps(start, stop).spans) == set(range(start, stop)) - as_set(spans)

    @given(SPANS)
    def test_an_interval_set_survives_a_round_trip(self, spans):
        """A restart reads what the last commit wrote."""
        assert IntervalSet.from_json(built(spans).to_json()) == built(spans)

    @pytest.mark.parametrize("value", [[[3, 3]], [[5, 2]], [[0, 4], [3, 6]], [[0, 4], [4, 6]], [[9, 10], [1, 2]]])
    def test_a_damaged_stored_form_is_refused(self, value):
        """A guess at a damaged state would lose or double rows."""
        with pytest.raises(ValueError, match="not an interval set"):
            IntervalSet.from_json(value)


class TestARateIsKept:
    """R-SNAP-41, R-SNAP-42: the bucket keeps any rate in rows per second, from one row up; a rate of zero admits no
    row."""

    def test_a_zero_rate_never_admits_a_row(self):
        """A burst at rate zero would leak rows through a pause."""
        bucket = TokenBucket.full(0, 0.0)

        assert bucket.available(1e9) == 0.0

    def test_a_bucket_without_a_limit_admits_every_row(self):
        """A job without a limit must never wait for the bucket."""
        assert TokenBucket.full(None, 0.0).available(0.0) == float("inf")

    @pytest.mark.parametrize("rate", [1, 2, 3])
    def test_a_low_rate_is_kept_exactly(self, rate):
        """R-SNAP-42: RisingWave's builder died at 1 and 2 rows per second."""
        bucket, taken = TokenBucket.full(rate, 0.0, burst_s=1.1), 0
        for second in range(100):
            rows = int(bucket.available(float(second)))
            bucket, taken = bucket.take(rows, float(second)), taken + rows

        assert abs(taken - 100 * rate) <= rate

    @given(some.integers(1, 10_000), some.lists(some.tuples(some.floats(0, 3), some.integers(0, 20_000)), max_size=30))
    def test_the_bucket_admits_at_most_rate_times_time_and_a_burst(self, rate, steps):
        """A limit protects other users only if it holds over every window."""
        bucket, now_s, taken = TokenBucket.full(rate, 0.0), 0.0, 0
        for passed_s, requested in steps:
            now_s += passed_s
            rows = min(requested, int(bucket.available(now_s)))
            bucket, taken = bucket.take(rows, now_s), taken + rows

        assert taken <= rate * now_s + rate + 1

    def test_a_debt_is_paid_before_other_rows_are_read(self):
        """A large split is read whole, and the job waits for it afterwards."""
        bucket = TokenBucket.full(100, 0.0).take(300, 0.0)

        assert bucket.available(1.9) == 0.0
        assert bucket.available(2.5) == pytest.approx(50, abs=0.1)

    def test_a_raised_rate_causes_no_burst(self):
        """A new limit must not begin with a burst."""
        bucket = TokenBucket.full(10, 0.0).with_rate(1_000_000, 1.0)

        assert bucket.available(1.0) < 1


class TestSplitsCutTheLine:
    """Every row of the row index is in exactly one split, for any sizes."""

    @given(
        some.lists(some.integers(0, 30), min_size=1, max_size=12),
        some.lists(some.tuples(some.integers(1, 40), some.booleans()), min_size=200, max_size=200),
    )
    def test_splits_have_no_gap_and_no_overlap(self, files, sizes):
        """R-SNAP-16: a hole loses rows, and an overlap doubles them."""
        prefix = [0]
        for rows in files:
            prefix.append(prefix[-1] + rows)
        at, rows_read = 0, []
        for rows, exact in sizes:
            span = split_span(prefix, (at, prefix[-1]), rows, exact=exact)
            if span is None:
                break
            rows_read += [
                (file_range.file, row)
                for file_range in file_ranges(prefix, *span)
                for row in range(file_range.start, file_range.stop)
            ]
            at = span[1]

        assert at == prefix[-1]
        assert rows_read == [(file, row) for file, rows in enumerate(files) for row in range(rows)]

    def test_without_a_limit_splits_end_at_files(self):
        """A file in a single split is opened once."""
        prefix = [0, 10, 20, 30, 40]

        assert split_span(prefix, (0, 40), 25, exact=False) == (0, 20)
        assert split_span(prefix, (0, 40), 3, exact=False) == (0, 10)
        assert split_span(prefix, (5, 40), 3, exact=False) == (5, 10)

    def test_splits_under_a_limit_have_the_requested_size(self):
        """One file may hold more rows than the limit admits in a second."""
        assert split_span([0, 10, 20], (3, 20), 1, exact=True) == (3, 4)

    def test_sizes_approach_the_target_duration_and_at_most_double(self):
        """One fast split must not lead to a split that takes minutes."""
        sizer = SplitSizer(target_s=4.0, rows=100, rows_min=10, rows_max=100_000)
        sizes = []
        for _ in range(12):
            sizer = sizer.observe(sizer.rows, sizer.rows / 1000)
            sizes.append(sizer.rows)

        assert all(later <= 2 * sooner for sooner, later in zip([100, *sizes], sizes, strict=False))
        assert sizes[-1] == 4000


class TestThePendingLimit:
    """The pending limit follows R-SNAP-23, R-SNAP-25 and R-SNAP-26."""

    def test_the_limit_follows_worked_example_s3(self):
        """Semantics 4.2, S3: lags and limits of each consumed barrier, epochs 10 apart."""
        pending, limits = PendingLimit(limit=140), []
        for lag, elapsed in [(40, 10), (40, 10), (40, 10), (30, 10), (30, 10), (20, 10), (20, 10), (10, 10), (0, 10)]:
            pending = pending.step(lag, elapsed)
            limits.append(pending.limit)

        assert limits == [40, 35, 30, 25, 20, 15, 10, 5, 0]

    @given(some.lists(some.tuples(some.integers(0, 1000), some.integers(1, 100)), max_size=40))
    def test_the_limit_never_grows_and_never_is_negative(self, steps):
        """The job reaches Live only if the limit shrinks."""
        pending, before = PendingLimit(limit=None), float("inf")
        for lag, elapsed in steps:
            pending = pending.step(lag, elapsed)
            assert 0 <= pending.limit <= before
            before = pending.limit

    def test_ten_steps_without_a_smaller_lag_are_reported(self):
        """A job that never catches up must report it."""
        falling, level = LagTrend(), LagTrend()
        for step in range(12):
            falling, level = falling.observe(100 - step), level.observe(50)

        assert level.non_convergent
        assert not falling.non_convergent


class TestTheEstimate:
    """An ETA has an interval, and no ETA is better than a wrong one."""

    def test_there_is_no_estimate_without_a_rate(self):
        """An estimate without a measurement misleads."""
        assert estimate(100, RateMeter(), 0.0) is None

    def test_a_steady_rate_gives_a_narrow_interval_around_the_truth(self):
        """The interval shows how reliable the ETA is."""
        meter = RateMeter()
        for second in range(10):
            meter = meter.observe(1000, float(second))
        eta = estimate(50_000, meter, meter.last_s)

        assert eta.seconds == pytest.approx(50)
        assert 40 < eta.low < 50 < eta.high < 60

    @given(some.lists(some.integers(1, 10_000), min_size=3, max_size=40))
    def test_the_estimate_is_within_its_interval(self, rows):
        """An ETA outside its own bounds is wrong."""
        meter = RateMeter()
        for second, count in enumerate(rows):
            meter = meter.observe(count, float(second))
        eta = estimate(1_000_000, meter, meter.last_s)

        assert eta.low <= eta.seconds <= eta.high
