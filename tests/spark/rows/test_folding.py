"""The last record of each key decides what a target with one row a key holds; what cannot be told is a bad record."""

import pytest
from support.kafka.receipts import receipt_of

from backfill_core.errors import DuplicateKeyError, InvalidTransformError
from backfill_core.positions.offsets import OffsetRange
from backfill_spark.rows.changes import ADD, DELETE, check_net_changes
from backfill_spark.rows.records.folding import PARTITION, folding
from backfill_spark.rows.records.parsing import REASON, parsing
from backfill_spark.rows.transform import Transform

SHAPE = "partition int, offset bigint, key string, value string"
SELECT = ("CAST(key AS INT) AS id", "CAST(value AS INT) AS amount", "offset")


def transform_of(spark, select=SELECT, where=None, key=("id",)):
    """Return a transform that keeps the last record of each key."""
    empty = spark.createDataFrame([], SHAPE)
    return folding(parsing(Transform(select, where), empty), empty, key)


def folded(spark, rows, **given):
    """Return by key what its last record says: a row, or None where it is removed."""
    known = transform_of(spark, **given)
    found = known.folded(known.judged(spark.createDataFrame(rows, SHAPE))).collect()
    return {one["id"]: None if one[DELETE] else (one["amount"], one["offset"]) for one in found}


def reasons(spark, rows, **given):
    """Return the reason of each bad record, by offset."""
    known = transform_of(spark, **given)
    return {one["offset"]: one[REASON] for one in known.bad(known.judged(spark.createDataFrame(rows, SHAPE))).collect()}


class TestTheLastRecordOfAKey:
    """Compaction keeps it alone, so nothing else may count."""

    def test_decides(self, spark):
        """By its offset, in whatever order the rows come; a record without a value removes its key, for as long as it is the last."""
        rows = [
            (0, 7, "1", "70"),
            (0, 2, "1", "20"),
            (0, 3, "2", "30"),
            (0, 9, "2", None),
            (1, 4, "3", None),
            (1, 5, "3", "50"),
        ]

        assert folded(spark, rows) == {1: (70, 7), 2: None, 3: (50, 5)}

    def test_is_asked_by_the_filter(self, spark):
        """A record that does not pass takes the row of an older one away: else the result would depend on compaction."""
        rows = [(0, 1, "1", "10"), (0, 2, "1", "1"), (0, 3, "2", "1"), (0, 4, "2", "20"), (0, 5, "3", None)]

        for where in ("CAST(value AS INT) > 5", "length(value) > 1"):
            assert folded(spark, rows, where=where) == {1: None, 2: (20, 4), 3: None}

    def test_of_a_record_that_does_not_pass_the_key_alone_is_computed(self, spark):
        """A filter guards the expressions behind it."""
        select = (*SELECT[:1], "100 div CAST(value AS INT) AS amount", "offset")
        rows = [(0, 1, "1", "10"), (0, 2, "2", "0"), (0, 3, None, "0")]

        assert folded(spark, rows, select=select, where="CAST(value AS INT) <> 0") == {1: (10, 1), 2: None}

    def test_keeps_the_names_and_types_of_the_transform(self, spark):
        """A target is made of them."""
        known = transform_of(spark, select=("*", "upper(value)", "CAST(key AS INT) AS ID"), key=("ID",))
        plain = Transform(known.select).project(spark.createDataFrame([], SHAPE)).schema

        assert [(one.name, one.dataType) for one in known.apply(spark.createDataFrame([], SHAPE)).schema] == [
            (one.name, one.dataType) for one in plain
        ]

    def test_is_told_apart_by_all_columns_of_the_key(self, spark):
        """A key of two columns has one row for each pair."""
        known = transform_of(spark, select=("partition", "CAST(key AS INT) AS id", "value"), key=("id", "partition"))
        rows = [(0, 1, "1", "a"), (1, 1, "1", "b"), (0, 2, "1", "c")]

        found = known.apply(spark.createDataFrame(rows, SHAPE)).collect()
        assert sorted(map(tuple, found)) == [(0, 1, "c"), (1, 1, "b")]

    def test_is_unknown_of_a_key_in_several_partitions(self, spark):
        """Nothing orders them: the MERGE and the receipt refuse what they see."""
        known, records = transform_of(spark), spark.createDataFrame([(0, 1, "1", "10"), (1, 1, "1", "11")], SHAPE)
        net = known.folded(known.judged(records)).drop(PARTITION)

        assert [one[ADD] for one in net.collect()] == [2]
        with pytest.raises(DuplicateKeyError, match="has records in several partitions"):
            check_net_changes(net, ("id",), doubled="has records in several partitions")
        with pytest.raises(DuplicateKeyError, match="1 key with records in several partitions"):
            receipt_of(records, known.apply(records), known, [OffsetRange("0", 0, 2), OffsetRange("1", 0, 2)])


