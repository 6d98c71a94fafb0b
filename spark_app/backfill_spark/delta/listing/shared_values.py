"""Equal values of many files as one object each: a million files often have a few partitions."""

from __future__ import annotations

from collections.abc import Mapping

Partition = Mapping[str, str | None]


class Shared:
    """Replaces equal partition values by the first of them."""

    def __init__(self) -> None:
        """Start without values."""
        self._partitions: dict[tuple[tuple[str, str | None], ...], Partition] = {}

    def partition(self, values: Partition) -> Partition:
        """Return equal partition values; they must not change afterwards."""
        return self._partitions.setdefault(tuple(values.items()), values)
