"""How many drivers may run at the same time, in all and in one namespace; whoever finds no room waits for his turn."""

from __future__ import annotations

from collections.abc import Callable

from backfill_operator.informer.cache import Cache, Key
from backfill_operator.settings import OperatorSettings


class DriverSlots:
    """Counts attempts on record, and those that are about to be; the first that came is the first that is told of room."""

    def __init__(self, cache: Cache, settings: OperatorSettings, enqueue: Callable[[Key], None]) -> None:
        """Take the limits.

        Args:
            cache: Knows which attempts are on record.
            settings: How many drivers there may be.
            enqueue: Has a Backfill looked at that waited.
        """
        self._cache = cache
        self._in_all = settings.max_drivers
        self._in_namespace = settings.max_drivers_per_namespace
        self._enqueue = enqueue
        self._reserved: set[Key] = set()
        """Slots that a reconcile has decided to use, and that are not on record yet."""

        self._waiting: dict[str, dict[Key, None]] = {}

    def no_room(self, key: Key) -> str:
        """Return why a Backfill may not have a driver now; empty: it may, or it has one."""
        if not (self._in_all or self._in_namespace):
            return ""
        waiting = self._waiting.get(key[0], {})
        if key in self._reserved or self._cache.has_active_attempt(key) or self._room(key[0]) > 0:
            waiting.pop(key, None)
            if not waiting:
                self._waiting.pop(key[0], None)
            return ""
        self._waiting.setdefault(key[0], {})[key] = None
        if self._in_namespace and self._used(key[0]) >= self._in_namespace:
            return (
                f"{self._in_namespace} drivers run in this namespace, which is as many as the operator may make there"
            )
        return f"{self._in_all} drivers run, which is as many as the operator may make"

    def reserve(self, key: Key) -> None:
        """Have a place before the attempt is on record: others decide meanwhile."""
        self._reserved.add(key)

    def release(self, key: Key) -> None:
        """Take that the attempt is on record, or will not be; tell whoever has room now."""
        self._reserved.discard(key)
        self.offer()

    def forget(self, key: Key) -> None:
        """Take that a Backfill is gone."""
        self._waiting.get(key[0], {}).pop(key, None)
        self.offer()

    def offer(self) -> None:
        """Have as many looked at as there is room for."""
        for namespace, waiting in self._waiting.items():
            room = self._room(namespace)
            for key in list(waiting)[: max(0, room)] if room > 0 else ():
                self._enqueue(key)

    def _room(self, namespace: str) -> int:
        rooms = []
        if self._in_all:
            rooms.append(self._in_all - self._used(None))
        if self._in_namespace:
            rooms.append(self._in_namespace - self._used(namespace))
        return min(rooms)

    def _used(self, namespace: str | None) -> int:
        about_to = [
            key for key in self._reserved if namespace in (None, key[0]) and not self._cache.has_active_attempt(key)
        ]
        return self._cache.active_attempts(namespace) + len(about_to)
