"""The other Backfills that a Backfill waits for, and the wake-up of those that wait for it."""

from __future__ import annotations

from collections.abc import Callable

from backfill_api.spec.spec import BackfillSpec
from backfill_core.lifecycle.inputs.dependencies import ObservedDependency, cycle_through
from backfill_core.lifecycle.observation import SpecRefused
from backfill_operator.informer.cache import Cache, Key

Facts = tuple[bool, str, str, tuple[str, ...], tuple[str, ...]]


class Dependencies:
    """Observes dependencies in the cache, and enqueues the Backfills that wait for one that changes."""

    def __init__(self, cache: Cache, enqueue: Callable[[Key], None]) -> None:
        """Take the cache and the queue."""
        self._cache = cache
        self._enqueue = enqueue
        self._announced: dict[Key, Facts] = {}
        """Facts of each Backfill that others wait for, when they were last enqueued."""

    def of(self, key: Key, spec: BackfillSpec | SpecRefused) -> tuple[ObservedDependency, ...]:
        """Return the dependencies of a Backfill as last seen."""
        entries = () if isinstance(spec, SpecRefused) else spec.depends_on
        return tuple(self._observed((key[0], entry.name), entry.condition) for entry in entries)

    def cycle(self, key: Key) -> tuple[str, ...]:
        """Return the cycle through a Backfill; empty if there is none."""
        if not self._cache.index(key).depends_on:
            return ()
        return cycle_through(key[1], lambda name: self._cache.index((key[0], name)).depends_on)

    def announce(self, key: Key) -> None:
        """Enqueue the Backfills that wait for this one if a fact has changed that they read."""
        waiting = self._cache.dependents(key)
        if not waiting:
            self._announced.pop(key, None)
            return
        index = self._cache.index(key)
        # A running Backfill changes its reason often, and no decision depends on it.
        reason = index.reason if index.phase in ("", "Pending", "Failed") else ""
        facts = (self._cache.exists(key), index.phase, reason, index.reached, self.cycle(key))
        if self._announced.get(key) != facts:
            self._announced[key] = facts
            for other in tuple(waiting):
                if other != key:
                    self._enqueue(other)

    def _observed(self, key: Key, condition: str) -> ObservedDependency:
        if not self._cache.exists(key):
            return ObservedDependency(key[1], condition)
        index = self._cache.index(key)
        return ObservedDependency(key[1], condition, index.phase, index.reason, condition in index.reached)
