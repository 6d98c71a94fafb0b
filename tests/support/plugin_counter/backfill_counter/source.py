"""Partitions of numbers: the number at an offset is the offset. A file contains the counts, which may grow."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from backfill_core.errors import SourceNotFoundError
from backfill_core.positions.offsets import OffsetRange, Offsets, Subscribed
from backfill_core.protocol.events import Head
from backfill_spark.ports.source import SourcePlugin

from .contract import CounterSource


class Counter:
    """The partitions of one job; they only grow."""

    def __init__(self, spark, path: str) -> None:
        """Take the path of the file."""
        self._spark = spark
        self.path = path

    @property
    def _highs(self) -> dict[str, int]:
        try:
            return json.loads(Path(self.path).read_text())
        except FileNotFoundError:
            raise SourceNotFoundError(f"there is no counter at {self.path}.", hint="Make it.") from None

    def head(self) -> Head:
        """See `Source`."""
        return Head(self._highs, time.time_ns() // 1_000_000)

    def check_kept(self, after: Offsets, head: Head) -> None:
        """Accept every position: it keeps all numbers."""

    def kept_seconds(self) -> int | None:
        """Return `None`: it keeps all numbers."""
        return None

    def subscribe(self, after: Offsets | None) -> Subscribed:
        """See `SupportsOffsets`."""
        return Subscribed(dict.fromkeys(self._highs, 0), self._highs)

    def read_offsets(self, ranges: Sequence[OffsetRange]):
        """See `SupportsOffsets`; the value of a record is its number as a string, and every seventh one is unparsable."""
        value = "cast(if(id % 7 = 3, concat('no ', id), cast(id AS string)) AS binary) AS value"
        frames = [
            self._spark.range(range_.start, range_.stop, 1, 1).selectExpr(
                f"'{range_.partition}' AS partition", "id AS offset", "id AS number", value
            )
            for range_ in [*ranges, OffsetRange("none", 0, 0)]
        ]
        return reduce(lambda left, right: left.unionAll(right), frames)

    def explain_failure(self, error: Exception) -> None:
        """Return `None`: it has no specific failures."""


def _open(spark, spec):
    assert isinstance(spec.params, CounterSource)
    return Counter(spark, spec.params.path)


def _format_offsets(position: Offsets) -> str:
    return "offsets " + " ".join(f"{name}:{offset}" for name, offset in sorted(position.items()))[:200]


SOURCE = SourcePlugin(name="Counter", open=_open, code=lambda: Counter, format_position=_format_offsets)
