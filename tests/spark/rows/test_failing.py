"""Promises of `backfill_spark.rows.failing`: a column that is said never to fail has a value, or null, for any row."""

import pytest

from backfill_spark.rows.transform import Transform

NEVER = ("s", "upper(s)", "CASE WHEN i > 3 THEN s ELSE trim(s) END", "coalesce(s, 'x')", "s IS NULL OR i = 3", "length(s)",
         "substring(s, 2, 3)")  # fmt: skip
PERHAPS = ("i + 1", "1 / i", "CAST(s AS INT)", "-i", "raise_error(s)", "if(i > 3, 1 / i, 0.0)", "element_at(array(i), i)",
           "md5(s)", "make_date(i, 1, 1)")  # fmt: skip


class TestAColumn:
    """Of a projection, each by itself."""

    @pytest.mark.parametrize(
        ("text", "expected"), [*((one, False) for one in NEVER), *((one, True) for one in PERHAPS)]
    )
    def test_that_may_fail(self, spark, text, expected):
        """What is not known to be safe may fail."""
        schema = spark.range(0).selectExpr("'' AS s", "1 AS i").schema

        found = Transform(("i", f"{text} AS x")).may_fail(spark, schema)

        assert found == {"i": False, "x": expected}
