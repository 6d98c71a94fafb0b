"""Mappings that never change, and of which a changed copy costs only the changes: a target may have a million files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

V = TypeVar("V")

GROWTH = 2
"""A layer with at most this many times the entries of the next newer one is merged with it, so that there are few layers."""


class Layers(Mapping[str, V], Generic[V]):
    """A mapping from strings, as layers of changes; newer layers win. Equal to a mapping with the same items."""

    __slots__ = ("_count", "_layers")

    def __init__(self, entries: Mapping[str, V]) -> None:
        """Store entries as the oldest layer; they must not change afterwards."""
        self._layers: tuple[Mapping[str, V | None], ...] = (entries,)
        self._count = len(entries)

    @property
    def depth(self) -> int:
        """Number of layers, each of which a look-up may ask."""
        return len(self._layers)

    def changed(self, changes: Mapping[str, V | None]) -> Layers[V]:
        """Return these entries with some set, or removed if their value is `None`.

        The work is proportional to the changes, times the logarithm of the entries, on the average of many calls.
        """
        effective = {key: value for key, value in changes.items() if value is not None or key in self}
        if not effective:
            return self
        other: Layers[V] = Layers({})
        other._count = self._count + sum((value is not None) - (key in self) for key, value in effective.items())
        other._layers = _merged((*self._layers, effective))
        return other

    def __getitem__(self, key: str) -> V:
        """Return the value of a key."""
        for layer in reversed(self._layers):
            if key in layer:
                value = layer[key]
                if value is None:
                    break
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        """Yield the keys, in no order."""
        for at, layer in enumerate(self._layers):
            newer = self._layers[at + 1 :]
            yield from (key for key, value in layer.items() if value is not None and not _in_any(newer, key))

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._count


def _in_any(layers: tuple[Mapping[str, V | None], ...], key: str) -> bool:
    return any(key in layer for layer in layers)


def _merged(layers: tuple[Mapping[str, V | None], ...]) -> tuple[Mapping[str, V | None], ...]:
    """Return the same layers, each with more than `GROWTH` times the entries of the next newer one."""
    while len(layers) > 1 and len(layers[-2]) <= GROWTH * len(layers[-1]):
        merged = {**layers[-2], **layers[-1]}
        if len(layers) == 2:  # nothing is below, so a removal needs no entry
            merged = {key: value for key, value in merged.items() if value is not None}
        layers = (*layers[:-2], merged)
    return layers
