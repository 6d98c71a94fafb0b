"""What concerns more than one Backfill, or none of its fields: who else writes its target, and what of it was dropped."""

from __future__ import annotations

from collections.abc import Callable

from backfill_core.lifecycle.actions import EventNote
from backfill_operator.informer.cache import Cache, Key
from backfill_operator.kube.event_recorder import EventRecorder
from backfill_operator.kube.resources import Raw

FEW = 3
"""So many others are told by name. Of more it is told that they are more: else each that is made or goes would have all of
them looked at and written, and whoever makes thousands of one target would keep the operator from everybody else's."""

MANY = f"more than {FEW} other Backfills"


class SharedTargets:
    """Knows who writes the same table; those whose words change by one that is new or gone are looked at too."""

    def __init__(self, cache: Cache, events: EventRecorder, enqueue: Callable[[Key], None]) -> None:
        """Take the hands.

        Args:
            cache: Knows the targets of all.
            events: Who tells people.
            enqueue: Has another Backfill looked at.
        """
        self._cache = cache
        self._events = events
        self._enqueue = enqueue
        self._targets: dict[Key, str] = {}
        self._writers: dict[str, frozenset[Key] | None] = {}
        """Who wrote a target when it was looked at last; None: too many to be told by name."""

        self._warned: dict[Key, object] = {}
        """Of which generation it was told what was dropped."""

    def of(self, key: Key) -> tuple[str, ...]:
        """Return who writes the same target, as the people of this namespace may be told."""
        target = self._cache.target(key)
        self._note(key, target)
        writers = self._few(target)
        if writers is None:
            return (MANY,)
        # Names of another namespace are nobody's business here.
        others = sorted(writers - {key})
        return tuple(one[1] if one[0] == key[0] else "a Backfill of another namespace" for one in others)

    def warn_of_pruned_fields(self, key: Key, raw: Raw) -> None:
        """Say once which fields of what was applied the API server dropped without a word."""
        pruned, generation = self._cache.index(key).pruned, raw["metadata"].get("generation")
        if pruned and self._warned.get(key) != generation:
            words = f"{', '.join(pruned)}: unknown, so the API server dropped it; kubectl apply --validate=strict refuses it"
            self._events.note(raw, EventNote("Warning", "FieldIgnored", words))
            self._warned[key] = generation

    def forget(self, key: Key) -> None:
        """Take that a Backfill is gone."""
        self._note(key, None)
        self._warned.pop(key, None)

    def _note(self, key: Key, target: str | None) -> None:
        """Take what a Backfill writes; have those looked at who are to be told others than before, never more than a few."""
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
        """Return who writes a target; None: too many to be told by name."""
        writers = () if target is None else self._cache.writers(target)
        return frozenset(writers) if len(writers) <= FEW + 1 else None
