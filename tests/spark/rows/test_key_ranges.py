"""Ranges of a key on Spark and in the core: both must judge each row alike."""

import datetime as dt
import math
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

from backfill_core.positions.key_order import KeyColumn, KeyOrder
from backfill_core.positions.vnode_positions import Completed, KeyBound, KeySpace, NotStarted, UpTo, VnodePositions
from backfill_spark.rows.changes import DELETE, changelog_rows, net_changes
from backfill_spark.rows.key_ranges import between, nth_position, of_vnodes, stored_value, value_of, vnode, within
from backfill_spark.rows.transform import Transform

UTC = dt.UTC
TYPES = {
    "boolean": [False, True],
    "long": [-(2**63), -1, 0, 7, 2**63 - 1],
    "short": [-5, 5],
    "decimal(20,2)": [Decimal("-1.50"), Decimal("0.00"), Decimal("9999999999.99")],
    "double": [-math.inf, -1.5, -0.0, 0.0, 2.5, math.inf, math.nan],
    "float": [-1.5, 0.0, math.nan],
    "string": ["", "A", "a", "é", "￿", "\U00010000", "it's"],
    "binary": [b"", b"\x00", b"\x7f", b"\x80\x01", b"\xff"],
    "date": [
        dt.date(1, 1, 1),
        dt.date(1969, 12, 31),
        dt.date(2026, 3, 1),
        dt.date(9999, 12, 31),
    ],
    "timestamp": [
        dt.datetime(1900, 1, 1, tzinfo=UTC),
        dt.datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC),
    ],
    "timestamp_ntz": [dt.datetime(1900, 1, 1), dt.datetime(2026, 3, 29, 2, 30, 0, 123456)],
}


@pytest.fixture(scope="module")
def tables(spark):
    """Return for each type a table of its values and NULL, each twice with a number, and each row's position in the core."""
    made = {}
    for data_type, values in TYPES.items():
        rows = [(value, at) for value in [*values, None] for at in range(2)]
        spelled = {"long": "bigint"}.get(data_type, data_type)
        frame = spark.createDataFrame(rows, f"c {spelled}, id int").localCheckpoint()
        column = KeyColumn("c", data_type)
        stored = frame.select(stored_value(column).alias("c"), "id").collect()
        made[data_type] = (frame, [(value_of(row[0]), row[1]) for row in stored])
    return made


def order_of(data_type, *, descending=False, by_id=True):
    return KeyOrder((KeyColumn("c", data_type, descending), *((KeyColumn("id", "integer"),) if by_id else ())))


class TestARange:
    """R-ARR-7, 13, 25: a row on the wrong side of a position is lost or doubled."""

    @pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
    @pytest.mark.parametrize("data_type", TYPES)
    def test_a_range_has_the_rows_of_the_core(self, tables, data_type, descending):
        """Each position is compared with each row in one query, one column for each range.

        Both ends of a range are judged independently, so a few pairs suffice.
        """
        frame, positions = tables[data_type]
        order = order_of(data_type, descending=descending)
        lows, highs = positions[::2], positions[1::2]
        ranges = [
            *((low, None) for low in lows),
            *((None, high) for high in highs),
            *zip(lows, highs[1:], strict=False),
        ]

        answers = frame.select(
            stored_value(order.columns[0]).alias("c"), "id",
            *(between(order, low, high).alias(f"r{at}") for at, (low, high) in enumerate(ranges)),
        ).collect()  # fmt: skip

        for row in answers:
            at = order.sort_key((value_of(row["c"]), row["id"]))
            expected = [
                (low is None or at > order.sort_key(low)) and (high is None or at <= order.sort_key(high))
                for low, high in ranges
            ]
            assert [row[f"r{number}"] for number in range(len(ranges))] == expected, (row, ranges)

    @pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
    def test_positions_do_not_depend_on_the_time_zone(self, spark, tables, zone):
        """A position outlives its session."""
        before = spark.conf.get("spark.sql.session.timeZone")
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            for data_type in ("timestamp", "timestamp_ntz", "date"):
                frame, positions = tables[data_type]
                column = KeyColumn("c", data_type)
                again = [value_of(row[0]) for row in frame.select(stored_value(column)).collect()]
                assert again == [value for value, _ in positions]
        finally:
            spark.conf.set("spark.sql.session.timeZone", before)

    @pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
    def test_a_range_is_cut_after_the_given_number_of_rows(self, tables, descending):
        """R-ARR-28: the position is that of the last row. It is None if too few rows are left."""
        for data_type in ("double", "string", "binary", "date"):
            frame, positions = tables[data_type]
            order = order_of(data_type, descending=descending)
            expected = sorted(positions, key=order.sort_key)

            position = nth_position(frame, order, 3)
            assert order.sort_key(position) == order.sort_key(expected[2])
            assert nth_position(frame, order, len(expected)) is None


