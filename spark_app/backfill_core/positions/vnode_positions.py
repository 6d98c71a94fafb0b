"""Progress of the rows of each vnode in the order of a key: one entry for each run of vnodes with equal progress."""

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
    """The rows up to and including a position are read."""

    position: KeyPosition


@dataclass(frozen=True, slots=True)
class Completed:
    """Every row is read."""


Reached = NotStarted | UpTo | Completed

Span = tuple[int, int]
"""Vnodes `[first, stop)`."""


@dataclass(frozen=True, slots=True)
class KeySpace:
    """Order of rows, and their distribution to vnodes."""

    order: KeyOrder
    distribution: tuple[str, ...]
    """Columns of the source whose hash decides the vnode (R-ARR-16)."""

    vnodes: int


@dataclass(frozen=True, slots=True)
class VnodePositions:
    """One `Reached` for each vnode, run-length encoded; adjacent runs differ."""

    runs: tuple[tuple[int, Reached], ...]
    """(number of vnodes, their progress), from vnode 0 on."""

    @classmethod
    def at_start(cls, vnodes: int) -> VnodePositions:
        """Return the positions before any row is read."""
        return cls(((vnodes, NotStarted()),))

    @classmethod
    def of(cls, reached: Iterable[Reached]) -> VnodePositions:
        """Return positions from the progress of each vnode, in order from vnode 0."""
        return cls(tuple((sum(1 for _ in run), progress) for progress, run in groupby(reached)))

    # -------------------------------------------------------------- state
    @property
    def vnodes(self) -> int:
        """Return the number of vnodes."""
        return sum(count for count, _ in self.runs)

    @property
    def complete(self) -> bool:
        """True if every row of every vnode is read."""
        return all(isinstance(progress, Completed) for _, progress in self.runs)

    @property
    def started(self) -> bool:
        """True if a row may have been read."""
        return any(not isinstance(progress, NotStarted) for _, progress in self.runs)

    def groups(self) -> dict[Reached, tuple[Span, ...]]:
        """Return the vnodes by progress."""
        groups: dict[Reached, tuple[Span, ...]] = {}
        first = 0
        for count, reached in self.runs:
            groups[reached] = (*groups.get(reached, ()), (first, first + count))
            first += count
        return groups

    # -------------------------------------------------------------- moving
    def moved(self, spans: Iterable[Span], reached: Reached) -> VnodePositions:
        """Return the positions once the vnodes of some spans have the given progress."""
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
        merged = ((progress, [count for count, _ in run]) for progress, run in groupby(runs, key=lambda run: run[1]))
        return VnodePositions(tuple((sum(counts), progress) for progress, counts in merged))

    # -------------------------------------------------------------- JSON
    def to_json(self, order: KeyOrder) -> list[list[Any]]:
        """Return the stored form: `[count]`, `[count, position]` or `[count, "Completed"]` for each run."""
        return [[count, *_reached_to_json(progress, order)] for count, progress in self.runs]

    @classmethod
    def from_json(cls, value: Any, order: KeyOrder) -> VnodePositions:
        """Read the output of `to_json`.

        Raises:
            ValueError: the value is not a list of runs.
        """
        if not isinstance(value, list) or not value:
            raise ValueError(f"not positions of vnodes: {value!r}")
        return cls(tuple(_run(run, order) for run in value))


@dataclass(frozen=True, slots=True)
class KeyBound:
    """Bound of the rows in a target while history is being read: those at or before the position of their vnode."""

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
