"""How far the rows of each vnode are read, in the order of a key: one entry for each run of vnodes that are equally far."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from backfill_core.positions.key_order import KeyOrder, KeyPosition


@dataclass(frozen=True, slots=True)
class NotStarted:
    """No row is read."""


@dataclass(frozen=True, slots=True)
class UpTo:
    """The rows up to a position are read, that one included."""

    position: KeyPosition


@dataclass(frozen=True, slots=True)
class Completed:
    """Every row is read."""


Reached = NotStarted | UpTo | Completed

Span = tuple[int, int]
"""Vnodes `[first, stop)`."""


@dataclass(frozen=True, slots=True)
class KeySpace:
    """How rows are ordered, and which vnode one is of."""

    order: KeyOrder
    distribution: tuple[str, ...]
    """Columns of the source whose hash decides the vnode (R-ARR-16)."""

    vnodes: int


@dataclass(frozen=True, slots=True)
class VnodePositions:
    """One `Reached` for each vnode, run-length encoded; runs that are neighbours differ."""

    runs: tuple[tuple[int, Reached], ...]
    """(number of vnodes, how far they are), from vnode 0 on."""

    @classmethod
    def at_start(cls, vnodes: int) -> VnodePositions:
        """Return the positions before any row is read."""
        return cls(((vnodes, NotStarted()),))

    @classmethod
    def of(cls, reached: Iterable[Reached]) -> VnodePositions:
        """Return positions, one after the other from vnode 0 on."""
        return cls(tuple((sum(1 for _ in run), one) for one, run in groupby(reached)))

    # -------------------------------------------------------------- what there is
    @property
    def vnodes(self) -> int:
        """Return the number of vnodes."""
        return sum(count for count, _ in self.runs)

    @property
    def complete(self) -> bool:
        """Is every row of every vnode read?"""
        return all(isinstance(one, Completed) for _, one in self.runs)

    @property
    def started(self) -> bool:
        """May a row have been read?"""
        return any(not isinstance(one, NotStarted) for _, one in self.runs)

    def groups(self) -> dict[Reached, tuple[Span, ...]]:
        """Return which vnodes are how far."""
        found: dict[Reached, tuple[Span, ...]] = {}
        first = 0
        for count, reached in self.runs:
            found[reached] = (*found.get(reached, ()), (first, first + count))
            first += count
        return found

    # -------------------------------------------------------------- moving
    def moved(self, spans: Iterable[Span], reached: Reached) -> VnodePositions:
        """Return the positions once the vnodes of some spans are so far."""
        runs: list[tuple[int, Reached]] = []
        moved = deque(sorted(spans))
        at = stop = 0
        for count, before in self.runs:
            stop += count
            while at < stop:
                while moved and moved[0][1] <= at:
                    moved.popleft()
                start, end = moved[0] if moved else (stop, stop)
                inside = start <= at
                edge = min(stop, end if inside else start)
                runs.append((edge - at, reached if inside else before))
                at = edge
        merged = ((one, [count for count, _ in run]) for one, run in groupby(runs, key=lambda run: run[1]))
        return VnodePositions(tuple((sum(counts), one) for one, counts in merged))

    # -------------------------------------------------------------- JSON
    def to_json(self, order: KeyOrder) -> list[list[Any]]:
        """Return the stored form: `[count]`, `[count, position]` or `[count, "Completed"]` a run."""
        return [[count, *_reached_to_json(one, order)] for count, one in self.runs]

    @classmethod
    def from_json(cls, value: Any, order: KeyOrder) -> VnodePositions:
        """Read what `to_json` returned.

        Raises:
            ValueError: it is something else.
        """
        if not isinstance(value, list) or not value:
            raise ValueError(f"not positions of vnodes: {value!r}")
        return cls(tuple(_run(one, order) for one in value))


@dataclass(frozen=True, slots=True)
class KeyBound:
    """The rows that a target holds while history is being read: those at or before the position of their vnode."""

    space: KeySpace
    positions: VnodePositions


def _reached_to_json(reached: Reached, order: KeyOrder) -> list[Any]:
    match reached:
        case NotStarted():
            return []
        case UpTo(position=position):
            return [order.encode(position)]
        case Completed():
            return ["Completed"]


def _run(value: Any, order: KeyOrder) -> tuple[int, Reached]:
    match value:
        case [int(count)] if count > 0:
            return count, NotStarted()
        case [int(count), "Completed"] if count > 0:
            return count, Completed()
        case [int(count), position] if count > 0:
            return count, UpTo(order.decode(position))
        case _:
            raise ValueError(f"not a run of vnodes: {value!r}")
