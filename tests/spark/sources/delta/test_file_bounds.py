"""The order of history from what the log says of a column: any type, any writer; and what has no order."""

from datetime import UTC, datetime
from decimal import Decimal
from random import Random

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyspark.sql.types import DecimalType, DoubleType, FloatType, LongType, StringType, TimestampType
from support.tables.jobs import job

from backfill_core.errors import InvalidSpecError
from backfill_spark.delta.log import LoggedValues
from backfill_spark.delta.statistics.column_bounds import Bounds, OnlyNulls, Unknown, bounds_of
from backfill_spark.sources.delta.file_bounds import file_order, overlap_percent
from backfill_spark.sources.delta.source import DeltaSource

FIELD = "spec.strategy.snapshot.order.column"


def logged(low, high, *, rows=5, nulls=0, **partition):
    return LoggedValues("p", rows, "", 0, (low,), (high,), (nulls,), partition)


def bounds(kind, *files, partition=None):
    return bounds_of(files, 0, kind, partition=partition)


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
    found = DeltaSource(spark, table, key=("id",))
    found.pin(None)
    return found


class TestTheLog:
    """Bounds that are too narrow would leave a row out of what is said to be there."""

    def test_gives_exact_numbers(self):
        """A float would round them: 0.1 of four bytes is larger than 0.1 of eight."""
        (single,) = bounds(FloatType(), logged(Decimal("0.1"), Decimal("0.1")))

        assert bounds(DecimalType(15, 1), logged(Decimal("0.1"), 7)) == [Bounds(Decimal("0.1"), 7)]
        assert bounds(LongType(), logged(-(2**63), 2**63 - 1)) == [Bounds(-(2**63), 2**63 - 1)]
        assert single.low == single.high == 0.10000000149011612

    def test_may_have_put_a_decimal_through_a_float(self):
        """delta-rs does: a row must not lie outside of what the log says."""
        value = Decimal("123456789012345678.91")
        (found,) = bounds(DecimalType(20, 2), logged(Decimal(repr(float(value))), Decimal(repr(float(value)))))

        assert found.low < value < found.high
        assert found.high - found.low < 1000
        most = Decimal("9" * 20)
        assert bounds(DecimalType(20, 0), logged(most, most))[0].high == most
        assert bounds(DecimalType(20, 0), logged(0, Decimal("1e400000"))) == [Unknown()]

    def test_of_a_decimal_at_the_end_of_its_type_is_exact(self):
        """Python's own context rounds to 28 digits, beyond the type: Spark refuses such a literal (fault D13)."""
        last = Decimal(f"{'9' * 20}.{'9' * 18}")

        assert bounds(DecimalType(38, 18), logged(last.copy_negate(), last)) == [Bounds(last.copy_negate(), last)]
        assert bounds(DecimalType(38, 18), logged(Decimal("1E1000000"), last)) == [Unknown()]

    def test_cuts_moments_to_milliseconds(self):
        """The largest one is later than it says."""
        (found,) = bounds(TimestampType(), logged("2026-03-01T01:00:00.000+01:00", "2026-03-01T00:00:00.999Z"))

        assert found == Bounds(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, 0, 0, 1, tzinfo=UTC))

    def test_may_say_nothing(self):
        """NaN, a moment without its zone, a column without statistics."""
        assert bounds(DoubleType(), logged("NaN", "NaN"), logged(None, None)) == [Unknown(), Unknown()]
        assert bounds(TimestampType(), logged("2026-03-01 00:00:00", "2026-03-01 00:00:00")) == [Unknown()]

    def test_knows_of_files_without_a_value(self):
        """They have no bounds, and need none."""
        assert bounds(StringType(), logged(None, None, nulls=5), logged(None, None, rows=0)) == [OnlyNulls()] * 2

    def test_has_the_value_of_a_partition(self):
        """Partition columns have no statistics."""
        files = (logged(None, None, day="b"), logged(None, None, day=None))

        assert bounds(StringType(), *files, partition="day") == [Bounds("b", "b"), OnlyNulls()]


