"""The line of Backfills that wait for a driver: by priority, then by the time of arrival."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

Key = tuple[str, str]
"""Namespace and name."""


class Place(NamedTuple):
    """A place in the line. Places compare in the order of launches: the higher priority first, then the earlier arrival."""

    rank: int
    """The priority with its sign changed."""

    number: float
    """Number of the arrival; infinity for a Backfill that has not joined the line."""

    key: Key


class Line:
    """The waiting Backfills of each namespace, in order. Joining and leaving keep the other places."""

    def __init__(self) -> None:
        """Start empty."""
        self._places: dict[Key, Place] = {}
        self._ordered: dict[str, list[Place]] = {}
        self._arrivals = 0

    def __contains__(self, key: object) -> bool:
        """Return whether a Backfill waits."""
        return key in self._places

    def join(self, key: Key, priority: int) -> None:
        """Add a Backfill. One that waits keeps its arrival, and moves if its priority has changed."""
        before = self._places.get(key)
        if before is not None and before.rank == -priority:
            return
        self.leave(key)
        if before is None:
            self._arrivals += 1
        place = Place(-priority, self._arrivals if before is None else before.number, key)
        self._places[key] = place
        insort(self._ordered.setdefault(key[0], []), place)

    def leave(self, key: Key) -> None:
        """Remove a Backfill, if it waits."""
        place = self._places.pop(key, None)
        if place is None:
            return
        ordered = self._ordered[key[0]]
        del ordered[bisect_left(ordered, place)]
        if not ordered:
            del self._ordered[key[0]]

    def place(self, key: Key, priority: int) -> Place:
        """Return the place of a Backfill; the last one of its priority if it has not joined."""
        before = self._places.get(key)
        return Place(-priority, float("inf") if before is None else before.number, key)

    def served(
        self, total: int | None, of: Callable[[str], int | None], skipped: Callable[[Key], bool]
    ) -> Iterator[Place]:
        """Yield the Backfills that get a free slot, in the order of launches.

        Args:
            total: Free slots in all namespaces; `None` if they have no limit.
            of: Returns the free slots of a namespace; `None` if it has no limit.
            skipped: Returns whether a Backfill is passed over.
        """
        waiting = (
            islice((place for place in places if not skipped(place.key)), _at_least_0(of(namespace)))
            for namespace, places in self._ordered.items()
        )
        yield from islice(heapq.merge(*waiting), _at_least_0(total))


def has_turn(place: Place, served: Iterator[Place], total: int | None, own: int | None) -> bool:
    """Return whether a slot is left for a Backfill after those that are served before it.

    Args:
        place: The place of the Backfill.
        served: The Backfills that get a slot, in order.
        total: Free slots in all namespaces; `None` if they have no limit.
        own: Free slots of its namespace; `None` if it has no limit.
    """
    for other in served:
        if other >= place:
            break
        if total is not None:
            total -= 1
        if own is not None and other.key[0] == place.key[0]:
            own -= 1
    return all(free is None or free > 0 for free in (total, own))


def _at_least_0(free: int | None) -> int | None:
    return None if free is None else max(0, free)
