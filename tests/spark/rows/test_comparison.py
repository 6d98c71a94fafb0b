"""A receipt of an unfinished job is marked as such, and counts the compared and the filtered rows."""

from itertools import accumulate

import pytest
from support.tables.jobs import make_kind

from backfill_core.positions.offsets import OffsetRange
from backfill_spark.opening.source import ComparedRows, PinnedSource
from backfill_spark.receipts.comparison import TableComparison
from backfill_spark.records.folding import folding
from backfill_spark.records.parsing import parsing
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import APPEND, UPSERT
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sources.delta.source import DeltaTableSource


@pytest.fixture
def sides(spark, tmp_path):
    """A source of 800 live rows of 900 in five files, and a target with those of its first two, as Spark wrote them."""
    make_kind(spark, str(tmp_path / "s"), "deleted")
    source = DeltaTableSource(spark, str(tmp_path / "s"), key=("id",))
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
        return TableComparison(
            source=PinnedSource(source, source.pinned).compared(source.version, done, prefix), sink=sink,
            transform=Transform(None, where), key=("id",), vnodes=16, mode=APPEND, source_version=source.version,
            source_position="version 1", target_version=version, read_version=version, complete=done is None,
            head=lambda: source.head().position, files=None, check=lambda: None,
        )  # fmt: skip

    return compare, prefix, source


class TestAReceiptOnTheWay:
    """Before, a receipt at 31 % reported source and target as equal."""

    def test_a_receipt_names_the_rows_that_it_compared(self, sides):
        """Equal so far is not equal."""
        compare, prefix, source = sides
        receipt = compare(((0, prefix[2]),))
        whole = source.pinned.live_rows

        assert (receipt.equal, receipt.complete, receipt.rows_total, receipt.rows_filtered) == (
            True,
            False,
            whole,
            None,
        )
        assert 0 < receipt.rows < whole

    def test_a_receipt_counts_the_rows_that_the_filter_dropped(self, sides):
        """The numbers of a receipt must add up."""
        compare, prefix, source = sides
        live = sum(source.pinned.rows[:2]) - sum(source.pinned.deleted[:2])
        receipt = compare(((0, prefix[2]),), "id % 10 = 3")

        assert receipt.equal
        assert receipt.rows + receipt.rows_filtered == live

    def test_a_receipt_of_all_rows_is_complete(self, sides):
        """The last receipt is about the whole table."""
        compare, _, source = sides
        whole = source.pinned.live_rows
        receipt = compare(None, "id % 10 = 3")

        assert (receipt.equal, receipt.complete, receipt.rows + receipt.rows_filtered) == (True, True, whole)


class TestAReceiptOfATopicThatIsCompacted:
    """Compaction may have removed a record that a newer one replaced, although the target was built from it."""

    @pytest.mark.parametrize(("later", "equal"), [(True, True), (False, False)])
    def test_a_receipt_skips_records_that_newer_ones_replaced(self, spark, tmp_path, later, equal):
        """The key of a replaced record proves nothing unless the newer record is missing.

        All other keys are compared.
        """
        shape = "partition int, offset bigint, key string, value string"
        records = spark.createDataFrame([(0, 1, "b", "1"), (0, 2, "c", "2")], shape)
        newer = spark.createDataFrame([(0, 9, "a", None)], shape)
        spark.createDataFrame([("a", "0"), ("b", "1"), ("c", "2")], "key string, value string").write.format(
            "delta"
        ).save(str(tmp_path / "t"))
        compared = TableComparison(
            source=ComparedRows(records, lambda: 2, None, (OffsetRange("0", 0, 3),), later=lambda _: newer if later else None),
            sink=DeltaSink(spark, str(tmp_path / "t"), write_mode=UPSERT, key=("key",), job_id="j"),
            transform=folding(Transform(("key", "value")), records.limit(0), ("key",)), key=("key",), vnodes=4, mode=UPSERT,
            source_version=None, source_position="3", target_version=0, read_version=0, complete=True, head=lambda: {"0": 10},
            files=None, check=lambda: None,
        )  # fmt: skip

        receipt = compared.receipt(epoch=1)

        assert (receipt.equal, receipt.rows) == (equal, 2)

    @pytest.mark.parametrize(
        ("held", "later", "equal"), [((0, 1, 2), True, True), ((0, 1, 2), False, False), ((0, 1), True, False)]
    )
    def test_a_receipt_skips_rows_whose_record_is_gone(self, spark, tmp_path, held, later, equal):
        """The target keeps all records here. A row that the target lacks is still a difference."""
        shape = "partition int, offset bigint, value string"
        rows = {offset: (0, offset, f"value {offset}") for offset in range(3)}
        records = spark.createDataFrame([rows[1], rows[2]], shape)
        spark.createDataFrame([rows[offset] for offset in held], shape).write.format("delta").save(str(tmp_path / "t"))
        compared = TableComparison(
            source=ComparedRows(records, lambda: 3, None, (OffsetRange("0", 0, 3),), later=lambda _: records if later else None),
            sink=DeltaSink(spark, str(tmp_path / "t"), write_mode=APPEND, key=(), job_id="j"),
            transform=parsing(Transform(None), records.limit(0)), key=(), vnodes=4, mode=APPEND,
            source_version=None, source_position="3", target_version=0, read_version=0, complete=True, head=lambda: {"0": 10},
            files=None, check=lambda: None,
        )  # fmt: skip

        receipt = compared.receipt(epoch=1)

        assert (receipt.equal, receipt.rows) == (equal, 2)
