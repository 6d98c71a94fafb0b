"""Columns by name: how SQL spells one, and which one was probably meant."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_api.explain import nearest

LISTED_MAX = 20


def quoted(name: str) -> str:
    """Return a column's name as SQL spells it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def instead(name: str, names: Sequence[str]) -> str:
    """Return the cure for a column that is not there."""
    near = nearest(name, names)
    return f"Did you mean {near!r}?" if near else f"There are {', '.join(names[:LISTED_MAX])}."
