"""What of a Backfill is worth keeping: all that the rules read, if it is small; else only where to find it.

Left out are who wrote which field, kubectl's copy of the whole, labels, and the annotations of others. An object that is
large in spite of that is kept as a stub, and asked for again when it is looked at: a hundred of them cost no more memory
than a hundred small ones.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from backfill_api.names import OVERRIDE_ANNOTATION, RESTART_ANNOTATION, VERIFY_ANNOTATION
from backfill_operator.informer.pruned_fields import pruned_fields
from backfill_operator.informer.targets import target_of
from backfill_operator.kube.resources import Raw

LARGE_BYTES: Final = 16 * 1024
"""Ten times what people write; ten thousand of this size are 160 MiB."""

ANNOTATION_CHARACTERS_MAX: Final = 8192
ANNOTATIONS: Final = (OVERRIDE_ANNOTATION, RESTART_ANNOTATION, VERIFY_ANNOTATION)
METADATA: Final = (
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "finalizers",
)  # fmt: skip
STUB_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp")

STUB_FIELD: Final = "backfill.dev/stub"
"""In a stub, beside metadata: no API server keeps such a field, so it cannot be forged."""


@dataclass(frozen=True, slots=True)
class IndexFields:
    """What is looked up of all Backfills, without reading them."""

    phase: str = ""
    active: bool = False
    """Is an attempt on record that has not ended?"""

    target: str | None = None
    """The table that it writes, in one spelling; None: it cannot be told."""

    pruned: tuple[str, ...] = ()
    """Fields that a user applied and the API server dropped."""


def compact(raw: Raw) -> Raw:
    """Return a Backfill without unused fields: whole if it is small then, else its stub."""
    if STUB_FIELD in raw:
        return raw
    small = _without_unused(raw)
    if len(dumps(small)) <= LARGE_BYTES:
        return small
    index = index_fields_of(raw)
    stub = {"phase": index.phase, "active": index.active, "target": index.target, "pruned": list(index.pruned)}
    metadata = raw["metadata"]
    return {"metadata": {name: metadata[name] for name in STUB_METADATA if name in metadata}, STUB_FIELD: stub}


def is_stub(raw: Raw) -> bool:
    """Must the object be asked for before it can be looked at?"""
    return STUB_FIELD in raw


def index_fields_of(raw: Raw, *, pruned: tuple[str, ...] | None = None) -> IndexFields:
    """Return what is looked up of a Backfill, or of its stub; `pruned`: as it is known already."""
    stub = raw.get(STUB_FIELD)
    if isinstance(stub, dict):
        return IndexFields(stub["phase"], stub["active"], stub["target"], tuple(stub["pruned"]))
    status = _mapping(raw.get("status"))
    phase, state = status.get("phase"), _mapping(status.get("attempt")).get("state")
    return IndexFields(
        phase=phase[:64] if isinstance(phase, str) else "",
        active=state in ("Planned", "Created"),
        target=target_of(raw),
        pruned=pruned_fields(raw) if pruned is None else pruned,
    )


def _without_unused(raw: Raw) -> Raw:
    """Return what the rules read of a Backfill."""
    given = raw["metadata"]
    metadata = {name: given[name] for name in METADATA if name in given}
    annotations = _mapping(given.get("annotations"))
    ours = {name: str(annotations[name])[:ANNOTATION_CHARACTERS_MAX] for name in ANNOTATIONS if name in annotations}
    if ours:
        metadata["annotations"] = ours
    return {"metadata": metadata} | {name: raw[name] for name in ("spec", "status") if name in raw}


def dumps(raw: Raw) -> bytes:
    """Return an object as text."""
    return json.dumps(raw, separators=(",", ":")).encode()


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
