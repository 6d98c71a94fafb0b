"""Positions of a source, as spans on named axes: those that a state holds, and those that a piece of work takes."""

from __future__ import annotations

from dataclasses import dataclass

Span = tuple[str, int, int]
"""Axis, first position, position after the last one."""


@dataclass(frozen=True, slots=True)
class Region:
    """A set of positions; its spans are not empty and do not overlap."""

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, *spans: Span) -> Region:
        """Return the region of some spans, the empty ones left out."""
        return cls(tuple(span for span in spans if span[1] < span[2]))

    @property
    def size(self) -> int:
        """Return the number of positions."""
        return sum(stop - start for _, start, stop in self.spans)

    def common(self, other: Region) -> int:
        """Return the number of positions that both regions have."""
        by_axis: dict[str, list[tuple[int, int]]] = {}
        for axis, start, stop in other.spans:
            by_axis.setdefault(axis, []).append((start, stop))
        return sum(
            max(0, min(stop, other_stop) - max(start, other_start))
            for axis, start, stop in self.spans
            for other_start, other_stop in by_axis.get(axis, ())
        )

    def within(self, other: Region) -> bool:
        """Return whether the other region has every position of this one."""
        return self.common(other) == self.size
