"""The Backfills that a Backfill waits for, and the conditions that another one may wait for."""

from __future__ import annotations

from typing import Any, Final, get_args

from backfill_api.spec.order import Reached
from backfill_operator.kube.resources import Raw

CONDITIONS: Final[tuple[str, ...]] = get_args(Reached)
NEEDED_MAX: Final = 16

_SHARED: Final[dict[tuple[str, ...], tuple[str, ...]]] = {}
"""One tuple for each of the few combinations, because thousands of Backfills have the same."""


def needed_of(raw: Raw) -> tuple[str, ...]:
    """Return the names in `spec.dependsOn`; entries of another type are left out."""
    spec = raw.get("spec")
    given = spec.get("dependsOn") if isinstance(spec, dict) else None
    entries = given[:NEEDED_MAX] if isinstance(given, list) else []
    return tuple(name for entry in entries if isinstance(entry, dict) and isinstance(name := entry.get("name"), str))


def reached_of(status: dict[str, Any]) -> tuple[str, ...]:
    """Return the true conditions that `spec.dependsOn` may name."""
    given = status.get("conditions")
    true = {
        condition.get("type")
        for condition in (given if isinstance(given, list) else [])
        if isinstance(condition, dict) and condition.get("status") == "True"
    }
    reached = tuple(name for name in CONDITIONS if name in true)
    return _SHARED.setdefault(reached, reached)