class TestVnodes:
    """The distribution key decides, in any order of reading."""

    def test_vnodes_follow_only_from_the_distribution_key(self, spark):
        """R-ARR-16: each row has one vnode, and rows with an equal distribution key have the same one."""
        rows = spark.range(40).selectExpr("id", "id % 4 AS region")
        space = KeySpace(KeyOrder((KeyColumn("id", "long"),)), ("region",), 8)

        pairs = rows.select("region", vnode(space).alias("vnode")).distinct().collect()

        assert len(pairs) == 4
        assert rows.where(of_vnodes(space, [(0, 8)])).count() == 40
        assert (
            rows.where(of_vnodes(space, [(0, 3), (5, 8)])).count() + rows.where(of_vnodes(space, [(3, 5)])).count()
            == 40
        )

    def test_each_vnode_has_its_own_position(self, spark):
        """R-ARR-13: a completed vnode has all its rows, one that has not started has none."""
        space = KeySpace(KeyOrder((KeyColumn("id", "long"),)), ("id",), 3)
        rows = spark.range(60).withColumn("vnode", vnode(space)).localCheckpoint()
        bound = KeyBound(space, VnodePositions.of([Completed(), UpTo((30,)), NotStarted()]))

        ids = {row["id"] for row in rows.where(within(bound)).collect()}

        by_vnode = {row["id"]: row["vnode"] for row in rows.collect()}
        assert ids == {key for key, at in by_vnode.items() if at == 0 or (at == 1 and key <= 30)}


FEED = (
    (1, 5, "update_preimage"), (1, 20, "update_postimage"),  # leaves
    (2, 20, "update_preimage"), (2, 5, "update_postimage"),  # arrives
    (3, 5, "update_preimage"), (3, 7, "update_postimage"),  # stays visible
    (4, 20, "update_preimage"), (4, 30, "update_postimage"),  # stays hidden
)  # fmt: skip


@pytest.fixture(scope="module")
def changes(spark):
    """The change feed of one version in which four rows move."""
    rows = [(key, at, kind, 1) for key, at, kind in FEED]
    return spark.createDataFrame(rows, "id int, ts int, _change_type string, _commit_version long")


@pytest.fixture
def visible(spark):
    """Return the condition of visible rows: those up to `ts` 10."""
    space = KeySpace(KeyOrder((KeyColumn("ts", "integer"), KeyColumn("id", "integer"))), ("id",), 1)
    return within(KeyBound(space, VnodePositions.of([UpTo((10, 0))])))


class TestHalvesOfAnUpdate:
    """R-ARR-17: each half is judged by its own position."""

    def test_a_half_becomes_an_upsert_or_a_delete(self, changes, visible):
        """The last image within the bound wins, and a row that leaves the bound is removed."""
        net = net_changes(changes, Transform(), ("id",), visible)

        amounts = {row["id"]: None if row[DELETE] else row["ts"] for row in net.collect()}
        assert amounts == {1: None, 2: 5, 3: 7}

    def test_a_half_becomes_a_delete_or_an_insert_in_a_changelog(self, changes, visible):
        """A single half is a delete or an insert. Pairs stay pairs."""
        rows = changelog_rows(changes, Transform(), key=("id",), epoch=1, within=visible).collect()

        log = sorted((row["id"], row["ts"], row["_op"]) for row in rows)
        assert log == [
            (1, 5, "delete"), (2, 5, "insert"), (3, 5, "update_preimage"), (3, 7, "update_postimage"),
        ]  # fmt: skip

    def test_halves_are_judged_by_the_source_not_by_the_output(self, changes, visible):
        """R-ARR-41: the columns of the order need not be in the target."""
        transform = Transform(("id", "'x' AS ts"), "id != 3")

        removed_by_id = {row["id"]: row[DELETE] for row in net_changes(changes, transform, ("id",), visible).collect()}

        assert removed_by_id == {1: True, 2: False}


def test_files_are_skipped_by_the_first_column(spark, tmp_path):
    """A range of a clustered table must not read all of it."""
    path = str(tmp_path / "clustered")
    spark.range(0, 80, 1, 8).write.format("delta").save(path)
    order = KeyOrder((KeyColumn("id", "long"),))

    rows = spark.read.format("delta").load(path).where(between(order, (19,), (35,)))

    assert rows.select(F.input_file_name()).distinct().count() == 2
    assert len(rows.inputFiles()) >= 2
