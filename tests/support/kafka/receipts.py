"""Receipts of the partitions of a topic, without a job."""

from backfill_spark.receipts.partition_sums import Tallies, tallied, target_tally
from backfill_spark.receipts.row_sums import take_receipt


def receipt_of(records, target, transform, ranges, key=()):
    """Compare records of some ranges with the rows of a target."""
    source, tally = tallied(records, transform)
    tallies = Tallies(tally, target_tally(transform), tuple(ranges))
    versions = {"source_version": None, "target_version": 1, "epoch": 1}
    return take_receipt(source, target, key=key, vnodes=16, tallies=tallies, **versions)
