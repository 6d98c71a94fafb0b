"""A receipt by partition separates the broker's own gaps from rows that the target lacks."""

import pytest
from support.kafka.receipts import receipt_of

from backfill_core.positions.offsets import OffsetRange
from backfill_spark.receipts.partition_sums import PlaceColumns, place_columns
from backfill_spark.records.folding import folding
from backfill_spark.records.parsing import parsing
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
    """Return the receipts by partition for a target without some offsets."""
    parsed = parsing(transform, records.limit(0))
    target = parsed.apply(records)
    kept = place_columns(parsed)
    target = target if kept is None or not lost else target.where(f"{kept.offset} NOT IN ({', '.join(map(str, lost))})")
    return {partition.partition: partition for partition in receipt_of(records, target, parsed, RANGES).partitions}


class TestGapsAreTold:
    """An offset without a record is no row that the target could have."""

    def test_gaps_of_the_broker_differ_from_missing_rows(self, records):
        """The broker's gaps are no loss. A row that the target lacks is one, in any partition."""
        sums = receipts(records, Transform(("partition", "offset", NUMBER)), lost=(8, 20))

        assert list(sums) == ["0", "2", "10"]
        zero = sums["0"]
        assert (zero.start, zero.stop, zero.offsets, zero.records, zero.gaps) == (0, 22, 12, 6, 6)
        assert (zero.first, zero.last, zero.bad_records, zero.rows) == (0, 21, 1, 5)
        assert (zero.target_rows, zero.target_first, zero.target_last, zero.missing) == (3, 0, 21, 2)
        assert (sums["2"].gaps, sums["2"].missing) == (0, 1)

    def test_a_partition_without_records_lacks_nothing(self, records):
        """It has only markers."""
        ten = receipts(records, Transform(None))["10"]

        assert (ten.records, ten.gaps, ten.first, ten.target_rows, ten.missing) == (0, 5, None, 0, 0)

    def test_rows_that_the_filter_drops_are_not_missing(self, records):
        """The filter may parse the payload or not."""
        for where in ("offset < 8", "cast(value AS int) < 9"):
            zero = receipts(records, Transform(("partition", "offset", NUMBER), where))["0"]
            assert (zero.rows, zero.missing) == ((2, 0) if where.startswith("offset") else (4, 0))

    def test_missing_rows_are_counted_if_the_target_keeps_the_offsets(self, records):
        """The columns may have another name. Without them, only the sums of the rows are compared."""
        named = Transform(("`partition` AS p", "offset o", NUMBER))
        assert place_columns(named) == PlaceColumns("p", "o")
        assert receipts(records, named, lost=(8,))["0"].missing == 1

        assert receipts(records, Transform((NUMBER,)))["0"].missing is None


class TestAReceiptReadsOnce:
    """A topic may be large: one scan of each side gives the sums of the rows and of the partitions."""

    @pytest.mark.parametrize("key", [(), ("partition", "offset")])
    def test_a_receipt_reads_each_record_and_each_row_once(self, spark, records, key):
        """They are counted while they are read, also if the last record of a key decides and some records are bad."""
        transform = parsing(Transform(("partition", "offset", NUMBER), "offset <> 8"), records.limit(0))
        transform = folding(transform, records.limit(0), key) if key else transform
        rows = transform.apply(records)
        (source, records_read), (target, rows_read) = counted(spark, records), counted(spark, rows)

        receipt = receipt_of(source, target, transform, RANGES, key)

        assert (receipt.equal, receipt.rows) == (True, len(rows.collect()))
        assert sum(partition.records for partition in receipt.partitions) == records_read.value == 10
        assert sum(partition.target_rows for partition in receipt.partitions) == rows_read.value


def counted(spark, frame):
    """Return the same rows, and a counter of the rows that were read."""
    read = spark.sparkContext.accumulator(0)

    def note(row):
        read.add(1)
        return row

    return spark.createDataFrame(frame.rdd.map(note), frame.schema), read
