"""The order of history follows a column's statistics in the log, for any type and any writer.

Some types have no order.
"""

from datetime import UTC, datetime
from decimal import Decimal
from random import Random

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyspark.sql.types import DecimalType, DoubleType, FloatType, LongType, StringType, StructField, TimestampType
from support.tables.jobs import job

from backfill_core.errors import InvalidSpecError
from backfill_spark.delta.source_file import LoggedValues
from backfill_spark.delta.statistics.column_bounds import Bounds, OnlyNulls, Unknown, bounds_of
from backfill_spark.sources.delta.file_bounds import file_order, overlap_percent
from backfill_spark.sources.delta.source import DeltaTableSource

FIELD = "spec.strategy.snapshot.order.column"


def logged(low, high, *, rows=5, nulls=0, **partition):
    return LoggedValues("p", rows, "", 0, (low,), (high,), (nulls,), partition)


def bounds(kind, *files, partition=None, metadata=None):
    return bounds_of(files, 0, StructField("c", kind, metadata=metadata), partition=partition)


TYPES = {
    "id": "cast(value AS bigint)",
    "small": "cast(value / 10 AS smallint)",
    "price": "cast(value * 1.5 AS decimal(20, 3))",
    "ratio": "cast(value AS double) / 7",
    "day": "arrow_cast(cast(20000 + value AS int), 'Date32')",
    "at": """arrow_cast(1700000000000000 + value * 1000001, 'Timestamp(Microsecond, Some("UTC"))')""",
    "word": "'w' || lpad(cast(value AS varchar), 5, '0')",
}
"""Columns that grow with the id."""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Six files of ten rows that delta-rs wrote: a value of each type that grows with `id`."""
    path = str(tmp_path_factory.mktemp("ordered") / "s")
    columns = ", ".join(f"{made} AS {name}" for name, made in TYPES.items())
    for first in (30, 0, 50, 20, 10, 40):
        values = f"generate_series({first}, {first + 9}) AS t(value)"
        rows = f"SELECT {columns}, make_array(value) AS list, {{'a': 1}} AS nested FROM {values}"
        write_deltalake(path, QueryBuilder().execute(rows).read_all(), mode="append")
    return path


@pytest.fixture(scope="module")
def source(spark, table):
    """The table, pinned."""
    pinned = DeltaTableSource(spark, table, key=("id",))
    pinned.pin(None)
    return pinned


class TestTheLog:
    """Bounds that are too narrow would hide a missing row in the part that is reported as complete."""

    def test_bounds_have_exact_numbers(self):
        """A float would round them: 0.1 of four bytes is larger than 0.1 of eight."""
        (single,) = bounds(FloatType(), logged(Decimal("0.1"), Decimal("0.1")))

        assert bounds(DecimalType(15, 1), logged(Decimal("0.1"), 7)) == [Bounds(Decimal("0.1"), 7)]
        assert bounds(LongType(), logged(-(2**63), 2**63 - 1)) == [Bounds(-(2**63), 2**63 - 1)]
        assert single.low == single.high == 0.10000000149011612

    def test_bounds_of_a_float_that_became_a_double_are_wider(self):
        """Older files have four-byte floats, and the log has their shortest string. A row must not be outside the bounds."""
        was = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
        files = logged(0.1, 0.1), logged(0.7, 0.7), logged(-1e300, 1e300), logged(None, None)

        assert bounds(DoubleType(), *files, metadata=was) == [
            Bounds(0.1, 0.10000000149011612),
            Bounds(0.699999988079071, 0.7),
            Bounds(-1e300, 1e300),
            Unknown(),
        ]

    def test_bounds_of_a_rounded_decimal_are_wider(self):
        """delta-rs converts decimals to floats. A row must not be outside the bounds."""
        value = Decimal("123456789012345678.91")
        (bound,) = bounds(DecimalType(20, 2), logged(Decimal(repr(float(value))), Decimal(repr(float(value)))))

        assert bound.low < value < bound.high
        assert bound.high - bound.low < 1000
        most = Decimal("9" * 20)
        assert bounds(DecimalType(20, 0), logged(most, most))[0].high == most
        assert bounds(DecimalType(20, 0), logged(0, Decimal("1e400000"))) == [Unknown()]

    def test_bounds_at_the_end_of_a_decimal_type_are_exact(self):
        """Python's own context rounds to 28 digits, beyond the type: Spark refuses such a literal (fault D13)."""
        last = Decimal(f"{'9' * 20}.{'9' * 18}")

        assert bounds(DecimalType(38, 18), logged(last.copy_negate(), last)) == [Bounds(last.copy_negate(), last)]
        assert bounds(DecimalType(38, 18), logged(Decimal("1E1000000"), last)) == [Unknown()]

    def test_bounds_of_timestamps_include_their_millisecond(self):
        """The largest timestamp is later than its bound in the log."""
        (bound,) = bounds(TimestampType(), logged("2026-03-01T01:00:00.000+01:00", "2026-03-01T00:00:00.999Z"))

        assert bound == Bounds(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, 0, 0, 1, tzinfo=UTC))

    def test_unusable_statistics_give_no_bounds(self):
        """Examples are NaN, a timestamp without its zone, and a column without statistics."""
        assert bounds(DoubleType(), logged("NaN", "NaN"), logged(None, None)) == [Unknown(), Unknown()]
        assert bounds(TimestampType(), logged("2026-03-01 00:00:00", "2026-03-01 00:00:00")) == [Unknown()]

    def test_files_without_a_value_are_known(self):
        """They have no bounds, and need none."""
        assert bounds(StringType(), logged(None, None, nulls=5), logged(None, None, rows=0)) == [OnlyNulls()] * 2

    def test_a_partition_value_is_its_bound(self):
        """Partition columns have no statistics."""
        files = (logged(None, None, day="b"), logged(None, None, day=None))

        assert bounds(StringType(), *files, partition="day") == [Bounds("b", "b"), OnlyNulls()]


