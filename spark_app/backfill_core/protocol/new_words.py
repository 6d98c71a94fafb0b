"""Change of a target's metadata in one commit; columns excluded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Description:
    """Description of a table."""

    text: str | None
    """`None` if the table has no description."""


@dataclass(frozen=True, slots=True)
class NewWords:
    """Metadata change of one commit."""

    properties: tuple[tuple[str, str | None], ...] = ()
    """Properties to set; a value of `None` removes the property."""

    description: Description | None = None
    """`None` if unchanged."""


SAME_WORDS = NewWords()
"""No change."""
