"""Finds fields that a user applied and the API server dropped silently, such as a misspelt `verify`."""

from __future__ import annotations

from typing import Any, Final

from backfill_api.shallow_json import loads
from backfill_operator.kube.resources import Raw

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
SHOWN_MAX: Final = 5
PATH_CHARACTERS_MAX: Final = 200
LOOKED_AT_MAX: Final = 10_000
FREE: Final = frozenset({"template", "resources", "conf", "properties", "options"})
"""Fields without a schema for their content, in which the API server drops nothing."""


def pruned_fields(raw: Raw) -> tuple[str, ...]:
    """Return the first few `spec` paths that are in kubectl's copy of the applied object and not in the stored object.

    Only a client-side apply leaves such a copy. Server-side apply and newer versions of kubectl refuse unknown fields.
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
    dropped: list[str] = []
    waiting: list[tuple[str, Any, Any]] = [("spec", applied.get("spec"), raw.get("spec"))]
    for path, applied_part, kept in waiting:
        if not isinstance(applied_part, dict) or not isinstance(kept, dict):
            continue
        for name, value in applied_part.items():
            below = f"{path}.{name}"[:PATH_CHARACTERS_MAX]
            if value is not None and name not in kept:
                dropped.append(below)
            elif name not in FREE and len(waiting) < LOOKED_AT_MAX:
                waiting.append((below, value, kept.get(name)))
            if len(dropped) == SHOWN_MAX:
                return tuple(dropped)
    return tuple(dropped)
