"""Protocol of a Delta table: its versions, its features, and the same protocol with a fence.

Up to writer version 6 a protocol has no list of features: its version implies them. A fence needs a list (writer version 7), which
then contains every implied feature. Readers use their part of the protocol unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

SWITCH: Final = "backfill.switch"
"""Table property of a fenced source: the mark of a switch-over."""

SWITCHED_FROM: Final = "backfill.switchedFrom"
"""Table property of the target of a switch-over: the folder of the source that it has replaced."""

FENCED: Final = "backfill.fenced"
"""Writer feature that no writer supports, and the table property that names the job."""

HOLD: Final = "backfill.hold"
"""Table property of a source whose retention is longer while jobs run."""

PROPERTIES: Final = (FENCED, SWITCH, SWITCHED_FROM, HOLD)
"""Table properties of fences, switch-overs and holds; no other table may copy them."""

LISTS_READER_FEATURES: Final = 3
LISTS_WRITER_FEATURES: Final = 7

IMPLIED: Final = (
    (1, 2, "appendOnly"),
    (1, 2, "invariants"),
    (1, 3, "checkConstraints"),
    (1, 4, "changeDataFeed"),
    (1, 4, "generatedColumns"),
    (2, 5, "columnMapping"),
    (1, 6, "identityColumns"),
)
"""Features with the lowest reader version and writer version that imply them, by Delta's protocol."""


def implied_features(reader: int, writer: int) -> tuple[str, ...]:
    """Return the features that the versions of a protocol without a list imply."""
    return tuple(name for reads, writes, name in IMPLIED if reads <= reader and writes <= writer)


@dataclass(frozen=True, slots=True)
class TableProtocol:
    """One protocol action."""

    reader: int
    writer: int
    reader_features: tuple[str, ...] | None = None
    """`None` below reader version 3."""

    writer_features: tuple[str, ...] | None = None
    """`None` below writer version 7."""

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> Self:
        """Return the protocol of an action's fields."""
        reader, writer = (
            None if action.get(kind) is None else tuple(str(name) for name in action[kind])
            for kind in ("readerFeatures", "writerFeatures")
        )
        return cls(int(action["minReaderVersion"]), int(action["minWriterVersion"]), reader, writer)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the action."""
        versions = {"minReaderVersion": self.reader, "minWriterVersion": self.writer}
        lists = {"readerFeatures": self.reader_features, "writerFeatures": self.writer_features}
        return versions | {kind: list(names) for kind, names in lists.items() if names is not None}

    @property
    def is_valid(self) -> bool:
        """True if the versions exist, and each has its list of features; reader version 3 needs writer version 7."""
        return (
            1 <= self.reader <= LISTS_READER_FEATURES
            and 1 <= self.writer <= LISTS_WRITER_FEATURES
            and (self.reader_features is not None) == (self.reader == LISTS_READER_FEATURES)
            and (self.writer_features is not None) == (self.writer == LISTS_WRITER_FEATURES)
            and (self.reader < LISTS_READER_FEATURES or self.writer == LISTS_WRITER_FEATURES)
        )

    @property
    def features(self) -> tuple[str, ...]:
        """Features that a writer must support, listed or implied."""
        return implied_features(self.reader, self.writer) if self.writer_features is None else self.writer_features

    @property
    def is_fenced(self) -> bool:
        """True if the protocol makes the table read-only."""
        return FENCED in self.features

    def with_fence(self) -> TableProtocol:
        """Return the same protocol with the fence: readers see no difference, and all writers reject it."""
        return replace(self, writer=LISTS_WRITER_FEATURES, writer_features=(*self.features, FENCED))

    def without_fence(self, versions: tuple[int, int] | None) -> TableProtocol:
        """Return the same protocol without the fence.

        Args:
            versions: Reader and writer version before the fence. They return only if they imply exactly the remaining features.
        """
        rest = tuple(name for name in self.features if name != FENCED)
        if versions is not None:
            before = TableProtocol(*versions)
            if before.is_valid and before.reader == self.reader and {*before.features} == {*rest}:
                return before
        return replace(self, writer_features=rest)

    def without(self, feature: str) -> TableProtocol:
        """Return the same protocol without a feature of writers, with the lowest versions that imply exactly the remaining features."""
        rest = tuple(name for name in self.features if name != feature)
        for writer in range(1, LISTS_WRITER_FEATURES):
            plain = TableProtocol(self.reader, writer)
            if plain.is_valid and {*plain.features} == {*rest}:
                return plain
        return replace(self, writer=LISTS_WRITER_FEATURES, writer_features=rest)

    def __str__(self) -> str:
        """Format the protocol for a message."""
        listed = "" if self.writer_features is None else f", {', '.join(sorted(self.writer_features)) or 'no features'}"
        return f"reader version {self.reader}, writer version {self.writer}{listed}"


def typed_fields(text: str, kinds: Mapping[str, type]) -> dict[str, Any] | None:
    """Parse the JSON of a table property; return the fields of these types, or `None` if it does not have all of them."""
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(stored, dict):
        return None
    values = {name: stored.get(name) for name in kinds}
    return values if all(type(values[name]) is kind for name, kind in kinds.items()) else None
