"""Promises of `backfill_spark.rows.failing`: a column that is marked as safe has a value, or null, for any row."""

import pytest

from backfill_spark.rows.transform import Transform

NEVER = ("s", "upper(s)", "CASE WHEN i > 3 THEN s ELSE trim(s) END", "coalesce(s, 'x')", "s IS NULL OR i = 3", "length(s)",
         "substring(s, 2, 3)")  # fmt: skip
PERHAPS = ("i + 1", "1 / i", "CAST(s AS INT)", "-i", "raise_error(s)", "if(i > 3, 1 / i, 0.0)", "element_at(array(i), i)",
           "md5(s)", "make_date(i, 1, 1)")  # fmt: skip


class TestAColumn:
    """Each column of a projection is judged separately."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [*((expression, False) for expression in NEVER), *((expression, True) for expression in PERHAPS)],
    )
    def test_a_column_that_may_fail_is_known(self, spark, text, expected):
        """A column that is not proven safe may fail."""
        schema = spark.range(0).selectExpr("'' AS s", "1 AS i").schema

        may_fail = Transform(("i", f"{text} AS x")).may_fail(spark, schema)

        assert may_fail == {"i": False, "x": expected}
