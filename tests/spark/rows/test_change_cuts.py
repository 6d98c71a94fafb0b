"""Cuts of changed keys: ascending, few enough for a state, and of parts that contain about the same number of keys."""

import json

import pytest
from pyspark.sql.types import ArrayType, LongType, StringType, StructType

from backfill_core.positions.key_order import KeyColumn, KeyOrder
from backfill_spark.rows.change_cuts import CUTS_BYTES_MAX, cuts_of, order_of, spaced

IDS = KeyOrder((KeyColumn("id", "long"),))
NAMES = KeyOrder((KeyColumn("name", "string"),))


class TestCuts:
    """R-PART-1: any ascending cuts are correct; good ones make equal parts."""

    def test_keys_of_a_table_are_cut_into_equal_parts(self, spark):
        """A sample of 100,000 keys of two columns suffices; keys repeat, because an update has two images."""
        keys = spark.range(0, 50_000, 1, 4).selectExpr("id % 10 AS day", "cast(id AS string) AS name")
        order = order_of(keys.schema)

        cuts = cuts_of(keys.union(keys), order, 8)

        placed = sorted((row.day, row.name) for row in keys.collect())
        counts = [sum(key <= cut for key in placed) for cut in cuts]
        assert order.to_json() == [["day", "long", "ASC"], ["name", "string", "ASC"]]
        assert len(cuts) == 7
        assert all(abs(count - 6_250 * at) < 900 for at, count in enumerate(counts, 1))

    @pytest.mark.parametrize(
        ("keys", "parts", "expected"),
        [
            (range(1, 13), 4, [3, 6, 9]),
            ([5] * 10, 4, []),
            ([1, *[5] * 10], 4, []),
            ([*[1] * 8, 5], 3, [1]),
            ([], 4, []),
            ([7], 4, []),
            ([1, 2], 100, [1]),
        ],
        ids=str,
    )
    def test_no_part_is_empty(self, keys, parts, expected):
        """Repeated keys are in one part, and no cut is at the last key."""
        assert spaced(IDS, ((key,) for key in keys), parts) == tuple((key,) for key in expected)

    def test_long_keys_make_fewer_parts(self):
        """The cuts are a part of a state with at most 64 KiB."""
        cuts = spaced(NAMES, ((f"{at:05}{'x' * 200}",) for at in range(1000)), 256)

        assert 40 < len(cuts) < 128
        assert list(cuts) == sorted(cuts)
        assert len(json.dumps([NAMES.encode(cut) for cut in cuts])) <= CUTS_BYTES_MAX


class TestOrderOfAKey:
    """A key without an order is merged whole (R-PART-4)."""

    @pytest.mark.parametrize("kind", [ArrayType(LongType()), StringType("UNICODE_CI")], ids=["array", "collation"])
    def test_some_types_have_no_order(self, kind):
        """Engines compare them differently."""
        assert order_of(StructType().add("id", LongType()).add("name", kind)) is None
