"""Files of a range of a key: every file with a row of the range, and no others if the log separates them."""

import math
from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyspark.sql import functions as F
from support.tables.jobs import make_kind

from backfill_core.positions.key_order import KeyColumn, KeyOrder
from backfill_spark.delta.spark_internals import SparkDeltaLog
from backfill_spark.delta.statistics.column_bounds import Bounds, OnlyNulls, Unknown
from backfill_spark.jvm.gateway import java_frame
from backfill_spark.rows.key_ranges import stored_value, value_of
from backfill_spark.sources.delta.file_access import FileAccess
from backfill_spark.sources.delta.range_files import KeyRange, RangeFiles, ranged_file

TYPES = {
    "long": lambda rng: rng.choice([None, *range(5)]),
    "string": lambda rng: rng.choice([None, "", "a", "b", "\uffff", "\U00010000"]),
    "double": lambda rng: rng.choice([None, math.nan, -math.inf, -1.0, -0.0, 0.0, 2.5]),
}


def statistics_of(values, rng):
    """Return a column's statistics in a log for a file: no NaN, and at times nothing."""
    comparable = [
        value for value in values if value is not None and not (isinstance(value, float) and math.isnan(value))
    ]
    if rng.random() < 0.1:
        return Unknown()
    if not comparable:
        return OnlyNulls() if all(value is None for value in values) else Unknown()
    return Bounds(min(comparable), max(comparable))


class TestAFile:
    """A file that is skipped by mistake loses its rows."""

    @pytest.mark.parametrize("seed", range(30))
    def test_a_file_with_a_row_of_the_range_is_read(self, seed):
        """Any types, directions, nulls and NaN, compared with each row."""
        rng = Random(seed)
        for _ in range(20):
            self.check_one(rng)

    def check_one(self, rng):
        types = [rng.choice(list(TYPES)) for _ in range(rng.choice([1, 2, 3]))]
        order = KeyOrder(tuple(KeyColumn(f"c{at}", kind, rng.random() < 0.5) for at, kind in enumerate(types)))

        def row():
            return tuple(TYPES[kind](rng) for kind in types)

        rows = [row() for _ in range(rng.randrange(1, 6))]
        if rng.random() < 0.5:
            rows = [(rows[0][0], *first[1:]) for first in rows]
        by_column = list(zip(*rows, strict=True))
        statistics = [statistics_of(values, rng) for values in by_column]
        spans = ranged_file(order, statistics, [None in values for values in by_column], "").spans
        for _ in range(20):
            bounds = [rng.choice([None, row(), row()]) for _ in range(2)]
            low, high = (None if bound is None else order.sort_key(bound) for bound in bounds)
            inside = [
                key for key in map(order.sort_key, rows) if (low is None or key > low) and (high is None or key <= high)
            ]
            key_range = KeyRange.of(order, *bounds)
            assert not inside or any(span.meets(key_range) for span in spans)
            assert len(inside) == len(rows) or not all(span.lies_in(key_range) for span in spans)

    def test_a_file_with_a_truncated_string_may_have_larger_letters(self):
        """Older writers mark the truncation by U+FFFD, and 65,000 letters are larger than it.

        Bytes that are no valid string are smaller, too.
        """
        order = KeyOrder((KeyColumn("word", "string"),))
        (span,) = ranged_file(order, [Bounds("b\ufffd", "c\ufffd")], [False], "").spans

        assert span.meets(KeyRange.of(order, ("c\ufffe",), ("c\U0001f600",)))
        assert span.meets(KeyRange.of(order, None, ("b",)))
        assert not span.meets(KeyRange.of(order, ("d",), None))
        assert not span.meets(KeyRange.of(order, None, ("a",)))

    def test_all_columns_separate_files(self):
        """Each file of one tenant has a part of the times."""
        order = KeyOrder((KeyColumn("tenant", "string"), KeyColumn("at", "long", descending=True)))
        (span,) = ranged_file(order, [Bounds("t", "t"), Bounds(10, 20)], [False, False], "").spans

        def meets(low, high):
            return span.meets(KeyRange.of(order, low, high))

        assert meets(("t", 15), ("t", 12))
        assert meets(("s", 5), None)
        assert not meets(("t", 9), ("t", 1))
        assert not meets(None, ("t", 21))

    def test_a_file_is_not_read_again_after_its_last_row(self):
        """A cut at the end of a file leaves the file whole. NULL includes all values that may follow."""
        order = KeyOrder((KeyColumn("id", "long"), KeyColumn("word", "string")))
        for bounds, cut in (
            ([Bounds(1, 9), Bounds("a", "z")], (9, "z")),
            ([Bounds(1, 9), Bounds("a", "z")], (9, None)),
            ([Bounds(1, 9), Unknown()], (9, None)),
        ):
            (span,) = ranged_file(order, bounds, [False, False], "").spans
            assert not span.meets(KeyRange.of(order, cut, None))
            assert span.meets(KeyRange.of(order, None, cut))
        (span,) = ranged_file(order, [Bounds(1, 9), Unknown()], [False, False], "").spans
        assert span.meets(KeyRange.of(order, (9, "z"), None))

    def test_a_file_of_floats_may_have_nan(self):
        """No log has statistics of NaN, so only the last range reads it."""
        order = KeyOrder((KeyColumn("x", "double"),))
        spans = ranged_file(order, [Bounds(1.0, 2.0)], [False], "").spans

        assert not any(span.meets(KeyRange.of(order, (3.0,), (math.inf,))) for span in spans)
        assert any(span.meets(KeyRange.of(order, (3.0,), None)) for span in spans)


