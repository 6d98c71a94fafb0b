"""A key of any type is proven unique, or one of its duplicates is named."""

import pytest

from backfill_spark.rows.columns import DOUBTFUL_MAX, doubled_key

KEYS = {
    "whole numbers in their order": ["id - 100 AS k"],
    "small ones": ["cast(id % 200 - 100 AS tinyint) AS k", "cast(id div 200 AS smallint) AS l"],
    "whole numbers far apart": ["id * 9223372036854775 - 5 AS k"],
    "texts": ["concat('k', id) AS k"],
    "a text and a number": ["concat('k', id % 7) AS k", "id div 7 AS l"],
    "a number and a text": ["id div 7 AS k", "concat('k', id % 7) AS l"],
    "days": ["date_add(DATE'2020-01-01', cast(id AS int)) AS k"],
    "decimals": ["cast(id / 10 AS decimal(12, 1)) AS k"],
}


@pytest.mark.parametrize("sql", KEYS.values(), ids=KEYS)
def test_duplicates_of_a_key_of_any_type_are_found(spark, sql):
    """No key is named if all are unique. A duplicated row is named with its count; if all are duplicated, one is."""
    rows = spark.range(1000, numPartitions=3).selectExpr(*sql, "id AS note")
    names = [name for name in rows.columns if name != "note"]
    twice = rows.where("note = 421")
    duplicate = doubled_key(rows.unionAll(twice), names)
    whose, number = doubled_key(rows.unionAll(rows).unionAll(rows), names)

    assert doubled_key(rows, names) is None
    assert (rows.where(duplicate[0]).first()["note"], duplicate[1]) == (421, 2)
    assert (rows.where(whose).count(), number) == (1, 3)


def test_a_null_that_occurs_twice_is_found(spark):
    """Null counts as any other value."""
    rows = spark.sql("SELECT cast(null AS bigint) AS k UNION ALL SELECT 5")

    assert doubled_key(rows, ["k"]) is None
    assert doubled_key(rows.unionAll(rows.where("k IS NULL")), ["k"]) == ("xxhash64(k) = 42", 2)


def test_groups_that_only_seem_doubled_are_checked_key_by_key(spark):
    """The hash skips nulls, so the rows of each pair share a hash. No key occurs twice."""
    pairs = spark.range(DOUBTFUL_MAX + 5).selectExpr("concat('k', id) AS k")
    rows = pairs.selectExpr("k", "cast(null AS string) AS l").unionAll(pairs.selectExpr("cast(null AS string)", "k"))

    assert doubled_key(rows, ["k", "l"]) is None
