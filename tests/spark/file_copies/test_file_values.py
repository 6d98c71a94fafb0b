"""Values of a file that are derived from its log; ambiguous ones are not used."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from pyspark.sql.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from backfill_core.file_copies.facts import ColumnFacts, TableFacts, UnsupportedColumn
from backfill_core.file_copies.filters import Column, IsNull, Nulls, Values
from backfill_spark.delta.source_file import SourceFile
from backfill_spark.file_copies.file_values import FilterColumns

NOTHING = Values()


def values_of(kind, *, odd=None, partition=None, rows=5, **stats):
    """Return the values of column `c`, whose name in files is `p`."""
    table = TableFacts(
        (ColumnFacts("c", "p", kind.json(), oddity=odd),), partitions=() if partition is None else ("c",)
    )
    columns = FilterColumns.of(IsNull(Column("c")), table, StructType([StructField("c", kind)]))
    text = json.dumps({"numRecords": rows, **{name: {"p": value} for name, value in stats.items()}}, default=str)
    return columns.values(SourceFile("f", 1, partition or {}, text, None)).get("c", NOTHING)


def bounded(low, high, nulls=0):
    return {"minValues": low, "maxValues": high, "nullCount": nulls}


NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
NONE, PERHAPS, ALL = Nulls

LOGGED = {
    "numbers": (IntegerType(), bounded(1, 9), Values(1, 9, NONE)),
    "no statistics": (IntegerType(), {}, NOTHING),
    "some nulls": (IntegerType(), bounded(1, 9, 2), Values(1, 9, PERHAPS)),
    "nothing but nulls": (IntegerType(), {"nullCount": 5}, Values(nulls=ALL)),
    "no count of nulls": (IntegerType(), {"minValues": 1, "maxValues": 9}, Values(1, 9, PERHAPS)),
    "nulls alone are counted": (IntegerType(), {"nullCount": 0}, Values(nulls=NONE)),
    "NaN is in no bounds": (DoubleType(), bounded(0.5, 9.5), Values(0.5, None, NONE)),
    "NaN as a bound": (DoubleType(), bounded(0.5, "NaN"), Values(nulls=NONE)),
    "a decimal": (DecimalType(10, 2), bounded(1.25, 9), Values(Decimal("1.25"), Decimal(9), NONE)),
    "a text": (StringType(), bounded("a", "b"), Values("a", "b", NONE)),
    "a text that was cut": (StringType(), bounded("a", "bcd\ufffd"), Values("a", None, NONE)),
    "bytes that are no text": (StringType(), bounded("\ufffd", "z"), Values(None, "z", NONE)),
    "a moment": (
        TimestampType(),
        bounded("2024-01-01T13:00:00.000+01:00", "2024-01-01T12:00:00.000Z"),
        Values(NOON, NOON + timedelta(milliseconds=1), NONE),
    ),
    "a moment without a zone": (TimestampType(), bounded("2024-01-01T12:00:00", "2024-01-01T12:00:00"), Values(nulls=NONE)),
    "an old day": (DateType(), bounded("0001-01-01", "2024-01-01"), Values(None, date(2024, 1, 1), NONE)),
    "bytes": (BinaryType(), bounded("a", "b"), NOTHING),
}  # fmt: skip

IN_FOLDERS = {
    "a number": (IntegerType(), "7", Values(7, 7, NONE)),
    "null": (IntegerType(), None, Values(nulls=ALL)),
    "an empty text": (StringType(), "", Values("", "", NONE)),
    "an empty text of another type": (IntegerType(), "", Values(nulls=ALL)),
    "a text that Spark reads as null": (IntegerType(), "7e0", Values()),
    "a number beyond its type": (IntegerType(), "2147483648", Values()),
    "a number in other words": (IntegerType(), "+007", Values(7, 7, NONE)),
    "digits of another script": (IntegerType(), "\u0667", Values()),
    "a number that Spark rounds": (DecimalType(10, 2), "1.005", Values()),
    "a day in another form": (DateType(), "20240101", Values()),
    "a name for null": (StringType(), "__HIVE_DEFAULT_PARTITION__", Values(nulls=NONE)),
    "a moment without a zone": (TimestampType(), "2024-01-01 12:00:00", Values(nulls=NONE)),
}


class TestWhatIsBelieved:
    """A derived value holds for each row, with any writer."""

    @pytest.mark.parametrize(("kind", "stats", "values"), LOGGED.values(), ids=LOGGED)
    def test_values_of_statistics_are_right(self, kind, stats, values):
        """A bound that is slightly too narrow would lose rows."""
        assert values_of(kind, **stats) == values

    @pytest.mark.parametrize(("kind", "text", "values"), IN_FOLDERS.values(), ids=IN_FOLDERS)
    def test_values_of_a_partition_are_right(self, kind, text, values):
        """The log has the value itself."""
        assert values_of(kind, partition={"p": text}) == values

    def test_a_partition_that_the_log_does_not_name_is_unknown(self):
        """It is not null."""
        assert values_of(IntegerType(), partition={"q": "7"}) == NOTHING

    @pytest.mark.parametrize("odd", UnsupportedColumn)
    def test_a_column_with_other_values_for_readers_is_unknown(self, odd):
        """Statistics describe the stored values."""
        assert values_of(IntegerType(), odd=odd, **bounded(1, 9)) == NOTHING
