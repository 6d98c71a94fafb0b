"""Warnings that a single Backfill cannot determine: shared targets, and fields that the API server dropped."""

from __future__ import annotations

from collections.abc import Callable

from backfill_core.lifecycle.actions import EventNote
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.kube.event_recorder import EventRecorder
from backfill_operator.kube.resources import Raw

FEW = 3
"""Maximum number of other Backfills that a status names. With more, each new one would rewrite the status of all, and
thousands with one target would starve every other Backfill."""

MANY = f"more than {FEW} other Backfills"


class SharedTargets:
    """Finds the Backfills that write the same table, and enqueues those whose list of other Backfills changes."""

    def __init__(self, cache: Cache, events: EventRecorder, enqueue: Callable[[Key], None]) -> None:
        """Take the parts.

        Args:
            cache: Holds the targets of all Backfills.
            events: Records Kubernetes events.
            enqueue: Requests a reconcile of another Backfill.
        """
        self._cache = cache
        self._events = events
        self._enqueue = enqueue
        self._targets: dict[Key, str] = {}
        self._writers: dict[str, frozenset[Key] | None] = {}
        """The writers of each target at the last reconcile; `None` if there are more than `FEW` others."""

        self._warned: dict[Key, object] = {}
        """Generation of each Backfill whose dropped fields were reported."""

    def of(self, key: Key) -> tuple[str, ...]:
        """Return the other writers of the same target, with only the names that users of this namespace may see."""
        target = self._cache.target(key)
        self._note(key, target)
        writers = self._few(target)
        if writers is None:
            return (MANY,)
        # Users of this namespace may not be allowed to see names of another one.
        others = sorted(writers - {key})
        return tuple(writer[1] if writer[0] == key[0] else "a Backfill of another namespace" for writer in others)

    def warn_of_pruned_fields(self, key: Key, raw: Raw) -> None:
        """Report the applied fields that the API server dropped, once for each generation."""
        pruned, generation = self._cache.index(key).pruned, raw["metadata"].get("generation")
        if pruned and self._warned.get(key) != generation:
            message = f"{', '.join(pruned)}: unknown, so the API server dropped it; kubectl apply --validate=strict refuses it"
            self._events.note(raw, EventNote("Warning", "FieldIgnored", message))
            self._warned[key] = generation

    def forget(self, key: Key) -> None:
        """Drop a deleted Backfill."""
        self._note(key, None)
        self._warned.pop(key, None)

    def _note(self, key: Key, target: str | None) -> None:
        """Record a Backfill's target; enqueue the other Backfills whose list of writers changes."""
        for table in {self._targets.pop(key, None), target} - {None}:
            assert table is not None
            before, now = self._writers.pop(table, frozenset()), self._few(table)
            if now is None or now:
                self._writers[table] = now
            if before != now:
                for other in ((before or frozenset()) | (now or frozenset())) - {key}:
                    self._enqueue(other)
        if target is not None:
            self._targets[key] = target

    def _few(self, target: str | None) -> frozenset[Key] | None:
        """Return the writers of a target; `None` if there are more than `FEW` others."""
        writers = () if target is None else self._cache.writers(target)
        return frozenset(writers) if len(writers) <= FEW + 1 else None
