"""The core's condition for a filter comes from Spark's analysis: names, types, casts and constants."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql.types import StructType

from backfill_core.file_copies.filters import And, Column, Comparator, Compare, IsNull, Literal, Not, Opaque, Or
from backfill_spark.rows.condition import NODES_MAX
from backfill_spark.rows.transform import Transform

COLUMNS = (
    "n INT, big BIGINT, price DECIMAL(10,2), ratio DOUBLE, single FLOAT, s STRING, d DATE, ts TIMESTAMP, wall TIMESTAMP_NTZ, ok BOOLEAN, "
    "inner STRUCT<x: INT>, other STRING COLLATE UTF8_LCASE"
)
EQUAL, SAME, LESS, LESS_OR_EQUAL = Comparator.EQUAL, Comparator.SAME, Comparator.LESS, Comparator.LESS_OR_EQUAL


def compare(left, operator, right):
    return Compare(operator, *(side if isinstance(side, Column) else Literal(side) for side in (left, right)))


n, s, ts, price = map(Column, ("n", "s", "ts", "price"))
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)

KNOWN = {
    "n < 5": compare(n, LESS, 5),
    "N >= 5": compare(5, LESS_OR_EQUAL, n),
    "5 > n": compare(n, LESS, 5),
    "n = 2 + 3": compare(n, EQUAL, 5),
    "n <=> NULL": compare(n, SAME, None),
    "n <> 5": Not(compare(n, EQUAL, 5)),
    "n = 5000000000": compare(n, EQUAL, 5_000_000_000),
    "n > 1.5": compare(1, LESS, n),
    "price < 10": compare(price, LESS, Decimal(10)),
    "price < 10.125": compare(price, LESS, Decimal("10.125")),
    "n BETWEEN 1 AND 3": And((compare(1, LESS_OR_EQUAL, n), compare(n, LESS_OR_EQUAL, 3))),
    "s IN ('a', 'b')": Or((compare(s, EQUAL, "a"), compare(s, EQUAL, "b"))),
    "s NOT IN ('a', NULL)": Not(Or((compare(s, EQUAL, "a"), compare(s, EQUAL, None)))),
    "s IS NOT NULL AND ok": And((Not(IsNull(s)), compare(Column("ok"), EQUAL, True))),
    "d >= '2024-01-31'": compare(date(2024, 1, 31), LESS_OR_EQUAL, Column("d")),
    "ts < '2024-01-01T12:00:00Z'": compare(ts, LESS, NOON),
    "ts < TIMESTAMP '2024-01-01 13:00:00+01:00'": compare(ts, LESS, NOON),
    "wall < TIMESTAMP_NTZ '2024-01-01 12:00:00'": compare(Column("wall"), LESS, NOON.replace(tzinfo=None)),
    "ratio > 0.5D": compare(0.5, LESS, Column("ratio")),
    "n < big": compare(n, LESS, Column("big")),
    "n < 5 OR s LIKE 'a%'": Or((compare(n, LESS, 5), Opaque("s LIKE 'a%'"))),
}

OPAQUE = [
    "true", "n % 2 = 0", "upper(s) = 'A'", "s = 5", "ratio > double('NaN')", "inner.x = 1", "other = 'a'", "n > 0.5D", "d < ts", "to_date(ts) = '2024-01-01'",
    "price = 0.5D", "cast(price AS INT) = 1", "s < cast(X'ff' AS STRING)", "n IN (" + ", ".join(map(str, range(NODES_MAX + 1))) + ")",
    "single < float(0.1)", "d > '99999-01-01'", "n = cast('x' AS INT)",
]  # fmt: skip


@pytest.fixture(scope="module")
def schema(spark):
    """A column of each type."""
    return StructType.fromDDL(COLUMNS)


class TestACondition:
    """The condition is read from Spark's own plan."""

    def test_a_filter_becomes_a_condition_of_the_core(self, spark, schema):
        """Its constants are those that Spark computes."""
        assert {sql: Transform(None, sql).condition(spark, schema) for sql in KNOWN} == KNOWN

    @pytest.mark.parametrize("sql", OPAQUE, ids=range(len(OPAQUE)))
    def test_an_unsafe_filter_is_opaque(self, spark, schema, sql):
        """Examples are a lossy cast, another collation, and a value of no column. A guess would lose rows."""
        assert isinstance(Transform(None, sql).condition(spark, schema), Opaque)

    def test_no_filter_has_no_condition(self, spark, schema):
        """Spark gets no query."""
        assert Transform(("n",), None).condition(spark, schema) is None
