"""Limits the number of concurrent drivers, in total and in each namespace; a Backfill without a slot waits in a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from backfill_api.amounts import counted
from backfill_core.lifecycle.inputs.driver_line import Line, has_turn
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.settings import OperatorSettings

DELETIONS_BEYOND: Final = 1
"""Drivers of deleted Backfills that may run in a namespace although the limits are reached: drivers that follow a source free no slot."""


class DriverSlots:
    """Counts recorded attempts and reserved slots; a free slot goes to the highest priority, then to the longest wait.

    A Backfill that could not use its turn keeps its place in the line. It is passed over until its next decision. A deleted Backfill
    waits in a second line too: without a free slot, the first one of each namespace starts beyond the limits.
    """

    def __init__(self, cache: Cache, settings: OperatorSettings, enqueue: Callable[[Key], None]) -> None:
        """Take the limits.

        Args:
            cache: Counts the recorded attempts.
            settings: The limits.
            enqueue: Requests a reconcile of a Backfill that waited.
        """
        self._cache = cache
        self._in_all = settings.max_drivers
        self._in_namespace = settings.max_drivers_per_namespace
        self._enqueue = enqueue
        self._reserved: dict[Key, bool] = {}
        """Backfills whose launch is decided but not recorded yet; true for a deleted one."""

        self._line = Line()
        self._deletions = Line()
        """The deleted Backfills of the line."""

        self._undecided: set[Key] = set()
        """Backfills in a reconcile that has made no decision yet."""

        self._passed_over: set[Key] = set()
        """Backfills in the line whose last turn had no result: no decision, or no record of the launch."""

    @property
    def passed_over(self) -> frozenset[Key]:
        """Backfills in the line that are currently passed over."""
        return frozenset(self._passed_over)

    @contextmanager
    def turn(self, key: Key) -> Iterator[None]:
        """Hold a Backfill's turn during its reconcile; without a decision, the next in the line gets the turn."""
        self._undecided.add(key)
        try:
            yield
        finally:
            if key in self._undecided:
                self._undecided.discard(key)
                self._pass_over(key)

    def no_room(self, key: Key, priority: int = 0, *, deleted: bool = False) -> str:
        """Return why a Backfill cannot have a driver now; empty if it can, or if it has one."""
        if not (self._in_all or self._in_namespace):
            return ""
        if key in self._reserved or self._cache.has_active_attempt(key):
            return ""
        full = self._no_slot(key, priority)
        if not full or not deleted:
            return full
        served = self._deletions.served(None, self._free_for_deletions, self._skipped)
        if has_turn(self._deletions.place(key, priority), served, None, self._free_for_deletions(key[0])):
            return ""
        return f"{full}, and beyond it only {counted(DELETIONS_BEYOND, 'deleted Backfill')} of a namespace may have a driver: another one is first"

    def _no_slot(self, key: Key, priority: int) -> str:
        total, own = self._free_in_all(), self._free_in(key[0])
        if own is not None and own <= 0:
            return (
                f"the operator's limit of {counted(self._in_namespace, 'running driver')} in this namespace is reached"
            )
        if total is not None and total <= 0:
            return f"the operator's limit of {counted(self._in_all, 'running driver')} is reached"
        served = self._line.served(total, self._free_in, self._skipped)
        if has_turn(self._line.place(key, priority), served, total, own):
            return ""
        return "the next free driver is for a Backfill with a higher priority, or one that has waited longer"

    def note(self, key: Key, *, waits: bool, priority: int = 0, deleted: bool = False) -> None:
        """Keep a Backfill's turn while it waits for a slot.

        A Backfill that needs no driver has no turn. Otherwise thousands of finished ones would delay the next launch.
        """
        self._decided(key)
        if waits:
            self._line.join(key, priority)
            if deleted:
                self._deletions.join(key, priority)
        else:
            self._line.leave(key)
            self._deletions.leave(key)

    def reserve(self, key: Key, *, deleted: bool = False) -> None:
        """Reserve a slot until the attempt is recorded, because other Backfills decide meanwhile; keep the place."""
        self._decided(key)
        self._reserved[key] = deleted

    def release(self, key: Key) -> None:
        """End the reservation, whether the attempt was recorded or not; offer free slots."""
        if key in self._reserved:
            del self._reserved[key]
            if self._cache.has_active_attempt(key):
                self.note(key, waits=False)
            else:
                self._pass_over(key)
        self.offer()

    def forget(self, key: Key) -> None:
        """Drop a Backfill that is deleted or at rest; offer free slots."""
        self.note(key, waits=False)
        self.offer()

    def offer(self) -> None:
        """Enqueue waiting Backfills, one for each free slot."""
        total = self._free_in_all()
        first = self._line.served(total, self._free_in, self._skipped) if total is None or total > 0 else ()
        deleted = self._deletions.served(None, self._free_for_deletions, self._skipped)
        for key in dict.fromkeys(place.key for place in (*first, *deleted)):
            self._enqueue(key)

    def _skipped(self, key: Key) -> bool:
        return key in self._passed_over

    def _decided(self, key: Key) -> None:
        self._undecided.discard(key)
        self._passed_over.discard(key)

    def _pass_over(self, key: Key) -> None:
        """Give the turn of a Backfill in the line to the next one; the queue retries this Backfill anyway."""
        if key in self._line:
            self._passed_over.add(key)
            self.offer()

    def _free_in_all(self) -> int | None:
        """Return the free slots of all namespaces together; `None` without such a limit."""
        return self._in_all - self._used(None) if self._in_all else None

    def _free_in(self, namespace: str) -> int | None:
        """Return the free slots of a namespace; `None` without such a limit."""
        return self._in_namespace - self._used(namespace) if self._in_namespace else None

    def _free_for_deletions(self, namespace: str) -> int:
        """Return how many more drivers of deleted Backfills may run in a namespace although the limits are reached."""
        reserved = [
            key
            for key, deleted in self._reserved.items()
            if deleted and key[0] == namespace and not self._cache.has_active_attempt(key)
        ]
        return DELETIONS_BEYOND - self._cache.active_closings(namespace) - len(reserved)

    def _used(self, namespace: str | None) -> int:
        unrecorded = [
            key for key in self._reserved if namespace in (None, key[0]) and not self._cache.has_active_attempt(key)
        ]
        return self._cache.active_attempts(namespace) + len(unrecorded)
