"""The receipt finds one changed cell, one lost row and one doubled row in any type. Equal tables are equal."""

import pytest

from backfill_spark.receipts.row_sums import differing_rows, take_receipt
from backfill_spark.rows.write_modes import CHANGELOG, write_mode

VNODES = 32768
"""The number of vnodes is large enough that each row of a test has its own."""


def receipt(left, right, key=("id",), vnodes=16, **options):
    return take_receipt(left, right, key=key, vnodes=vnodes, source_version=1, target_version=2, epoch=3, **options)


class TestTheReceipt:
    """The receipt finds one changed cell, one lost row and one doubled row, and names the vnode."""

    @pytest.fixture
    def rows(self, spark):
        return spark.range(500).selectExpr(
            "id", "if(id % 5 = 0, null, id) AS a", "cast(id AS double) AS b", "map('x', id, 'y', null) AS m",
            "array(id, null) AS l", "named_struct('p', id, 'q', cast(null AS int)) AS s",
        ).localCheckpoint()  # fmt: skip

    def test_equal_tables_are_equal_in_any_order(self, rows):
        """Spark returns rows in no order."""
        result = receipt(rows, rows.repartition(3))

        assert result.equal
        assert result.rows == 500

    def test_condition_selects_the_rows_of_the_vnodes_that_differ(self, rows):
        """A person pastes it into a query of the target; keys may need quotes, and have several columns."""
        named = rows.selectExpr("id AS `order-id`", "cast(id AS string) AS part", "a", "l AS list")
        damaged = named.where("`order-id` <> 77")

        result = receipt(named, damaged, ("order-id", "part"), 16, mode=write_mode("Upsert"))
        of_vnode = damaged.where(result.condition)

        assert len(result.mismatches) == 1
        assert of_vnode.count() == result.mismatches[0].target_rows
        assert named.where(result.condition).where("`order-id` = 77").count() == 1
        assert receipt(named, named, ("order-id", "part"), mode=write_mode("Upsert")).condition == ""
        assert receipt(named, damaged, (), mode=write_mode("Append")).condition == ""

    @pytest.mark.parametrize(
        ("key", "damage"),
        [
            ((), lambda rows: rows.selectExpr("id", "if(id = 77, 78, a) AS a", "b", "m", "l", "s")),
            ((), lambda rows: rows.where("id <> 77")),
            ((), lambda rows: rows.unionAll(rows.where("id = 77"))),
            (
                ("id",),
                lambda rows: rows.selectExpr("id", "a", "b", "if(id = 77, map('x', id, 'z', null), m) AS m", "l", "s"),
            ),
            (
                ("id",),
                lambda rows: rows.selectExpr("id", "a", "b", "m", "if(id = 77, array(null, id), l) AS l", "s"),
            ),
        ],
        ids=["cell", "lost", "doubled", "map", "moved null"],
    )
    def test_one_difference_is_found(self, rows, damage, key):
        """A receipt that misses one row is worth nothing."""
        result = receipt(rows, damage(rows), key)

        assert 1 <= len(result.mismatches) <= (1 if key else 2)

    @pytest.mark.parametrize(
        ("key", "damage", "moved"),
        [
            (("id", "b"), lambda rows: rows.selectExpr("id", "if(id = 77, 78, a) AS a", "b", "m", "l", "s"), 0),
            (("id",), lambda rows: rows.where("id <> 77"), -1),
            (("id",), lambda rows: rows.unionAll(rows.where("id = 77")), 1),
        ],
        ids=["cell", "lost", "doubled"],
    )
    def test_the_vnode_is_that_of_the_key(self, rows, damage, moved, key):
        """A user can find the rows of a vnode with Spark's own functions."""
        vnode = f"pmod(xxhash64({', '.join(key)}), 16)"
        vnodes = {row["id"]: row["vnode"] for row in rows.selectExpr("id", f"{vnode} AS vnode").collect()}
        at, there = vnodes[77], list(vnodes.values()).count(vnodes[77])

        mismatches = receipt(rows, damage(rows), key).mismatches
        assert [(mismatch.vnode, mismatch.source_rows, mismatch.target_rows) for mismatch in mismatches] == [
            (at, there, there + moved)
        ]

    def test_a_null_that_moved_to_another_column_is_found(self, spark):
        """A hash that skips nulls would miss it."""
        left = spark.sql("SELECT 1 AS id, null AS a, 5 AS b")
        right = spark.sql("SELECT 1 AS id, 5 AS a, null AS b")

        assert not receipt(
            left.selectExpr("id", "cast(a AS int) a", "b"), right.selectExpr("id", "a", "cast(b AS int) b")
        ).equal

    def test_the_differing_rows_are_shown(self, rows):
        """A user needs the rows, not the hash."""
        damaged = rows.where("id <> 77")
        wrong = tuple(mismatch.vnode for mismatch in receipt(rows, damaged).mismatches)
        shown = differing_rows(rows, damaged, key=("id",), vnodes=16, wrong=wrong)

        assert [(side, row["id"]) for side, row in shown] == [("only in the source", 77)]