class TestARecordWithoutAKey:
    """Nothing tells which row it replaces or removes."""

    def test_is_bad(self, spark):
        """A null in the key, with a value or without; what a parser cannot read is bad as before."""
        rows = [
            (0, 0, "1", "10"),
            (0, 1, None, "10"),
            (0, 2, None, None),
            (0, 3, "x", None),
            (0, 4, "1", "y"),
            (0, 5, "2", None),
        ]

        said = reasons(spark, rows)

        assert said.keys() == {1, 2, 3, 4}
        assert said[1] == "the key column id is null."
        assert said[2] == "the record has no value, and the key column id is null: it must come from the record's key."
        assert said[3] == "spec.transform.select[0]: cast cannot read the payload."
        assert said[4] == "spec.transform.select[1]: cast cannot read the payload."
        assert folded(spark, rows) == {1: (10, 0), 2: None}

    def test_is_bad_where_the_key_comes_from_the_value(self, spark):
        """A tombstone has none, so it could remove nothing, and must not be passed over."""
        said = reasons(spark, [(0, 0, "1", "10"), (0, 1, "1", None)], select=("CAST(value AS INT) AS id", "key"))

        assert list(said) == [1]

    def test_is_left_out_where_the_filter_says_so(self, spark):
        """A user who knows of such records names them."""
        rows = [(0, 0, "1", "10"), (0, 1, None, "10"), (0, 2, None, None), (0, 3, "1", None)]

        assert reasons(spark, rows, where="key IS NOT NULL") == {}
        assert folded(spark, rows, where="key IS NOT NULL") == {1: None}
        # Of a record without a value the filter knows nothing: it must be told by its key.
        assert list(reasons(spark, rows, where="length(value) > 5")) == [2]


class TestATransformThatCannotBeFolded:
    """It is refused before anything is written."""

    def test_is_one_whose_expressions_need_each_other(self, spark):
        """The key of a record that does not pass is computed without the rest."""
        with pytest.raises(InvalidTransformError, match="uses the alias of another one"):
            transform_of(spark, select=("CAST(key AS INT) AS id", "id + 1 AS amount"))


class TestTheReceiptByPartition:
    """A row counts where its last record is."""

    def test_counts_keys(self, spark):
        """Six records, three keys, one of them removed."""
        known = transform_of(spark, select=("partition", *SELECT))
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
            records, known.apply(records), known, [OffsetRange("0", 0, 4), OffsetRange("1", 0, 6)], key=("id",)
        )
        zero, one = receipt.partitions

        assert (receipt.equal, receipt.rows) == (True, 2)

        assert (zero.records, zero.bad_records, zero.rows, zero.target_rows, zero.missing) == (4, 0, 1, 1, 0)
        assert (one.records, one.bad_records, one.rows, one.target_rows, one.missing) == (2, 1, 1, 1, 0)
        assert (zero.target_first, zero.target_last) == (1, 1)
