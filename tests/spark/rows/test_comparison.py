"""A receipt on the way says that it is one, how far it looked, and what the filter left out."""

from itertools import accumulate

import pytest
from support.tables.jobs import make_kind

from backfill_core.positions.offsets import OffsetRange
from backfill_spark.opening.source import ComparedRows, PinnedSource
from backfill_spark.rows.comparison import Comparison
from backfill_spark.rows.records.folding import folding
from backfill_spark.rows.records.parsing import parsing
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import APPEND, UPSERT
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sources.delta.source import DeltaSource


@pytest.fixture
def sides(spark, tmp_path):
    """A source of 800 live rows of 900 in five files, and a target with those of its first two, as Spark wrote them."""
    make_kind(spark, str(tmp_path / "s"), "deleted")
    source = DeltaSource(spark, str(tmp_path / "s"), key=("id",))
    source.pin(None)
    prefix = list(accumulate(source.pinned.rows, initial=0))

    def compare(done, where=None):
        rows = PinnedSource(source, source.pinned).compared(source.version, done, prefix).rows
        (rows if where is None else rows.where(where)).write.format("delta").mode("overwrite").save(str(tmp_path / "t"))
        return compared(done, where).receipt(epoch=3)

    def compared(done, where):
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=APPEND, key=(), job_id="j")
        version = (
            spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path / 't'}`").first()["version"]
            if (tmp_path / "t").exists()
            else 0
        )
        return Comparison(
            source=PinnedSource(source, source.pinned).compared(source.version, done, prefix), sink=sink,
            transform=Transform(None, where), key=("id",), vnodes=16, mode=APPEND, source_version=source.version,
            source_position="version 1", target_version=version, complete=done is None,
            head=lambda: source.head().position, files=None, check=lambda: None,
        )  # fmt: skip

    return compare, prefix, source


class TestAReceiptOnTheWay:
    """At 31 % it said that source and target are equal."""

    def test_says_how_far_it_looked(self, sides):
        """Equal so far is not equal."""
        compare, prefix, source = sides
        found = compare(((0, prefix[2]),))
        whole = source.pinned.live_rows

        assert (found.equal, found.complete, found.rows_total, found.rows_filtered) == (True, False, whole, None)
        assert 0 < found.rows < whole

    def test_counts_what_the_filter_left_out(self, sides):
        """The numbers of a receipt must add up."""
        compare, prefix, source = sides
        live = sum(source.pinned.rows[:2]) - sum(source.pinned.deleted[:2])
        found = compare(((0, prefix[2]),), "id % 10 = 3")

        assert found.equal
        assert found.rows + found.rows_filtered == live

    def test_of_all_says_so(self, sides):
        """The last receipt is about the whole table."""
        compare, _, source = sides
        whole = source.pinned.live_rows
        found = compare(None, "id % 10 = 3")

        assert (found.equal, found.complete, found.rows + found.rows_filtered) == (True, True, whole)


class TestAReceiptOfATopicThatIsCompacted:
    """A record that a newer one has replaced may be gone, though the target was made of it."""

    @pytest.mark.parametrize(("later", "equal"), [(True, True), (False, False)])
    def test_leaves_out_what_newer_records_replaced(self, spark, tmp_path, later, equal):
        """Its key tells nothing, unless no newer record is there; all other keys are compared."""
        shape = "partition int, offset bigint, key string, value string"
        records = spark.createDataFrame([(0, 1, "b", "1"), (0, 2, "c", "2")], shape)
        newer = spark.createDataFrame([(0, 9, "a", None)], shape)
        spark.createDataFrame([("a", "0"), ("b", "1"), ("c", "2")], "key string, value string").write.format(
            "delta"
        ).save(str(tmp_path / "t"))
        compared = Comparison(
            source=ComparedRows(records, lambda: 2, None, (OffsetRange("0", 0, 3),), lambda _: newer if later else None),
            sink=DeltaSink(spark, str(tmp_path / "t"), write_mode=UPSERT, key=("key",), job_id="j"),
            transform=folding(Transform(("key", "value")), records.limit(0), ("key",)), key=("key",), vnodes=4, mode=UPSERT,
            source_version=None, source_position="3", target_version=0, complete=True, head=lambda: {"0": 10},
            files=None, check=lambda: None,
        )  # fmt: skip

        found = compared.receipt(epoch=1)

        assert (found.equal, found.rows) == (equal, 2)

    @pytest.mark.parametrize(
        ("held", "later", "equal"), [((0, 1, 2), True, True), ((0, 1, 2), False, False), ((0, 1), True, False)]
    )
    def test_leaves_out_rows_whose_record_is_gone(self, spark, tmp_path, held, later, equal):
        """Where all are kept; a row that the target lacks is a difference still."""
        shape = "partition int, offset bigint, value string"
        rows = {offset: (0, offset, f"value {offset}") for offset in range(3)}
        records = spark.createDataFrame([rows[1], rows[2]], shape)
        spark.createDataFrame([rows[one] for one in held], shape).write.format("delta").save(str(tmp_path / "t"))
        compared = Comparison(
            source=ComparedRows(records, lambda: 3, None, (OffsetRange("0", 0, 3),), lambda _: records if later else None),
            sink=DeltaSink(spark, str(tmp_path / "t"), write_mode=APPEND, key=(), job_id="j"),
            transform=parsing(Transform(None), records.limit(0)), key=(), vnodes=4, mode=APPEND,
            source_version=None, source_position="3", target_version=0, complete=True, head=lambda: {"0": 10},
            files=None, check=lambda: None,
        )  # fmt: skip

        found = compared.receipt(epoch=1)

        assert (found.equal, found.rows) == (equal, 2)
