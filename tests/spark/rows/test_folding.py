"""The last record of each key defines the row of a target with one row a key. A record without a usable key is bad."""

import pytest
from support.kafka.receipts import receipt_of

from backfill_core.errors import DuplicateKeyError, InvalidTransformError
from backfill_core.positions.offsets import OffsetRange
from backfill_spark.records.folding import PARTITION, folding
from backfill_spark.records.parsing import REASON, parsing
from backfill_spark.rows.changes import ADD, DELETE, check_net_changes
from backfill_spark.rows.transform import Transform

SHAPE = "partition int, offset bigint, key string, value string"
SELECT = ("CAST(key AS INT) AS id", "CAST(value AS INT) AS amount", "offset")


def transform_of(spark, select=SELECT, where=None, key=("id",)):
    """Return a transform that keeps the last record of each key."""
    empty = spark.createDataFrame([], SHAPE)
    return folding(parsing(Transform(select, where), empty), empty, key)


def folded(spark, rows, **given):
    """Return by key the row of its last record, or None where that record removes the key."""
    transform = transform_of(spark, **given)
    rows_read = transform.folded(transform.judged(spark.createDataFrame(rows, SHAPE))).collect()
    return {row["id"]: None if row[DELETE] else (row["amount"], row["offset"]) for row in rows_read}


def reasons(spark, rows, **given):
    """Return the reason of each bad record, by offset."""
    transform = transform_of(spark, **given)
    return {
        row["offset"]: row[REASON]
        for row in transform.bad(transform.judged(spark.createDataFrame(rows, SHAPE))).collect()
    }


class TestTheLastRecordOfAKey:
    """Compaction keeps only the last record, so no other one may count."""

    def test_the_last_record_of_a_key_decides(self, spark):
        """The offset decides, in any order of the rows.

        A record without a value removes its key while it is the last one.
        """
        rows = [
            (0, 7, "1", "70"),
            (0, 2, "1", "20"),
            (0, 3, "2", "30"),
            (0, 9, "2", None),
            (1, 4, "3", None),
            (1, 5, "3", "50"),
        ]

        assert folded(spark, rows) == {1: (70, 7), 2: None, 3: (50, 5)}

    def test_the_filter_applies_to_the_last_record(self, spark):
        """A record that does not pass removes the row of an older one.

        Otherwise the result would depend on compaction.
        """
        rows = [(0, 1, "1", "10"), (0, 2, "1", "1"), (0, 3, "2", "1"), (0, 4, "2", "20"), (0, 5, "3", None)]

        for where in ("CAST(value AS INT) > 5", "length(value) > 1"):
            assert folded(spark, rows, where=where) == {1: None, 2: (20, 4), 3: None}

    def test_an_unreadable_column_of_a_record_that_does_not_pass_removes_the_row(self, spark):
        """Only its key is needed. The row of an older record would stay."""
        rows = [(0, 1, "1", "10"), (0, 2, "1", "y"), (0, 3, "2", "20"), (0, 4, "x", "y")]

        assert folded(spark, rows, where="length(value) > 1") == {1: None, 2: (20, 3)}
        assert reasons(spark, rows, where="length(value) > 1") == {}

    def test_a_record_without_a_value_needs_no_column_but_its_key(self, spark):
        """An array index raises for it, but its row is not computed."""
        select = (*SELECT[:1], "CAST(split(coalesce(value, ''), ',')[1] AS INT) AS amount", "offset")
        rows = [(0, 1, "1", "a,10"), (0, 2, "1", None), (0, 3, "2", "a")]

        assert folded(spark, rows, select=select) == {1: None}
        assert reasons(spark, rows, select=select).keys() == {3}

    def test_only_the_key_of_a_record_that_does_not_pass_is_computed(self, spark):
        """A filter guards the expressions."""
        select = (*SELECT[:1], "100 div CAST(value AS INT) AS amount", "offset")
        rows = [(0, 1, "1", "10"), (0, 2, "2", "0"), (0, 3, None, "0")]

        assert folded(spark, rows, select=select, where="CAST(value AS INT) <> 0") == {1: (10, 1), 2: None}

    def test_folding_keeps_the_names_and_types_of_the_transform(self, spark):
        """A target is created with them."""
        transform = transform_of(spark, select=("*", "upper(value)", "CAST(key AS INT) AS ID"), key=("ID",))
        plain = Transform(transform.select).project(spark.createDataFrame([], SHAPE)).schema

        assert [(field.name, field.dataType) for field in transform.apply(spark.createDataFrame([], SHAPE)).schema] == [
            (field.name, field.dataType) for field in plain
        ]

    def test_all_columns_of_the_key_identify_a_row(self, spark):
        """A key of two columns has one row for each pair."""
        transform = transform_of(
            spark, select=("partition", "CAST(key AS INT) AS id", "value"), key=("id", "partition")
        )
        rows = [(0, 1, "1", "a"), (1, 1, "1", "b"), (0, 2, "1", "c")]

        rows_read = transform.apply(spark.createDataFrame(rows, SHAPE)).collect()
        assert sorted(map(tuple, rows_read)) == [(0, 1, "c"), (1, 1, "b")]

    def test_the_last_record_of_a_key_in_several_partitions_is_unknown(self, spark):
        """These records have no order, so the MERGE and the receipt refuse those that they read."""
        transform, records = transform_of(spark), spark.createDataFrame([(0, 1, "1", "10"), (1, 1, "1", "11")], SHAPE)
        net = transform.folded(transform.judged(records)).drop(PARTITION)

        assert [row[ADD] for row in net.collect()] == [2]
        with pytest.raises(DuplicateKeyError, match="has records in several partitions"):
            check_net_changes(net, ("id",), doubled="has records in several partitions")
        with pytest.raises(DuplicateKeyError, match="1 key with records in several partitions"):
            receipt_of(records, transform.apply(records), transform, [OffsetRange("0", 0, 2), OffsetRange("1", 0, 2)])


