"""A receipt by partition tells gaps that are the broker's own from rows that the target lacks."""

import pytest
from support.kafka.receipts import receipt_of

from backfill_core.positions.offsets import OffsetRange
from backfill_spark.rows.records.folding import folding
from backfill_spark.rows.records.parsing import parsing
from backfill_spark.rows.records.partition_sums import PlaceColumns, place_columns
from backfill_spark.rows.transform import Transform

RANGES = (OffsetRange("0", 0, 10), OffsetRange("10", 0, 5), OffsetRange("2", 5, 9), OffsetRange("0", 20, 22))
NUMBER = "cast(value AS int) AS number"


@pytest.fixture(scope="module")
def records(spark):
    """Partition 0 has six records at twelve offsets, one of them bad; partition 2 has four, partition 10 none."""
    rows = [(0, 0, "7"), (0, 1, "8"), (0, 4, "none"), (0, 8, "9"), (0, 20, "0"), (0, 21, "1")]
    rows += [(2, offset, "5") for offset in range(5, 9)]
    return spark.createDataFrame(rows, "partition int, offset bigint, value string")


def receipts(records, transform, lost=()):
    """Return the receipts by partition, of a target without some offsets."""
    known = parsing(transform, records.limit(0))
    target = known.apply(records)
    kept = place_columns(known)
    target = target if kept is None or not lost else target.where(f"{kept.offset} NOT IN ({', '.join(map(str, lost))})")
    return {one.partition: one for one in receipt_of(records, target, known, RANGES).partitions}


class TestGapsAreTold:
    """An offset without a record is nothing that the target could have."""

    def test_by_whose_they_are(self, records):
        """The broker's own are no loss; a row that is not in the target is one, wherever it is."""
        found = receipts(records, Transform(("partition", "offset", NUMBER)), lost=(8, 20))

        assert list(found) == ["0", "2", "10"]
        zero = found["0"]
        assert (zero.start, zero.stop, zero.offsets, zero.records, zero.gaps) == (0, 22, 12, 6, 6)
        assert (zero.first, zero.last, zero.bad_records, zero.rows) == (0, 21, 1, 5)
        assert (zero.target_rows, zero.target_first, zero.target_last, zero.missing) == (3, 0, 21, 2)
        assert (found["2"].gaps, found["2"].missing) == (0, 1)

    def test_of_a_partition_without_records(self, records):
        """Markers only: it has nothing, and lacks nothing."""
        ten = receipts(records, Transform(None))["10"]

        assert (ten.records, ten.gaps, ten.first, ten.target_rows, ten.missing) == (0, 5, None, 0, 0)

    def test_and_what_the_filter_leaves_out_is_no_row(self, records):
        """Whether the filter parses or not."""
        for where in ("offset < 8", "cast(value AS int) < 9"):
            zero = receipts(records, Transform(("partition", "offset", NUMBER), where))["0"]
            assert (zero.rows, zero.missing) == ((2, 0) if where.startswith("offset") else (4, 0))

    def test_as_far_as_the_target_keeps_the_places(self, records):
        """Under another name too; where it keeps none, the sums of the rows are all there is."""
        named = Transform(("`partition` AS p", "offset o", NUMBER))
        assert place_columns(named) == PlaceColumns("p", "o")
        assert receipts(records, named, lost=(8,))["0"].missing == 1

        assert receipts(records, Transform((NUMBER,)))["0"].missing is None


class TestAReceiptReadsOnce:
    """A topic may be large: one scan of each side tells the sums of the rows and those of the partitions."""

    @pytest.mark.parametrize("key", [(), ("partition", "offset")])
    def test_each_record_and_each_row(self, spark, records, key):
        """Counted where they are read; also where the last record of a key decides, and where bad ones are among them."""
        known = parsing(Transform(("partition", "offset", NUMBER), "offset <> 8"), records.limit(0))
        known = folding(known, records.limit(0), key) if key else known
        rows = known.apply(records)
        (ours, records_read), (theirs, rows_read) = counted(spark, records), counted(spark, rows)

        found = receipt_of(ours, theirs, known, RANGES, key)

        assert (found.equal, found.rows) == (True, len(rows.collect()))
        assert sum(one.records for one in found.partitions) == records_read.value == 10
        assert sum(one.target_rows for one in found.partitions) == rows_read.value


def counted(spark, frame):
    """Return the same rows, and how many of them were read."""
    read = spark.sparkContext.accumulator(0)

    def note(row):
        read.add(1)
        return row

    return spark.createDataFrame(frame.rdd.map(note), frame.schema), read
