"""`TokenBucket`: the limit holds over every period (R-SNAP-41, R-SNAP-42)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.pacing.throttle import TokenBucket

pauses_s = st.floats(0, 5, allow_nan=False)
wishes = st.lists(st.tuples(pauses_s, st.integers(0, 400)), min_size=1, max_size=60)


def ready_at_s(bucket: TokenBucket, rows: int, now_s: float) -> float:
    """Return when a bucket with a positive rate has this number of rows, or is out of debt."""
    return now_s + max(0.0, (rows - bucket.refill(now_s).tokens) / (bucket.rate_per_s or 1))


def admit(bucket: TokenBucket, wish: int, now_s: float) -> tuple[TokenBucket, int]:
    rows = int(min(wish, bucket.available(now_s)))
    return bucket.take(rows, now_s), rows


class TestTheLimitHolds:
    """R-SNAP-41: a rate limit n bounds rows per second; RisingWave overshot by a chunk per epoch."""

    @given(st.integers(1, 1000), st.floats(0.1, 3), wishes)
    def test_the_bucket_never_admits_more_than_rate_times_time_and_burst(
        self, rate: int, burst_s: float, requests: list[tuple[float, int]]
    ) -> None:
        """The limit holds over every period, not only from the beginning: peaks harm a storage system."""
        bucket, now_s = TokenBucket.full(rate, 0.0, burst_s), 0.0
        taken: list[tuple[float, int]] = []
        for pause_s, wish in requests:
            now_s += pause_s
            bucket, rows = admit(bucket, wish, now_s)
            taken.append((now_s, rows))
        burst = max(1.0, rate * burst_s)
        for first, (since_s, _) in enumerate(taken):
            total = 0
            for until_s, rows in taken[first:]:
                total += rows
                assert total <= rate * (until_s - since_s) + burst + 0.01

    @given(st.integers(1, 1000), st.lists(st.tuples(st.floats(0, 3), st.integers(1, 5000)), min_size=1, max_size=30))
    def test_a_debt_is_paid_before_other_rows(self, rate: int, charges: list[tuple[float, int]]) -> None:
        """A split is charged afterwards for the rows it read; the limit still holds on average."""
        bucket, now_s, total, last = TokenBucket.full(rate, 0.0), 0.0, 0, 0
        for pause_s, rows in charges:
            now_s += pause_s
            if bucket.available(now_s) >= 1:
                bucket, total, last = bucket.take(rows, now_s), total + rows, rows
        assert total - last <= rate * now_s + rate + 1

    @pytest.mark.parametrize("rate", [1, 2, 3])
    def test_very_low_rates_make_progress(self, rate: int) -> None:
        """R-SNAP-42: RisingWave's builder needs more than two slots and dies at 1 and 2."""
        bucket, total = TokenBucket.full(rate, 0.0), 0
        for tenth in range(1, 101):
            bucket, rows = admit(bucket, 10, tenth / 10)
            total += rows
        assert rate * 10 <= total <= rate * 11

    def test_a_whole_second_admits_its_rows_despite_rounding(self) -> None:
        """Ten tenths are not one in floats; the row must not wait for the next barrier."""
        bucket, total = TokenBucket.full(10, 0.0).take(10, 0.0), 0
        now_s = 0.0
        for _ in range(1000):
            now_s += 0.1
            bucket, rows = admit(bucket, 1, now_s)
            total += rows
        assert total == 1000


class TestRowsThatStayTogether:
    """ADR 0026: a staged part is admitted as a whole, rounded to the nearest; an excess is debt."""

    def test_half_of_the_rows_suffice(self) -> None:
        """Parts are neither always early nor always late, so that the average is the limit."""
        bucket = TokenBucket.full(1000, 0.0).take(900, 0.0)
        assert bucket.covers_most(200, 0.0)
        assert not bucket.covers_most(202, 0.0)
        assert not bucket.take(200, 0.0).covers_most(1, 0.0)

    def test_a_full_bucket_admits_a_part_that_is_larger_than_itself(self) -> None:
        """A part that was staged under a higher limit would otherwise wait forever."""
        assert TokenBucket.full(10, 0.0).covers_most(5000, 0.0)
        assert not TokenBucket.full(10, 0.0).take(1, 0.0).covers_most(5000, 0.0)

    def test_a_zero_rate_covers_no_row_and_no_limit_covers_all(self) -> None:
        """R-SNAP-41: both ends of the range are exact."""
        assert not TokenBucket.full(0, 0.0).covers_most(1, 100.0)
        assert TokenBucket.full(None, 0.0).covers_most(10**9, 0.0)


