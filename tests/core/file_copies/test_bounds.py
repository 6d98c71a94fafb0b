"""Rules that decide which bounds of a copied file are trusted."""

import pytest

from backfill_core.file_copies.bounds import (
    DAY_US,
    SETTLED,
    YEAR_1,
    BoundsSource,
    Stored,
    first_believed,
    has_largest,
    teller,
)

KINDS = (
    "boolean", "byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string",
    "decimal(10,2)", "binary", "variant",
)  # fmt: skip
EXACT = {
    "boolean": [("BOOLEAN", "")],
    "byte": [("INT32", "INTEGER(8,true)")],
    "short": [("INT32", "INTEGER(16,true)"), ("INT32", "INTEGER(8,true)")],
    "integer": [("INT32", ""), *(("INT32", f"INTEGER({bits},true)") for bits in (8, 16, 32))],
    "long": [("INT64", ""), ("INT64", "INTEGER(64,true)")],
    "float": [("FLOAT", "")],
    "double": [("DOUBLE", "")],
    "date": [("INT32", "DATE")],
    "timestamp": [("INT64", "TIMESTAMP(MICROS,true)")],
    "timestamp_ntz": [("INT64", "TIMESTAMP(MICROS,false)")],
    "string": [("BINARY", "STRING")],
    "decimal(10,2)": [
        ("INT32", "DECIMAL(9,2)"), ("INT64", "DECIMAL(10,2)"), ("FIXED_LEN_BYTE_ARRAY", "DECIMAL(10,2)"),
        ("BINARY", "DECIMAL(10,2)"),
    ],
}  # fmt: skip
OTHER = [
    ("INT32", "INTEGER(8,false)"), ("INT32", "INTEGER(16,false)"), ("INT32", "INTEGER(32,false)"),
    ("INT64", "INTEGER(64,false)"), ("INT64", "TIMESTAMP(MILLIS,true)"), ("INT64", "TIMESTAMP(NANOS,true)"),
    ("INT64", "TIMESTAMP(MILLIS,false)"), ("INT32", "TIME(MILLIS,true)"), ("INT64", "TIME(MICROS,true)"), ("INT96", ""),
    ("FIXED_LEN_BYTE_ARRAY", "FLOAT16"), ("FIXED_LEN_BYTE_ARRAY", "UUID"), ("BINARY", ""), ("BINARY", "ENUM"),
    ("BINARY", "JSON"), ("BINARY", "DECIMAL(11,2)"), ("INT64", "DECIMAL(10,3)"), ("INT32", "DECIMAL(9,0)"),
]  # fmt: skip
STORED = sorted({*OTHER, *(encoding for encodings in EXACT.values() for encoding in encodings)})


class TestWhoTellsTheBounds:
    """The footer provides the bounds of a column if file and table encode a value alike."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_footer_provides_bounds_of_columns_in_the_tables_encoding(self, kind):
        """No other way to store a value is trusted, whatever the type."""
        trusted = [
            encoding for encoding in STORED if teller(kind, Stored(*encoding), same_bytes=False) is BoundsSource.FOOTER
        ]
        assert sorted(trusted) == sorted(EXACT.get(kind, []))

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_log_provides_bounds_of_timestamps_in_the_same_bytes(self, kind):
        """The log of another engine is not trusted for bounds by which a MERGE skips files."""
        for encoding in OTHER:
            source = teller(kind, Stored(*encoding), same_bytes=True)
            assert source is (BoundsSource.LOG if kind.startswith("timestamp") else BoundsSource.NONE)
        assert teller(kind, None, same_bytes=False) is BoundsSource.NONE


class TestAValue:
    """A bound is trusted where each reader sees the same value."""

    def test_old_dates_of_an_unknown_calendar_are_not_trusted(self):
        """Since 1900 all calendars agree, in each time zone."""
        assert first_believed("date", calendar_is_known=False) == SETTLED == -25_567
        assert first_believed("timestamp", calendar_is_known=False) == SETTLED * DAY_US
        assert first_believed("date", calendar_is_known=True) is None

    @pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
    def test_times_before_the_year_1_are_not_trusted(self, kind):
        """Kernel writes the year of a timestamp without a sign."""
        assert first_believed(kind, calendar_is_known=True) == YEAR_1 * DAY_US == -62_135_596_800_000_000

    def test_the_largest_value_of_a_writer_without_nan_is_not_trusted(self):
        """NaN is larger than any number."""
        assert [has_largest(kind, knows_nan=False) for kind in ("double", "float", "long")] == [False, False, True]
        assert has_largest("double", knows_nan=True)
