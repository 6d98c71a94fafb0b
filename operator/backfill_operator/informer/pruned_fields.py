"""Fields that a user applied and the API server dropped in silence: a misspelt `verify` is no proof."""

from __future__ import annotations

from typing import Any, Final

from backfill_operator.kube.resources import Raw
from backfill_operator.kube.shallow_json import loads

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
SHOWN_MAX: Final = 5
PATH_CHARACTERS_MAX: Final = 200
LOOKED_AT_MAX: Final = 10_000
FREE: Final = frozenset({"template", "resources", "conf", "properties", "options"})
"""Fields below which any name is kept."""


def pruned_fields(raw: Raw) -> tuple[str, ...]:
    """Return the paths of `spec` fields in kubectl's copy of what was applied that the object does not have; the first few.

    Only a client-side apply leaves a copy. A server-side one is refused for an unknown field, and so is a newer kubectl's.
    """
    annotations = raw["metadata"].get("annotations")
    text = annotations.get(LAST_APPLIED) if isinstance(annotations, dict) else None
    if not isinstance(text, str):
        return ()
    try:
        applied = loads(text.encode(errors="replace"))
    except ValueError:
        return ()
    if not isinstance(applied, dict):
        return ()
    found: list[str] = []
    waiting: list[tuple[str, Any, Any]] = [("spec", applied.get("spec"), raw.get("spec"))]
    for path, said, kept in waiting:
        if not isinstance(said, dict) or not isinstance(kept, dict):
            continue
        for name, value in said.items():
            below = f"{path}.{name}"[:PATH_CHARACTERS_MAX]
            if value is not None and name not in kept:
                found.append(below)
            elif name not in FREE and len(waiting) < LOOKED_AT_MAX:
                waiting.append((below, value, kept.get(name)))
            if len(found) == SHOWN_MAX:
                return tuple(found)
    return tuple(found)