class TestZeroAndUnlimited:
    """A rate of 0 admits no row, and `None` admits every row (R-SNAP-41)."""

    @given(st.floats(0, 1e6))
    def test_a_zero_rate_never_admits_a_row(self, now_s: float) -> None:
        """RisingWave emitted the first chunk of every epoch at limit 0 (#26022)."""
        bucket = TokenBucket.full(0, 0.0)
        assert bucket.available(now_s) < 1

    def test_an_unlimited_bucket_is_never_in_debt(self) -> None:
        """Rows that were read without a limit are no debt."""
        bucket = TokenBucket.full(None, 0.0).take(10**9, 0.0)
        assert bucket.available(0.0) == math.inf

    def test_a_zero_rate_keeps_an_existing_debt(self) -> None:
        """A limit of 0 and back must not circumvent the limit."""
        bucket = TokenBucket.full(10, 0.0).take(110, 0.0).with_rate(0, 0.0).with_rate(10, 100.0)
        assert ready_at_s(bucket, 1, 100.0) == pytest.approx(110.1)


class TestAChangeOfRate:
    """A command changes the rate at a barrier; the change must not cause a burst."""

    @given(
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 10, 500])), min_size=1, max_size=12),
        st.integers(0, 2000),
    )
    def test_changing_rates_never_admit_more_than_their_sum(self, changes: list[tuple[int, int]], wish: int) -> None:
        """The rows admitted are at most the rate integrated over time, plus the first burst."""
        bucket, now_s, promised, total = TokenBucket.full(10, 0.0), 0.0, 10.0, 0
        rate = 10
        for pause_s, new in changes:
            now_s, promised = now_s + pause_s, promised + pause_s * rate
            bucket, rows = admit(bucket, wish, now_s)
            total += rows
            assert total <= promised + 0.01
            bucket, rate = bucket.with_rate(new, now_s), new

    def test_a_raised_rate_causes_no_burst(self) -> None:
        """Saved tokens at 10 per second are not a second of rows at 10,000."""
        assert TokenBucket.full(10, 0.0).with_rate(10_000, 5.0).available(5.0) < 1

    def test_a_debt_keeps_its_duration(self) -> None:
        """Debt from the old rate keeps its duration, and a faster rate repays it sooner."""
        debtor = TokenBucket.full(100, 0.0).take(600, 0.0)
        assert ready_at_s(debtor, 0, 0.0) == pytest.approx(5.0)
        assert ready_at_s(debtor.with_rate(1, 0.0), 0, 0.0) == pytest.approx(5.0)
        assert ready_at_s(debtor.with_rate(10_000, 0.0), 0, 0.0) == pytest.approx(0.05)

    def test_a_short_low_limit_leaves_no_debt_of_days(self) -> None:
        """Rows owed at one per second are not owed in seconds at half a million per second."""
        debtor = TokenBucket.full(1, 0.0).take(250_001, 0.0)
        assert ready_at_s(debtor.with_rate(500_000, 0.0), 0, 0.0) == pytest.approx(0.5)

    def test_a_zero_rate_does_not_multiply_the_debt(self) -> None:
        """A pause must not turn a debt of a quarter second into one of hours."""
        debtor = TokenBucket.full(300_000, 0.0).take(375_000, 0.0)
        assert ready_at_s(debtor.with_rate(0, 0.0).with_rate(1, 0.0), 0, 0.0) == pytest.approx(0.25)

    def test_a_low_rate_does_not_forgive_the_debt(self) -> None:
        """Two commands in a row must not circumvent the limit."""
        debtor = TokenBucket.full(100, 0.0).take(600, 0.0)
        low = debtor.with_rate(1, 0.0)
        assert ready_at_s(low.with_rate(100, 2.0), 0, 2.0) == pytest.approx(5.0)
        assert ready_at_s(low.with_rate(0, 2.0).with_rate(100, 60.0), 0, 60.0) == pytest.approx(63.0)

    def test_the_same_rate_again_admits_no_extra_rows(self) -> None:
        """A command repeated each second must not lift the limit."""
        bucket, total = TokenBucket.full(5, 0.0), 0
        for second in range(1, 101):
            bucket, rows = admit(bucket.with_rate(5, float(second)), 100, second + 0.5)
            total += rows
        assert total <= 5 * 101


class TestGivingBack:
    """Cancelled splits were charged and read nothing."""

    @given(st.integers(1, 100), st.integers(0, 50), st.floats(0, 2))
    def test_a_refund_never_exceeds_the_burst(self, rate: int, rows: int, later_s: float) -> None:
        """Time that passed before the cancellation must not count twice."""
        bucket = TokenBucket.full(rate, 0.0, 1.0).take(rows, 0.0).take(-rows, later_s)
        assert bucket.available(later_s) <= rate + 1e-5

    def test_a_refund_undoes_a_charge(self) -> None:
        """At the same time, charge and refund cancel out."""
        assert TokenBucket.full(10, 0.0).take(7, 0.0).take(-7, 0.0) == TokenBucket.full(10, 0.0)
