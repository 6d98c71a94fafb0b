"""Promises about which bounds of a copied file are believed."""

import pytest

from backfill_core.transfer.bounds import DAY_US, SETTLED, YEAR_1, Stored, Teller, first_believed, has_largest, teller

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
STORED = sorted({*OTHER, *(one for found in EXACT.values() for one in found)})


class TestWhoTellsTheBounds:
    """Of a column: the footer, where file and table mean the same by a value."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_footer_of_a_column_in_the_tables_own_terms(self, kind):
        """Any other way to store a value is not believed, whatever the type is."""
        found = [one for one in STORED if teller(kind, Stored(*one), same_bytes=False) is Teller.FOOTER]
        assert sorted(found) == sorted(EXACT.get(kind, []))

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_log_of_moments_in_the_same_bytes(self, kind):
        """A log of another engine is not believed for what a MERGE leaves out files by."""
        for one in OTHER:
            found = teller(kind, Stored(*one), same_bytes=True)
            assert found is (Teller.LOG if kind.startswith("timestamp") else Teller.NONE)
        assert teller(kind, None, same_bytes=False) is Teller.NONE


class TestAValue:
    """That is a bound is believed where each reader sees that value."""

    def test_of_a_calendar_that_is_not_known(self):
        """Since 1900 all agree, in each time zone."""
        assert first_believed("date", calendar_is_known=False) == SETTLED == -25_567
        assert first_believed("timestamp", calendar_is_known=False) == SETTLED * DAY_US
        assert first_believed("date", calendar_is_known=True) is None

    @pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
    def test_before_the_year_1(self, kind):
        """Kernel writes the year of a moment without a sign."""
        assert first_believed(kind, calendar_is_known=True) == YEAR_1 * DAY_US == -62_135_596_800_000_000

    def test_of_a_writer_that_leaves_out_nan(self):
        """It is larger than any number."""
        assert [has_largest(kind, knows_nan=False) for kind in ("double", "float", "long")] == [False, False, True]
        assert has_largest("double", knows_nan=True)
