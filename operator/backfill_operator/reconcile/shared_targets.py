"""Warnings that no single Backfill can give: shared targets, and fields that the API server dropped."""

from __future__ import annotations

from collections.abc import Callable

from backfill_core.lifecycle.actions import EventNote
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.kube.event_recorder import EventRecorder
from backfill_operator.kube.resources import Raw

FEW = 3
"""The status names at most this many other Backfills. Beyond it, each new one would rewrite the status of all, and
thousands with one target would starve every other Backfill."""

MANY = f"more than {FEW} other Backfills"


class SharedTargets:
    """Finds the Backfills that write the same table, and enqueues those whose list of others changes."""

    def __init__(self, cache: Cache, events: EventRecorder, enqueue: Callable[[Key], None]) -> None:
        """Take the parts.

        Args:
            cache: Knows the targets of all Backfills.
            events: Records Kubernetes events.
            enqueue: Requests a reconcile of another Backfill.
        """
        self._cache = cache
        self._events = events
        self._enqueue = enqueue
        self._targets: dict[Key, str] = {}
        self._writers: dict[str, frozenset[Key] | None] = {}
        """The writers of each target at the last reconcile; None: too many to name."""

        self._warned: dict[Key, object] = {}
        """The generation whose dropped fields were reported."""

    def of(self, key: Key) -> tuple[str, ...]:
        """Return the other writers of the same target, as users of this namespace may see them."""
        target = self._cache.target(key)
        self._note(key, target)
        writers = self._few(target)
        if writers is None:
            return (MANY,)
        # Users of this namespace may not be allowed to see names of another one.
        others = sorted(writers - {key})
        return tuple(one[1] if one[0] == key[0] else "a Backfill of another namespace" for one in others)

    def warn_of_pruned_fields(self, key: Key, raw: Raw) -> None:
        """Report once for each generation which applied fields the API server dropped."""
        pruned, generation = self._cache.index(key).pruned, raw["metadata"].get("generation")
        if pruned and self._warned.get(key) != generation:
            message = f"{', '.join(pruned)}: unknown, so the API server dropped it; kubectl apply --validate=strict refuses it"
            self._events.note(raw, EventNote("Warning", "FieldIgnored", message))
            self._warned[key] = generation

    def forget(self, key: Key) -> None:
        """Drop a Backfill that is gone."""
        self._note(key, None)
        self._warned.pop(key, None)

    def _note(self, key: Key, target: str | None) -> None:
        """Record a Backfill's target; enqueue the few others whose list of writers changed by it."""
        for one in {self._targets.pop(key, None), target} - {None}:
            assert one is not None
            before, now = self._writers.pop(one, frozenset()), self._few(one)
            if now is None or now:
                self._writers[one] = now
            if before != now:
                for other in ((before or frozenset()) | (now or frozenset())) - {key}:
                    self._enqueue(other)
        if target is not None:
            self._targets[key] = target

    def _few(self, target: str | None) -> frozenset[Key] | None:
        """Return the writers of a target; None: too many to name."""
        writers = () if target is None else self._cache.writers(target)
        return frozenset(writers) if len(writers) <= FEW + 1 else None