class TestARecordWithoutAKey:
    """Such a record does not define which row it replaces or removes."""

    def test_a_record_without_a_key_is_bad(self, spark):
        """A null in the key is bad, with a value or without. A record that a parser cannot read is still bad."""
        rows = [
            (0, 0, "1", "10"),
            (0, 1, None, "10"),
            (0, 2, None, None),
            (0, 3, "x", None),
            (0, 4, "1", "y"),
            (0, 5, "2", None),
        ]

        reasons_by_offset = reasons(spark, rows)

        assert reasons_by_offset.keys() == {1, 2, 3, 4}
        assert reasons_by_offset[1] == "the key column id is null."
        assert (
            reasons_by_offset[2]
            == "the record has no value, and the key column id is null: it must come from the record's key."
        )
        assert reasons_by_offset[3] == "spec.transform.select[0]: cast cannot read the payload."
        assert reasons_by_offset[4] == "spec.transform.select[1]: cast cannot read the payload."
        assert folded(spark, rows) == {1: (10, 0), 2: None}

    def test_a_tombstone_is_bad_where_the_key_comes_from_the_value(self, spark):
        """A tombstone has no value, so it could remove nothing, and must not be skipped."""
        reasons_by_offset = reasons(
            spark, [(0, 0, "1", "10"), (0, 1, "1", None)], select=("CAST(value AS INT) AS id", "key")
        )

        assert list(reasons_by_offset) == [1]

    def test_a_record_without_a_key_is_skipped_if_the_filter_excludes_it(self, spark):
        """A user who expects such records excludes them."""
        rows = [(0, 0, "1", "10"), (0, 1, None, "10"), (0, 2, None, None), (0, 3, "1", None)]

        assert reasons(spark, rows, where="key IS NOT NULL") == {}
        assert folded(spark, rows, where="key IS NOT NULL") == {1: None}
        # A record without a value has nothing for this filter, so it needs a key.
        assert list(reasons(spark, rows, where="length(value) > 5")) == [2]


class TestATransformThatCannotBeFolded:
    """It is refused before the first write."""

    def test_expressions_that_need_each_other_are_refused(self, spark):
        """The key of a record that does not pass is computed without the other expressions."""
        with pytest.raises(InvalidTransformError, match="uses the alias of another one"):
            transform_of(spark, select=("CAST(key AS INT) AS id", "id + 1 AS amount"))


class TestTheReceiptByPartition:
    """A row counts in the partition of its last record."""

    def test_the_receipt_counts_keys(self, spark):
        """There are six records of three keys, and one key is removed."""
        transform = transform_of(spark, select=("partition", *SELECT))
        rows = [
            (0, 0, "1", "1"),
            (0, 1, "1", "2"),
            (0, 2, "2", "1"),
            (0, 3, "2", None),
            (1, 0, "3", "1"),
            (1, 5, "x", "1"),
        ]
        records = spark.createDataFrame(rows, SHAPE)
        receipt = receipt_of(
            records, transform.apply(records), transform, [OffsetRange("0", 0, 4), OffsetRange("1", 0, 6)], key=("id",)
        )
        zero, first = receipt.partitions

        assert (receipt.equal, receipt.rows) == (True, 2)

        assert (zero.records, zero.bad_records, zero.rows, zero.target_rows, zero.missing) == (4, 0, 1, 1, 0)
        assert (first.records, first.bad_records, first.rows, first.target_rows, first.missing) == (2, 1, 1, 1, 0)
        assert (zero.target_first, zero.target_last) == (1, 1)
