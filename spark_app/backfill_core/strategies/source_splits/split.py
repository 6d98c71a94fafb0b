"""Progress of one partition of a topic, for its history and its live side.

state             in the target                               next state
---------------   -----------------------------------------   ----------------------------------------------------------
Backfilling       `[start, next)` and `[end, live)`           SourceCachingUp once `next` is `end` (R-SRC-14, R-SRC-15)
SourceCachingUp   `[start, end)`; no new records              Finished once the live side has moved (R-SRC-12, R-SRC-13)
Finished          `[start, live)`                             final

`end` is the offset after the partition's last one when the job was created: history ends and the live side starts there. So live
records of a partition in Backfilling need not be hidden (R-SRC-8, R-SRC-9): history does not contain them.
All values are reader positions; offsets before them may have no record (R-SRC-42).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

BACKFILLING, CATCHING_UP, FINISHED = "Backfilling", "SourceCachingUp", "Finished"


@dataclass(frozen=True, slots=True)
class Split:
    """Positions of a partition: `start <= next <= end <= live`."""

    start: int
    next: int
    """The first missing offset of the history; `end` if none is missing."""

    end: int
    live: int
    """The offset after the last one that the live side read."""

    records: int = 0
    """Number of history records that were read."""

    @classmethod
    def at(cls, first: int, newest: int) -> Split:
        """Return an unread partition; it has no history if `first` is its end (R-SRC-5, 6, 7)."""
        return cls(first, first, newest, newest)

    @classmethod
    def found_later(cls) -> Split:
        """Return a partition created after the job: the live side reads it from its first offset (R-SRC-2)."""
        return cls(0, 0, 0, 0)

    @property
    def state(self) -> str:
        """Return the state of the partition."""
        if self.next < self.end:
            return BACKFILLING
        return CATCHING_UP if self.start < self.end == self.live else FINISHED

    @property
    def reached(self) -> int:
        """Return the offset up to which the target is complete, from `start`."""
        return self.next if self.next < self.end else self.live

    @property
    def held(self) -> tuple[tuple[int, int], ...]:
        """Return the intervals `[start, stop)` of offsets in the target; no interval is empty."""
        if self.next == self.end:
            spans: tuple[tuple[int, int], ...] = ((self.start, self.live),)
        else:
            spans = ((self.start, self.next), (self.end, self.live))
        return tuple((start, stop) for start, stop in spans if start < stop)

    def with_history(self, stop: int, records: int) -> Split:
        """Return the split after a gapless read of history; `records` includes filtered records (R-SRC-17)."""
        return replace(self, next=stop, records=self.records + records)

    def with_live(self, stop: int) -> Split:
        """Return the split after a gapless read of new offsets."""
        return replace(self, live=stop)

    # -------------------------------------------------------------- JSON
    def to_json(self) -> dict[str, Any]:
        """Return the JSON of semantics 2.4 (R-SRC-44): the last emitted offset, the number of rows, and the last offset to reach."""
        state = self.state
        last = None if self.next == self.start else str(self.next - 1)
        return {
            "state": state if state == FINISHED else {state: last},
            "num_consumed_rows": self.records,
            "target_offset": str(self.end - 1) if self.start < self.end else None,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], *, start: int, live: int) -> Split:
        """Parse the result of `to_json`, with numeric offsets (R-SRC-20); `start` and `live` are stored separately.

        Raises:
            ValueError: The value is malformed, or its offsets are inconsistent.
        """
        try:
            state, records, target = value["state"], value["num_consumed_rows"], value["target_offset"]
            end = start if target is None else int(target) + 1
            kind, last = (state, None) if state == FINISHED else next(iter(state.items()))
            at = end if kind != BACKFILLING else start if last is None else int(last) + 1
            split = cls(start, at, max(end, start), live, records)
        except (KeyError, TypeError, AttributeError, StopIteration) as error:
            raise ValueError(f"not a split: {value!r}"[:200]) from error
        split.check()
        if split.to_json() != value:
            raise ValueError(f"not a split: {value!r}"[:200])
        return split

    def check(self) -> None:
        """Refuse inconsistent numbers.

        Raises:
            ValueError: The numbers are inconsistent.
        """
        numbers = (self.start, self.next, self.end, self.live, self.records)
        ordered = 0 <= self.start <= self.next <= self.end <= self.live
        if (
            not all(type(number) is int for number in numbers)
            or not ordered
            or not 0 <= self.records <= self.next - self.start
        ):
            raise ValueError(f"not a split: {numbers}")
