"""What the cache keeps of a Backfill that is at rest: when it is to be deleted, and nothing to decide on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backfill_core.lifecycle.resting import at_rest, forgotten_ms
from backfill_operator.informer.compact import ANNOTATIONS, STUB_FIELD, IndexFields
from backfill_operator.informer.parse import StatusUnreadableError, status_of
from backfill_operator.kube.resources import Raw


@dataclass(frozen=True, slots=True)
class Rest:
    """A Backfill that is over, and for which nothing is to be done but in its time."""

    attempt: int
    """Its last one: a pod of that name, should one appear, is something to decide on."""

    due_ms: int | None
    """When its time to live is over; None: it has none."""


def rest_of(raw: Raw, index: IndexFields) -> Rest | None:
    """Return the rest of a Backfill; None: there may be something to do, so all of it is kept."""
    metadata = raw["metadata"]
    waits = any(metadata.get(name) for name in ("finalizers", "deletionTimestamp"))
    annotations = metadata.get("annotations")
    asked = isinstance(annotations, dict) and any(name in annotations for name in ANNOTATIONS)
    if not index.over or waits or asked or index.pruned or STUB_FIELD in raw:
        return None
    try:
        status = status_of(raw)
    except StatusUnreadableError:
        return None
    generation, spec = metadata.get("generation"), raw.get("spec")
    if not isinstance(generation, int) or not at_rest(status, generation=generation) or status.attempt is None:
        return None
    return Rest(status.attempt.number, forgotten_ms(status, _ttl_s(spec)))


def _ttl_s(spec: Any) -> int | None:
    """Return the time to live that a spec names; one of another type is refused, and lives for ever."""
    given = spec.get("ttlSecondsAfterFinished") if isinstance(spec, dict) else None
    return given if isinstance(given, int) and not isinstance(given, bool) and given >= 0 else None