# Two values of one type that differ in one small thing.
PAIRS = {
    "micros": ("timestamp_micros(1)", "timestamp_micros(2)"),
    "micros in a struct": ("named_struct('t', timestamp_micros(1))", "named_struct('t', timestamp_micros(2))"),
    "micros in a list": ("array(timestamp_micros(1))", "array(timestamp_micros(2))"),
    "micros in a map": ("map('k', timestamp_micros(1))", "map('k', timestamp_micros(2))"),
    "micros as a map's key": ("map(timestamp_micros(1), 1)", "map(timestamp_micros(2), 1)"),
    "micros without zone": ("named_struct('t', timestamp_ntz'2020-01-01 00:00:00.000001')", "named_struct('t', timestamp_ntz'2020-01-01 00:00:00.000002')"),
    "map in a map": ("map('a', map('b', 1))", "map('a', map('b', 2))"),
    "map in a list in a struct": ("named_struct('l', array(map('b', 1)))", "named_struct('l', array(map('b', 2)))"),
    "null and missing": ("map('a', 1, 'b', null)", "map('a', 1)"),
    "null in a list": ("array(1, null)", "array(1)"),
    "moved null in a list": ("array(1, null)", "array(null, 1)"),
    "moved null in a struct": ("named_struct('a', cast(null AS int), 'b', 1)", "named_struct('a', 1, 'b', cast(null AS int))"),
    "null struct and struct of nulls": ("cast(null AS struct<a: int>)", "named_struct('a', cast(null AS int))"),
    "null list and empty list": ("cast(null AS array<int>)", "cast(array() AS array<int>)"),
    "empty list and list of null": ("cast(array() AS array<int>)", "array(cast(null AS int))"),
    "null map and empty map": ("cast(null AS map<string, int>)", "cast(map() AS map<string, int>)"),
    "where a list ends": ("array(array(1), array(2, 3))", "array(array(1, 2), array(3))"),
    "order of a list": ("array(1, 2)", "array(2, 1)"),
    "key and value": ("map('a', 'b')", "map('b', 'a')"),
    "which value belongs to which key": ("map('a', 1, 'b', 2)", "map('a', 2, 'b', 1)"),
    "empty text and null": ("''", "cast(null AS string)"),
    "scale of a decimal": ("cast(1.10 AS decimal(20, 2))", "cast(1.11 AS decimal(20, 2))"),
    "bytes in a struct": ("named_struct('r', X'00')", "named_struct('r', X'0000')"),
    "variant": ("parse_json('{\"a\": 1}')", "parse_json('{\"a\": 2}')"),
    "type in a variant": ("parse_json('{\"a\": 1}')", "parse_json('{\"a\": \"1\"}')"),
    "null and variant null": ("cast(null AS variant)", "parse_json('null')"),
    "variant in a list": ("array(parse_json('1'))", "array(parse_json('2'))"),
}  # fmt: skip
# The same value in two shapes.
TWINS = {
    "order of a map": ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"),
    "order of a map in a map": ("map('x', map('a', 1, 'b', 2))", "map('x', map('b', 2, 'a', 1))"),
    "nullability": ("array(1)", "filter(array(1, cast(null AS int)), x -> x IS NOT NULL)"),
    "order of a variant": ('parse_json(\'{"a": 1, "b": 2}\')', 'parse_json(\'{"b": 2, "a": 1}\')'),
    "nan": ("double('nan')", "-double('nan')"),
}