class TestTheOrder:
    def test_files_are_ordered_by_the_largest_or_the_smallest_value(self):
        """Ties stay in path order. Files with unknown bounds come last and are counted."""
        bounds_by_file = [Bounds(1, 9), Bounds(5, 6), Unknown(), Bounds(5, 9), OnlyNulls()]
        down = file_order("at", "Descending", bounds_by_file, field=FIELD)
        up = file_order("at", "Ascending", bounds_by_file, field=FIELD)

        assert (down.files, down.marks) == ((0, 3, 1, 4, 2), ("9", "9", "6", "6", None))
        assert (up.files, up.marks) == ((0, 1, 3, 4, 2), ("1", "5", "5", "5", None))
        assert down.files_unknown == 1

    @pytest.mark.parametrize("seed", range(20))
    def test_pairs_that_overlap_are_counted(self, seed):
        """The reference compares each pair."""
        rng = Random(seed)
        bounds_by_file = [
            Bounds(low, low + rng.randrange(9)) for low in (rng.randrange(30) for _ in range(rng.randrange(9)))
        ]
        pairs = [(file, other) for place, file in enumerate(bounds_by_file) for other in bounds_by_file[:place]]
        overlapping = sum(file.low <= other.high and other.low <= file.high for file, other in pairs)

        assert overlap_percent(bounds_by_file) == (-(-100 * overlapping // len(pairs)) if pairs else 0)

    def test_a_mark_is_safe_to_print(self):
        """A string from the data is printed in logs and terminals."""
        ordered = file_order("at", "Descending", [Bounds("a", "b\n\x1b[31m"), Bounds("a", "a")], field=FIELD)

        assert ordered.marks == ("b\\n\\x1b[31m", "a")


class TestATable:
    """The order of a table that delta-rs wrote, and mistakes in the spec."""

    @pytest.mark.parametrize("column", TYPES)
    @pytest.mark.parametrize("direction", ["Ascending", "Descending"])
    def test_a_table_is_read_in_the_order_of_any_type(self, table, source, column, direction):
        """All of them grow with the id."""
        actions = DeltaTable(table).get_add_actions(flatten=True)
        paths = actions["path"].to_pylist()
        firsts = dict(zip(paths, actions["min.id"].to_pylist(), strict=True))
        by_path = [firsts[path] for path in sorted(paths)]
        ordered = source.file_order(column, direction, field=FIELD)

        expected = sorted(by_path, reverse=direction == "Descending")
        assert [by_path[file] for file in ordered.files] == expected
        assert (ordered.overlap_percent, ordered.files_unknown, None in ordered.marks) == (0, 0, False)

    @pytest.mark.parametrize(
        ("column", "message", "hint"),
        [
            ("dya", "does not have", "Did you mean 'day'?"),
            ("nested.a", "inside the column 'nested'", "Name a column of the table itself"),
            ("list", "whose type array<bigint> has no order", "numbers, text, dates or timestamps"),
        ],
    )
    def test_a_column_without_an_order_is_refused_by_name(self, source, column, message, hint):
        """A user corrects the field that the message names."""
        with pytest.raises(InvalidSpecError, match=message) as refused:
            source.file_order(column, "Descending", field=FIELD)

        assert FIELD in refused.value.message
        assert hint in refused.value.hint

    def test_files_without_statistics_are_counted(self, spark, tmp_path):
        """The column is beyond those for which the table collects statistics."""
        path = str(tmp_path / "s")
        spark.range(10).selectExpr("id", "id AS late").write.format("delta").option(
            "delta.dataSkippingNumIndexedCols", "1"
        ).save(path)
        source = DeltaTableSource(spark, path, key=("id",))
        files = len(source.pin(None).rows)

        assert source.file_order("late", "Descending", field=FIELD).files_unknown == files
        assert source.file_order("id", "Descending", field=FIELD).files_unknown == 0


class TestASpec:
    def test_a_spec_reads_the_newest_first_by_default(self):
        """Most users expect this order."""
        spec = job("/s", "/t", strategy={"snapshot": {"order": {"column": "at"}}}).spec

        assert spec.strategy.params.history_order.direction == "Descending"
