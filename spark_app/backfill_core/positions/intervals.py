"""Sets of rows in the row index of the pinned version, as half-open intervals."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """A set of integers as sorted, disjoint, non-touching half-open spans."""

    spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, spans: Iterable[tuple[int, int]]) -> IntervalSet:
        """Return the set of the given intervals, which may touch, overlap, be empty, and have any order."""
        joined: list[tuple[int, int]] = []
        for start, stop in sorted(spans):
            if start >= stop:
                continue
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
            else:
                joined.append((start, stop))
        return cls(tuple(joined))

    def add(self, start: int, stop: int) -> IntervalSet:
        """Return the set with `[start, stop)` added; an empty interval changes nothing."""
        if start >= stop:
            return self
        # Spans that touch or overlap: those that end at or after `start` and begin at or before `stop`.
        first = bisect_left(self.spans, start, key=lambda span: span[1])
        last = bisect_right(self.spans, stop, key=lambda span: span[0])
        touched = self.spans[first:last]
        low = min(start, touched[0][0]) if touched else start
        high = max(stop, touched[-1][1]) if touched else stop
        return IntervalSet((*self.spans[:first], (low, high), *self.spans[last:]))

    @property
    def size(self) -> int:
        """Number of integers in the set."""
        return sum(stop - start for start, stop in self.spans)

    def gaps(self, start: int, stop: int) -> IntervalSet:
        """Return the part of `[start, stop)` that is not in the set."""
        missing: list[tuple[int, int]] = []
        at = start
        for low, high in self.spans[bisect_right(self.spans, start, key=lambda span: span[1]) :]:
            if low >= stop:
                break
            if at < low:
                missing.append((at, low))
            at = max(at, high)
        if at < stop:
            missing.append((at, stop))
        return IntervalSet(tuple(missing))

    def first_gap(self, start: int, stop: int) -> tuple[int, int] | None:
        """Return the lowest missing interval of `[start, stop)`; `None` if none is missing."""
        spans = self.gaps(start, stop).spans
        return spans[0] if spans else None

    def to_json(self) -> list[list[int]]:
        """Return the stored form."""
        return [list(span) for span in self.spans]

    @classmethod
    def from_json(cls, value: Any) -> IntervalSet:
        """Read the output of `to_json`.

        Raises:
            ValueError: it is not a list of pairs of integers, or spans are empty, overlap, touch, or are out of order.
        """
        wrong = ValueError(f"not an interval set: {value!r}")
        if not isinstance(value, list) or not all(isinstance(span, list) and len(span) == 2 for span in value):
            raise wrong
        ends = [end for span in value for end in span]
        if any(type(end) is not int for end in ends) or any(low >= high for low, high in pairwise(ends)):
            raise wrong
        return cls(tuple((start, stop) for start, stop in value))

    def __len__(self) -> int:
        """Return the number of spans, which determines the size of the stored form."""
        return len(self.spans)
