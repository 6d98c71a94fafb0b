"""Partitions of numbers: the number at an offset is the offset."""

from __future__ import annotations

from backfill_counter.contract import CounterSource
from backfill_spark.sources import SourcePlugin


class Counter:
    """The partitions of one job; they only grow."""

    path = "counter:"

    def __init__(self, partitions: int) -> None:
        """Begin with ten numbers in each partition."""
        self.highs = dict.fromkeys(range(partitions), 10)

    def read(self, partition: int, start: int, stop: int) -> list[tuple[int, int]]:
        """Return (partition, number) at the offsets `[start, stop)`, in their order."""
        return [(partition, number) for number in range(start, min(stop, self.highs[partition]))]


def _open(spark, spec):
    assert isinstance(spec.params, CounterSource)
    return Counter(spec.params.partitions)


SOURCE = SourcePlugin(name="Counter", open=_open)