class TestTheOrder:
    def test_is_by_the_largest_value_or_by_the_smallest(self):
        """Ties stay in path order, what is not known comes last, and says so."""
        found = [Bounds(1, 9), Bounds(5, 6), Unknown(), Bounds(5, 9), OnlyNulls()]
        down = file_order("at", "Descending", found, field=FIELD)
        up = file_order("at", "Ascending", found, field=FIELD)

        assert (down.files, down.marks) == ((0, 3, 1, 4, 2), ("9", "9", "6", "6", None))
        assert (up.files, up.marks) == ((0, 1, 3, 4, 2), ("1", "5", "5", "5", None))
        assert down.files_unknown == 1

    @pytest.mark.parametrize("seed", range(20))
    def test_counts_pairs_that_overlap(self, seed):
        """Against each pair."""
        rng = Random(seed)
        found = [Bounds(low, low + rng.randrange(9)) for low in (rng.randrange(30) for _ in range(rng.randrange(9)))]
        pairs = [(one, other) for place, one in enumerate(found) for other in found[:place]]
        overlapping = sum(one.low <= other.high and other.low <= one.high for one, other in pairs)

        assert overlap_percent(found) == (-(-100 * overlapping // len(pairs)) if pairs else 0)

    def test_a_mark_is_safe_to_print(self):
        """A text comes from the data, and ends up in logs and terminals."""
        found = file_order("at", "Descending", [Bounds("a", "b\n\x1b[31m"), Bounds("a", "a")], field=FIELD)

        assert found.marks == ("b\\n\\x1b[31m", "a")


class TestATable:
    """What delta-rs says of the rows of each file, and what a user asks for by mistake."""

    @pytest.mark.parametrize("column", TYPES)
    @pytest.mark.parametrize("direction", ["Ascending", "Descending"])
    def test_is_read_in_the_order_of_any_type(self, table, source, column, direction):
        """All of them grow with the id."""
        actions = DeltaTable(table).get_add_actions(flatten=True)
        paths = actions["path"].to_pylist()
        firsts = dict(zip(paths, actions["min.id"].to_pylist(), strict=True))
        by_path = [firsts[path] for path in sorted(paths)]
        found = source.file_order(column, direction, field=FIELD)

        wanted = sorted(by_path, reverse=direction == "Descending")
        assert [by_path[file] for file in found.files] == wanted
        assert (found.overlap_percent, found.files_unknown, None in found.marks) == (0, 0, False)

    @pytest.mark.parametrize(
        ("column", "words", "hint"),
        [
            ("dya", "does not have", "Did you mean 'day'?"),
            ("nested.a", "inside the column 'nested'", "Name a column of the table itself"),
            ("list", "whose type array<bigint> has no order", "numbers, text, dates or timestamps"),
        ],
    )
    def test_refuses_by_name_what_has_no_order(self, source, column, words, hint):
        """A user corrects the field that the message names."""
        with pytest.raises(InvalidSpecError, match=words) as refused:
            source.file_order(column, "Descending", field=FIELD)

        assert FIELD in refused.value.message
        assert hint in refused.value.hint

    def test_says_which_files_have_no_statistics(self, spark, tmp_path):
        """Of a column beyond those that the table collects for."""
        path = str(tmp_path / "s")
        spark.range(10).selectExpr("id", "id AS late").write.format("delta").option(
            "delta.dataSkippingNumIndexedCols", "1"
        ).save(path)
        source = DeltaSource(spark, path, key=("id",))
        files = len(source.pin(None).rows)

        assert source.file_order("late", "Descending", field=FIELD).files_unknown == files
        assert source.file_order("id", "Descending", field=FIELD).files_unknown == 0


class TestASpec:
    def test_takes_the_newest_first(self):
        """What most users mean by an order."""
        spec = job("/s", "/t", strategy={"snapshot": {"order": {"column": "at"}}}).spec

        assert spec.strategy.params.history_order.direction == "Descending"