class TestEveryTypeIsSeenToTheBottom:
    """The receipt distinguishes all values that a reader of the target can distinguish."""

    def frames(self, spark, pairs):
        """Return both sides: a row and a column for each pair, in which the others are null."""
        return [
            spark.range(len(pairs)).selectExpr(
                "id", *(f"if(id = {at}, {pair[side]}, null) AS c{at}" for at, pair in enumerate(pairs))
            )
            for side in (0, 1)
        ]

    def test_a_small_difference_is_found_and_shown(self, spark):
        """Each type has values that a careless conversion to a string makes equal."""
        left, right = self.frames(spark, list(PAIRS.values()))
        mismatches = receipt(left, right, vnodes=VNODES).mismatches

        at = left.selectExpr("id", f"pmod(xxhash64(id), {VNODES}) AS vnode").collect()
        assert {row["vnode"] for row in at} == {mismatch.vnode for mismatch in mismatches}
        assert {(mismatch.source_rows, mismatch.target_rows) for mismatch in mismatches} == {(1, 1)}
        wrong = tuple(mismatch.vnode for mismatch in mismatches)
        shown = differing_rows(left, right, key=("id",), vnodes=VNODES, wrong=wrong, limit=len(PAIRS))
        for side in ("only in the source", "only in the target"):
            assert sorted(row["id"] for label, row in shown if label == side) == list(range(len(PAIRS)))

    def test_equal_values_are_equal(self, spark):
        """A false alarm costs a user a day."""
        left, right = self.frames(spark, list(TWINS.values()))

        assert receipt(left, right).equal

    def test_a_table_of_all_types_equals_itself(self, spark):
        """Types must not affect each other."""
        both = [", ".join(f"{pair[side]} AS c{at}" for at, pair in enumerate(PAIRS.values())) for side in (0, 1)]
        rows = spark.sql(f"SELECT 1L AS id, {both[0]} UNION ALL SELECT 2L, {both[1]}")

        assert receipt(rows, rows.repartition(2)).equal


class TestTheTargetMayHaveMore:
    """Columns that the transform does not yield are null in the job's rows, and not compared."""

    def test_a_further_column_is_left_out_of_receipt_and_examples(self, spark):
        """The target may have columns that the job does not fill."""
        left = spark.sql("SELECT id, id AS a FROM range(9)")
        right = spark.sql("SELECT id, if(id = 4, 0, id) AS a, cast(null AS int) AS more FROM range(9)")
        wrong = tuple(mismatch.vnode for mismatch in receipt(left, right).mismatches)
        shown = differing_rows(left, right, key=("id",), vnodes=16, wrong=wrong)

        assert receipt(left, right.selectExpr("id", "id AS a", "more")).equal
        assert shown == [
            ("only in the source", {"id": 4, "a": 4}),
            ("only in the target", {"id": 4, "a": 0}),
        ]

    def test_a_key_that_is_not_among_the_columns_is_no_key(self, spark):
        """A Changelog may leave the source's key out."""
        rows = spark.sql("SELECT id AS other FROM range(9)")

        assert receipt(rows, rows, key=("id",)).rows == 9


