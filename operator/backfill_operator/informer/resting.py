"""The cached form of a Backfill at rest: only the time of its deletion, because it needs no decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backfill_core.lifecycle.resting import at_rest, forgotten_ms
from backfill_operator.informer.compact import ANNOTATIONS, STUB_FIELD, IndexFields
from backfill_operator.informer.parse import StatusUnreadableError, status_of
from backfill_operator.kube.resources import Raw


@dataclass(frozen=True, slots=True)
class Rest:
    """A finished Backfill that needs no action before its time to live ends."""

    attempt: int
    """Its last attempt. If a pod of that name appears, it needs a decision."""

    due_ms: int | None
    """Time when its time to live ends; `None` if it has no limit."""


def rest_of(raw: Raw, index: IndexFields) -> Rest | None:
    """Return the rest of a Backfill; `None` if it may need an action, so that the whole object is kept."""
    metadata = raw["metadata"]
    waits = any(metadata.get(name) for name in ("finalizers", "deletionTimestamp"))
    annotations = metadata.get("annotations")
    commanded = isinstance(annotations, dict) and any(name in annotations for name in ANNOTATIONS)
    if not index.over or waits or commanded or index.pruned or STUB_FIELD in raw:
        return None
    try:
        status = status_of(raw)
    except StatusUnreadableError:
        return None
    generation, spec = metadata.get("generation"), raw.get("spec")
    if isinstance(spec, dict) and spec.get("refresh") is not None:
        return None  # a time of its schedule starts it again
    if not isinstance(generation, int) or not at_rest(status, generation=generation) or status.attempt is None:
        return None
    return Rest(status.attempt.number, forgotten_ms(status, _ttl_s(spec)))


def _ttl_s(spec: Any) -> int | None:
    """Return the spec's time to live; `None` if it is missing or has another type, so that the object is never deleted."""
    given = spec.get("ttlSecondsAfterFinished") if isinstance(spec, dict) else None
    return given if isinstance(given, int) and not isinstance(given, bool) and given >= 0 else None
