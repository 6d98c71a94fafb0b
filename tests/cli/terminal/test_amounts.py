"""Rates, durations and sizes as users type them."""

from datetime import UTC, datetime

import pytest

from backfill.formatting import show_bytes
from backfill_api.amounts import counted, show_seconds, whole_number
from backfill_cli.terminal.amounts import parse_byte_rate, parse_duration_s, parse_memory, parse_rate, parse_until


class TestRates:
    @pytest.mark.parametrize(
        ("text", "rows_per_s"),
        [
            ("200k", 200_000),
            ("200K", 200_000),
            ("1.5M", 1_500_000),
            ("1.5m", 1_500_000),
            ("0", 0),
            ("1", 1),
            ("50000", 50_000),
            ("50_000", 50_000),
            ("50,000", 50_000),
            (" 7 ", 7),
            ("none", None),
            ("None", None),
            ("unlimited", None),
        ],
    )
    def test_valid_rates_are_read(self, text, rows_per_s):
        """0 means no rows and `none` means no limit: users need both."""
        assert parse_rate(text) == rows_per_s

    @pytest.mark.parametrize(
        "text", ["-5", "", "k", "2G", "1e6", "0x10", "٣", "nan", "inf", "5 rows", "1..5k", "99999M", "_5"]
    )
    def test_wrong_rates_are_refused(self, text):
        """A misread limit may stop a job or flood a source."""
        with pytest.raises(ValueError, match="none"):
            parse_rate(text)


class TestByteRates:
    @pytest.mark.parametrize(
        ("text", "bytes_per_s"),
        [("50MB", 50_000_000), ("1.5GB", 1_500_000_000), ("800kB/s", 800_000), ("7B", 7), ("0", 0), ("none", None)],
    )
    def test_valid_byte_rates_are_read(self, text, bytes_per_s):
        """Units are decimal, as in networks."""
        assert parse_byte_rate(text) == bytes_per_s

    @pytest.mark.parametrize("text", ["50", "-5MB", "MB", "50MiB", "50k", "1e6", "9999GB", ""])
    def test_wrong_byte_rates_are_refused(self, text):
        """A number without a unit is ambiguous."""
        with pytest.raises(ValueError, match="none"):
            parse_byte_rate(text)


NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


class TestEnds:
    @pytest.mark.parametrize("text", ["2026-11-26T18:00:00Z", "2026-11-26T19:00+01:00", " 2026-11-26T10:00-08:00 "])
    def test_a_future_time_is_read_with_its_time_zone(self, text):
        """All of them are six o'clock in the evening in UTC."""
        assert parse_until(text, NOON) == datetime(2026, 11, 26, 18, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("2026-11-26T12:00:00Z", "is past, it is 2026-11-26T12:00:00Z now"),
            ("2026-11-26T12:30:00+01:00", "is past"),
            ("2026-11-26T18:00:00", "has no time zone"),
            ("2026-12-26T18:00:00Z", "more than a week away"),
            ("18:00", "invalid time"),
            ("", "invalid time"),
        ],
    )
    def test_a_past_or_wrong_time_is_refused(self, text, message):
        """A limit that is over at once would look like one that failed."""
        with pytest.raises(ValueError, match=message):
            parse_until(text, NOON)


class TestDurations:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1d2h3m4s", 93_784), ("45", 45), ("1d", 86_400)],
    )
    def test_valid_durations_are_read(self, text, seconds):
        """Users type seconds, minutes, hours and days."""
        assert parse_duration_s(text) == seconds

    @pytest.mark.parametrize(
        "text", ["0", "0s", "-1m", "", "1.5h", "soon", "30m1h", "1h30", "1h1h", "3d5d", "8d", "1w", "9999999999"]
    )
    def test_wrong_durations_are_refused(self, text):
        """A limit that ends at once, or in a year, is a typing error."""
        with pytest.raises(ValueError, match=r"duration|week"):
            parse_duration_s(text)


class TestMemory:
    def test_valid_sizes_of_memory_are_read(self):
        """The format is Java's."""
        assert [parse_memory(text) for text in ("4g", "512m")] == ["4g", "512m"]

    @pytest.mark.parametrize("text", ["4", "0g", "4 g", "4gb", "-1g", "lots", "4g\n"])
    def test_wrong_sizes_of_memory_are_refused(self, text):
        """Java's own message for it is a stack trace."""
        with pytest.raises(ValueError, match="memory"):
            parse_memory(text)


class TestShown:
    @pytest.mark.parametrize(
        ("seconds", "shown"),
        [(0, "0 s"), (59, "59 s"), (60, "1 min"), (95, "1 min 35 s"), (3660, "1 h 1 min"), (90_000, "1 d 1 h")],
    )
    def test_durations_have_at_most_two_units(self, seconds, shown):
        """Users need no more."""
        assert show_seconds(seconds) == shown

    def test_sizes_have_decimal_units(self):
        """Object stores bill in decimal units."""
        assert [show_bytes(size) for size in (0, 999, 1500, 2 * 10**9)] == ["0 B", "999 B", "1.5 kB", "2.0 GB"]


@pytest.mark.parametrize(
    ("number", "noun", "shown"),
    [(0, "file", "0 files"), (1, "file", "1 file"), (2000, "row", "2,000 rows"), (2, "entry", "2 entries"), (2, "key", "2 keys")],
)  # fmt: skip
def test_a_noun_has_the_number_of_its_count(number, noun, shown):
    """`1 files` looks like a bug of the product (faults U19 to U29)."""
    assert counted(number, noun) == shown


@pytest.mark.parametrize(
    ("text", "field", "number"),
    [
        ("200k", "rowsPerSecond", 200_000),
        ("200k", "rows", 200_000),
        ("1_000", "rows", 1000),
        ("1.5 MB/s", "bytes", 1_500_000),
        ("2h", "drainTimeoutSeconds", 7200),
        ("1.5m", "drainTimeoutSeconds", 90),
        ("1.5s", "intervalMs", 1500),
        ("250", "intervalMs", 250),
        ("1.0001k", "rows", None),
        ("fast", "rows", None),
    ],
)
def test_a_number_with_a_unit_is_parsed(text, field, number):
    """A hint that contains the right number helps more than a rule."""
    assert whole_number(text, field) == number