class TestAChangelog:
    """Removals in a changelog count negative. The receipt compares the table that a reader of all changes has."""

    def log(self, spark, last="delete"):
        return spark.createDataFrame(
            [
                (1, 5, "insert", 1, 0), (2, 5, "insert", 1, 0), (1, 5, "update_preimage", 2, 1),
                (1, 6, "update_postimage", 2, 1), (2, 5, last, 2, 1),
            ],
            "id long, a long, _op string, _epoch long, _version long",
        )  # fmt: skip

    def test_the_sums_of_a_changelog_are_those_of_the_table(self, spark):
        """A changelog is right when its sum is the table."""
        table = spark.createDataFrame([(1, 6)], "id long, a long")

        result = receipt(table, self.log(spark), mode=CHANGELOG)
        assert (result.equal, result.rows) == (True, 1)

    def test_a_change_that_is_missing_is_found_and_shown(self, spark):
        """A lost delete leaves the reader with one row too many."""
        table = spark.createDataFrame([(1, 6)], "id long, a long")
        log = self.log(spark).where("_op <> 'delete'")

        result = receipt(table, log, mode=CHANGELOG)
        wrong = tuple(mismatch.vnode for mismatch in result.mismatches)
        shown = differing_rows(table, log, key=("id",), vnodes=16, wrong=wrong, mode=CHANGELOG)
        assert shown == [("only in the target", {"id": 2, "a": 5})]

    def test_a_removal_that_is_logged_as_an_addition_is_found(self, spark):
        """Only the sign differs, and the sign must count."""
        table = spark.createDataFrame([(1, 6)], "id long, a long")

        assert not receipt(table, self.log(spark, last="insert"), mode=CHANGELOG).equal


class TestAnyName:
    """Names of columns in the key and outside it."""

    NAMES = ("a.b", "a b", "a`b", "ä", "hash", "vnode", "sign", "row", "c0")

    @pytest.mark.parametrize("key", [NAMES, ("x",), ()], ids=["in the key", "beside it", "without one"])
    def test_any_name_is_compared(self, spark, key):
        """A receipt is made of SQL, so names must be quoted."""
        ones, threes = (1,) * len(self.NAMES), (3,) * len(self.NAMES)
        left = spark.createDataFrame([(*ones, 2), (*threes, 4)], [*self.NAMES, "x"])
        right = spark.createDataFrame([(*ones, 2), (*threes, 5)], [*self.NAMES, "x"])

        wrong = tuple(mismatch.vnode for mismatch in receipt(left, right, key).mismatches)
        shown = differing_rows(left, right, key=key, vnodes=16, wrong=wrong)
        rest = dict.fromkeys(self.NAMES, 3)
        assert [row for _, row in shown] == [{**rest, "x": 4}, {**rest, "x": 5}]


@pytest.fixture(scope="module")
def wide(spark):
    """Return two rows of 450 columns, computed once."""
    columns = [f"if(id = 7, null, id + {at}) AS c{at}" for at in range(450)]
    return spark.range(6, 8, 1, 1).selectExpr("id", *columns).localCheckpoint()


class TestWideTables:
    """Receipts of 400 columns and more ended in a StackOverflowError, after the whole copy."""

    def test_tables_of_450_columns_are_compared(self, wide):
        """Such tables are rare, and were copied in vain."""
        assert receipt(wide, wide).equal

    def test_a_null_that_moved_by_sixty_columns_is_found(self, spark):
        """Two numbers encode the nulls of a row of 60 and more columns; their positions count."""
        names = [f"c{at}" for at in range(61)]
        left = spark.createDataFrame([(None, *[None] * 59, 5)], ", ".join(f"{name} int" for name in names))
        right = spark.createDataFrame([(5, *[None] * 59, None)], ", ".join(f"{name} int" for name in names))

        assert receipt(left, left, ()).equal
        assert not receipt(left, right, ()).equal
