"""One partition of a topic: how far its history and its live side are.

state             holds                                       becomes
---------------   -----------------------------------------   ----------------------------------------------------------
Backfilling       `[start, next)` and `[end, live)`           SourceCachingUp once `next` is `end` (R-SRC-14, R-SRC-15)
SourceCachingUp   `[start, end)`, and nothing is new          Finished once the live side has moved (R-SRC-12, R-SRC-13)
Finished          `[start, live)`                             stays

`end` is the offset after the last one when the job was made: history ends there, and the live side begins there. So live
records of a partition that is being backfilled need not be hidden (R-SRC-8, R-SRC-9): they are not read as history too.
All are positions of the reader, whether there is a record before them or not (R-SRC-42).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

BACKFILLING, CATCHING_UP, FINISHED = "Backfilling", "SourceCachingUp", "Finished"


@dataclass(frozen=True, slots=True)
class Split:
    """How far a partition is: `start <= next <= end <= live`."""

    start: int
    next: int
    """The first offset of history that is missing; `end` when none is."""

    end: int
    live: int
    """The offset after the last one that was read as a new one."""

    records: int = 0
    """Records of history that were read."""

    @classmethod
    def at(cls, first: int, newest: int) -> Split:
        """Return a partition of which nothing is read; without history where it begins at its end (R-SRC-5, 6, 7)."""
        return cls(first, first, newest, newest)

    @classmethod
    def found_later(cls) -> Split:
        """Return a partition that was not there when the job was made: all of it is new, from its first offset on (R-SRC-2)."""
        return cls(0, 0, 0, 0)

    @property
    def state(self) -> str:
        """Its state by the rules."""
        if self.next < self.end:
            return BACKFILLING
        return CATCHING_UP if self.start < self.end == self.live else FINISHED

    @property
    def reached(self) -> int:
        """The offset before which the target holds everything, from `start` on."""
        return self.next if self.next < self.end else self.live

    @property
    def held(self) -> tuple[tuple[int, int], ...]:
        """The offsets that the target holds, `[start, stop)`; no interval is empty."""
        if self.next == self.end:
            spans: tuple[tuple[int, int], ...] = ((self.start, self.live),)
        else:
            spans = ((self.start, self.next), (self.end, self.live))
        return tuple(one for one in spans if one[0] < one[1])

    def with_history(self, stop: int, records: int) -> Split:
        """Return it after offsets of history were read, without a gap; records are counted, filtered ones too (R-SRC-17)."""
        return replace(self, next=stop, records=self.records + records)

    def with_live(self, stop: int) -> Split:
        """Return it after new offsets were read, without a gap."""
        return replace(self, live=stop)

    # -------------------------------------------------------------- JSON
    def to_json(self) -> dict[str, Any]:
        """Return the form of semantics 2.4 (R-SRC-44): the last offset that was emitted, the rows, and the last one to reach."""
        state = self.state
        last = None if self.next == self.start else str(self.next - 1)
        return {
            "state": state if state == FINISHED else {state: last},
            "num_consumed_rows": self.records,
            "target_offset": str(self.end - 1) if self.start < self.end else None,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], *, start: int, live: int) -> Split:
        """Read what `to_json` returned, offsets as numbers (R-SRC-20); start and live side are stored beside it.

        Raises:
            ValueError: it is no such value, or its offsets contradict each other.
        """
        try:
            state, records, target = value["state"], value["num_consumed_rows"], value["target_offset"]
            end = start if target is None else int(target) + 1
            kind, last = (state, None) if state == FINISHED else next(iter(state.items()))
            at = end if kind != BACKFILLING else start if last is None else int(last) + 1
            split = cls(start, at, max(end, start), live, records)
        except (KeyError, TypeError, AttributeError, StopIteration) as error:
            raise ValueError(f"no split: {value!r}"[:200]) from error
        split.check()
        if split.to_json() != value:
            raise ValueError(f"no split: {value!r}"[:200])
        return split

    def check(self) -> None:
        """Refuse numbers that contradict each other.

        Raises:
            ValueError: they do.
        """
        numbers = (self.start, self.next, self.end, self.live, self.records)
        ordered = 0 <= self.start <= self.next <= self.end <= self.live
        if (
            not all(type(one) is int for one in numbers)
            or not ordered
            or not 0 <= self.records <= self.next - self.start
        ):
            raise ValueError(f"no split: {numbers}")
