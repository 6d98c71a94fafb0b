"""Timestamps in a log: the largest difference between the value and its string."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_spark.delta.statistics.moments import read_moment

MILLISECOND, MINUTE = timedelta(milliseconds=1), timedelta(minutes=1)


def bounds(text: str, *, zoned: bool = True) -> tuple[datetime, datetime]:
    bound = read_moment(text, zoned=zoned)
    return bound.earliest, bound.latest


class TestABound:
    """A bound contains the writer's value."""

    @given(
        moment=st.datetimes(datetime(1800, 1, 1), datetime(1971, 12, 31), timezones=st.just(UTC)),
        offset_s=st.integers(-14 * 3600, 14 * 3600).filter(lambda seconds: abs(seconds) >= 60),
    )
    def test_the_bound_of_an_offset_without_its_seconds_contains_the_value(
        self, moment: datetime, offset_s: int
    ) -> None:
        """Delta 3.2 and 3.3 write it so (fault B2): Java truncates the offset toward zero."""
        sign, minutes = "-" if offset_s < 0 else "+", abs(offset_s) // 60
        clock = (moment + timedelta(seconds=offset_s)).replace(tzinfo=None)
        text = f"{clock:%Y-%m-%dT%H:%M:%S}.{clock.microsecond // 1000:03}{sign}{minutes // 60:02}:{minutes % 60:02}"

        low, high = bounds(text)

        assert low <= moment <= high
        assert high - low < 2 * MINUTE

    @pytest.mark.parametrize(
        "text",
        ["2026-03-01T01:00:00.000+01:00", "1910-01-01T10:00:00.000+00:09:21", "1910-01-01T10:00:00.000Z"],
        ids=["an offset of today", "an offset with seconds", "UTC"],
    )
    def test_the_bound_of_an_exact_offset_is_a_millisecond_wide(self, text: str) -> None:
        """A wider bound would make the job read files that the log already decides."""
        low, high = bounds(text)

        assert high - low == MILLISECOND

    def test_the_bound_of_microseconds_is_exact(self) -> None:
        """The writer truncated nothing."""
        low, high = bounds("2026-03-01T01:00:00.000001Z")

        assert low == high

    @pytest.mark.parametrize("zone", ["Z", ""])
    @pytest.mark.parametrize("fraction", ["999", "999999"])
    def test_the_bound_at_the_end_of_the_type_is_the_last_value(self, zone: str, fraction: str) -> None:
        """ "Still valid" in temporal tables (fault D11): there is no millisecond after it."""
        _, high = bounds(f"9999-12-31T23:59:59.{fraction}{zone}", zoned=bool(zone))

        assert high.replace(tzinfo=None) == datetime.max


class TestNoBound:
    """A string that does not limit the difference from its value."""

    @pytest.mark.parametrize(
        ("text", "zoned"),
        [
            ("2024-01-01T00:00:00", True), ("2024-01-01T00:00:00+01:00", False), ("2024-01-01", True),
            ("2024-01-01T00:00Z", True), ("2024-W01-1", False), ("+10000-01-01T00:00:00Z", True), ("", True),
        ],
    )  # fmt: skip
    def test_a_string_without_a_bound_is_refused(self, text: str, zoned: bool) -> None:
        """The caller treats the bound as unknown."""
        with pytest.raises(ValueError, match=r".*"):
            read_moment(text, zoned=zoned)
