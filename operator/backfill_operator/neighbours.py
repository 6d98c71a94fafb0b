"""What concerns more than one Backfill, or none of its fields: who else writes its target, and what of it was dropped."""

from __future__ import annotations

from collections.abc import Callable

from backfill_core.lifecycle.words import EventNote
from backfill_operator.cache import Cache, Key
from backfill_operator.event_recorder import EventRecorder
from backfill_operator.resources import Raw


class Neighbours:
    """Knows who writes the same table; whoever is new or gone there is looked at too."""

    def __init__(self, cache: Cache, events: EventRecorder, again: Callable[[Key], None]) -> None:
        """Take the hands.

        Args:
            cache: Knows the targets of all.
            events: Who tells people.
            again: Has another Backfill looked at.
        """
        self._cache = cache
        self._events = events
        self._again = again
        self._beside: dict[Key, tuple[Key, ...]] = {}
        self._told: dict[Key, object] = {}
        """Of which generation it was told what was dropped."""

    def of(self, key: Key) -> tuple[str, ...]:
        """Return who writes the same target, as the people of this namespace may be told."""
        beside = self._cache.beside(key)
        self._note(key, beside)
        # Names of another namespace are nobody's business here.
        return tuple(one[1] if one[0] == key[0] else "a Backfill of another namespace" for one in beside)

    def tell_what_was_dropped(self, key: Key, raw: Raw) -> None:
        """Say once which fields of what was applied the API server dropped without a word."""
        ignored, generation = self._cache.marks(key).ignored, raw["metadata"].get("generation")
        if ignored and self._told.get(key) != generation:
            words = f"{', '.join(ignored)}: unknown, so the API server dropped it; kubectl apply --validate=strict refuses it"
            self._events.note(raw, EventNote("Warning", "FieldIgnored", words))
            self._told[key] = generation

    def forget(self, key: Key) -> None:
        """Take that a Backfill is gone."""
        self._note(key, ())
        self._told.pop(key, None)

    def _note(self, key: Key, beside: tuple[Key, ...]) -> None:
        for other in set(beside) ^ set(self._beside.get(key, ())):
            self._again(other)
        self._beside.pop(key, None)
        if beside:
            self._beside[key] = beside
