"""Asking a source or a sink for an ability that it promised."""

from __future__ import annotations

from typing import TypeVar

from backfill_core.errors import InvalidSpecError

A = TypeVar("A")


def ability(side: object, kind: type[A]) -> A:
    """Return a source or a sink as what it can do.

    Raises:
        InvalidSpecError: it cannot; a strategy asks for what its `VARIANT` does not name, or a plug-in does not keep a promise.
    """
    if isinstance(side, kind):
        return side
    raise InvalidSpecError(
        f"{type(side).__name__} has not what {kind.__name__} promises.",
        hint="Use another strategy, or another kind of source or target.",
    )
