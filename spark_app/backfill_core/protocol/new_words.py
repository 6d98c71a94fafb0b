"""What a commit makes of the words that a target says of itself, but for those of its columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Description:
    """What a table says that it is."""

    text: str | None
    """None: nothing."""


@dataclass(frozen=True, slots=True)
class NewWords:
    """See the module."""

    properties: tuple[tuple[str, str | None], ...] = ()
    """Those that it gets; None: it loses that one."""

    description: Description | None = None
    """None: it keeps its own."""


SAME_WORDS = NewWords()
"""It keeps all of its own."""