@pytest.fixture(scope="module")
def ranged(spark):
    """Return the rows of the files that a range of a table reads."""

    def read(path, version, order, low, high):
        frame = spark.read.format("delta").option("versionAsOf", version).load(path)
        files = RangeFiles(spark, SparkDeltaLog(spark, path), frame.schema, FileAccess.of(spark, path, ()))
        return files.frame(version, order, low, high).select(*frame.columns)

    return read


def plan_of(frame):
    return java_frame(frame).queryExecution().optimizedPlan().toString()


def files_of(frame):
    return frame.select(F.input_file_name()).distinct().count()


class TestRangesOfATable:
    """Together the ranges are the table, and each reads its own files."""

    @pytest.mark.parametrize("kind", ["plain", "deleted", "partitioned", "renamed"])
    def test_all_ranges_together_are_the_table(self, spark, tmp_path, ranged, kind):
        """Delta handles deletion vectors, partitions and renamed columns."""
        path = str(tmp_path / "t")
        make_kind(spark, path, kind)
        version = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").agg(F.max("version")).collect()[0][0]
        table = spark.read.format("delta").option("versionAsOf", version).load(path)
        columns = [name for name in table.columns if name != "id"][:1]
        order = KeyOrder(
            tuple(
                KeyColumn(name, table.schema[name].dataType.typeName(), at == 0)
                for at, name in enumerate([*columns, "id"])
            )
        )
        stored = table.select(
            *(stored_value(column).alias(f"c{at}") for at, column in enumerate(order.columns))
        ).collect()
        positions = sorted((tuple(map(value_of, row)) for row in stored), key=order.sort_key)
        edges = [None, *positions[100::300], None]

        parts = [ranged(path, version, order, low, high).select("id") for low, high in pairwise(edges)]
        rows = parts[0]
        for part in parts[1:]:
            rows = rows.unionAll(part)
        query = QueryBuilder().register("t", DeltaTable(path, version=version)) if kind == "plain" else None
        expected = (
            table.select("id").collect()
            if query is None
            else [(id_,) for id_ in query.execute("SELECT id FROM t").read_all()["id"].to_pylist()]
        )
        assert Counter(tuple(row) for row in rows.collect()) == Counter(tuple(row) for row in expected)

    def test_a_range_reads_no_other_files(self, spark, tmp_path, ranged):
        """The table is clustered by its key: delta-rs wrote each file with a part of the keys."""
        path = str(tmp_path / "t")
        for first in (20, 0, 30, 10):
            values = f"generate_series({first}, {first + 9}) AS t(value)"
            rows = f"SELECT value AS id, 'k' || lpad(cast(value AS varchar), 40, '0') AS word FROM {values}"
            write_deltalake(path, QueryBuilder().execute(rows).read_all(), mode="append")
        by_id = KeyOrder((KeyColumn("id", "long", descending=True),))
        by_word = KeyOrder((KeyColumn("word", "string"), KeyColumn("id", "long")))

        def word(number):
            return (f"k{number:040}", number)

        assert files_of(ranged(path, 3, by_id, (29,), (20,))) == 1
        assert files_of(ranged(path, 3, by_id, None, (19,))) == 3
        assert files_of(ranged(path, 2, by_id, None, None)) == 3
        assert files_of(ranged(path, 3, by_word, word(19), word(29))) == 1
        assert files_of(ranged(path, 3, by_word, word(39), None)) == 0

    def test_a_range_of_whole_files_is_read_without_a_condition(self, spark, tmp_path, ranged):
        """A clustered table is copied file by file. A condition for each row would cost time and remove no row."""
        path = str(tmp_path / "t")
        for first in (0, 10, 20):
            rows = f"SELECT value AS id FROM generate_series({first}, {first + 9}) AS t(value)"
            write_deltalake(path, QueryBuilder().execute(rows).read_all(), mode="append")
        order = KeyOrder((KeyColumn("id", "long"),))

        def filters(low, high):
            """Return True if the plan has a condition, and the rows."""
            frame = ranged(path, 2, order, low, high)
            return "Filter" in plan_of(frame), sorted(row["id"] for row in frame.collect())

        assert filters((9,), (29,)) == (False, [*range(10, 30)])
        assert filters(None, None) == (False, [*range(30)])
        assert filters((8,), (19,)) == (True, [*range(9, 20)])
        assert filters((9,), (28,)) == (True, [*range(10, 29)])
