"""The compact form of a Backfill that the cache keeps: the fields that the rules read, or a stub of a large object.

Managed fields, kubectl's copy, labels and foreign annotations are left out. An object that is still large is kept as a
stub and read again for each reconcile. So a hundred large objects take no more memory than a hundred small ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, get_args

from pydantic_core import to_json

from backfill_api.names import (
    CHANGED_BY_ANNOTATION,
    COMPLETE_SWITCH_ANNOTATION,
    OVERRIDE_ANNOTATION,
    REFRESH_ANNOTATION,
    REPAIR_ANNOTATION,
    RESTART_ANNOTATION,
    SKIP_CLOSING_ANNOTATION,
    STATE_ANNOTATION,
    SUSPEND_ANNOTATION,
    SWITCH_ANNOTATION,
    UNDO_SWITCH_ANNOTATION,
    VERIFY_ANNOTATION,
    WATCHED_ANNOTATION,
)
from backfill_api.spec.order import Reached
from backfill_operator.informer.figures import measured, reason_of, receipt_state, strategy_of
from backfill_operator.informer.pruned_fields import pruned_fields
from backfill_operator.informer.targets import target_of
from backfill_operator.kube.resources import Raw

LARGE_BYTES: Final = 16 * 1024
"""Ten times a usual Backfill; ten thousand of this size take 160 MiB."""

FINISHED: Final = frozenset({"Succeeded", "Failed"})
ANNOTATION_CHARACTERS_MAX: Final = 8192
ANNOTATIONS: Final = (
    OVERRIDE_ANNOTATION, STATE_ANNOTATION, SUSPEND_ANNOTATION, RESTART_ANNOTATION, VERIFY_ANNOTATION,
    REFRESH_ANNOTATION, SWITCH_ANNOTATION, UNDO_SWITCH_ANNOTATION, COMPLETE_SWITCH_ANNOTATION, REPAIR_ANNOTATION,
    SKIP_CLOSING_ANNOTATION, CHANGED_BY_ANNOTATION, WATCHED_ANNOTATION,
)  # fmt: skip
METADATA: Final = (
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "finalizers",
)  # fmt: skip
STUB_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp")

STUB_FIELD: Final = "backfill.dev/stub"
"""The field that marks a stub. API servers drop unknown top-level fields, so no user can forge it."""

CONDITIONS: Final[tuple[str, ...]] = get_args(Reached)
NEEDED_MAX: Final = 16

_SHARED: Final[dict[tuple[str, ...], tuple[str, ...]]] = {}
"""One tuple for each of the few combinations, because thousands of Backfills have the same."""


@dataclass(frozen=True, slots=True)
class IndexFields:
    """Fields of a Backfill that can be looked up without parsing it."""

    phase: str = ""
    active: bool = False
    """True if a recorded attempt has not ended."""

    target: str | None = None
    """Normalized name of the table that it writes; `None` if the spec has no target."""

    pruned: tuple[str, ...] = ()
    """Paths of applied fields that the API server dropped."""

    strategy: str = ""
    """Name of its strategy, for its metrics."""

    reason: str = ""
    """Reason of its state, for its metrics."""

    receipt: str = ""
    """State of its newest receipt, for its metrics; empty without one."""

    depends_on: tuple[str, ...] = ()
    """Names of the Backfills that must come before its first attempt; empty after it."""

    closing: bool = False
    """True if its attempt ends a deleted job."""

    reached: tuple[str, ...] = ()
    """True conditions that another Backfill may wait for."""

    @property
    def over(self) -> bool:
        """True if the job has finished and no recorded attempt may still run."""
        return self.phase in FINISHED and not self.active


def compact(raw: Raw) -> Raw:
    """Return the fields that the rules read if they are small, else a stub."""
    if STUB_FIELD in raw:
        return raw
    small = _without_unused(raw)
    if len(dumps(small)) <= LARGE_BYTES:
        return small
    return stub_of(raw["metadata"], index_fields_of(raw), measured(raw.get("status")))


def stub_of(metadata: Raw, index: IndexFields, status: Raw | None = None) -> Raw:
    """Return the stub of an object with this metadata; `status` has the fields that its metrics read."""
    stub: Raw = {
        "phase": index.phase, "active": index.active, "target": index.target, "pruned": list(index.pruned),
        "strategy": index.strategy, "reason": index.reason, "receipt": index.receipt, "closing": index.closing,
        "dependsOn": list(index.depends_on), "reached": list(index.reached),
    }  # fmt: skip
    if status:
        stub["status"] = status
    return {"metadata": {name: metadata[name] for name in STUB_METADATA if name in metadata}, STUB_FIELD: stub}


def is_stub(raw: Raw) -> bool:
    """Return whether this is a stub, so that the object must be read from the API server."""
    return STUB_FIELD in raw


def index_fields_of(raw: Raw, *, pruned: tuple[str, ...] | None = None) -> IndexFields:
    """Return the index fields of a Backfill or of its stub; `pruned` passes a cached value to avoid computing it."""
    stub = raw.get(STUB_FIELD)
    if isinstance(stub, dict):
        strategy, reason, receipt = (str(stub.get(name, "")) for name in ("strategy", "reason", "receipt"))
        return IndexFields(
            stub["phase"], stub["active"], stub["target"], tuple(stub["pruned"]), strategy, reason, receipt,
            depends_on=tuple(stub["dependsOn"]), closing=stub["closing"], reached=tuple(stub["reached"]),
        )  # fmt: skip
    status = _mapping(raw.get("status"))
    phase, attempt = status.get("phase"), _mapping(status.get("attempt"))
    return IndexFields(
        phase=phase[:64] if isinstance(phase, str) else "",
        active=attempt.get("state") in ("Planned", "Created"),
        closing=attempt.get("procedure") == "Close",
        target=target_of(raw),
        pruned=pruned_fields(raw) if pruned is None else pruned,
        strategy=strategy_of(raw.get("spec")),
        reason=reason_of(status),
        receipt=receipt_state(status),
        depends_on=() if status.get("attempts") else needed_of(raw),
        reached=reached_of(status),
    )


def _without_unused(raw: Raw) -> Raw:
    """Return the fields that the rules read."""
    given = raw["metadata"]
    metadata = {name: given[name] for name in METADATA if name in given}
    annotations = _mapping(given.get("annotations"))
    ours = {name: str(annotations[name])[:ANNOTATION_CHARACTERS_MAX] for name in ANNOTATIONS if name in annotations}
    if ours:
        metadata["annotations"] = ours
    return {"metadata": metadata} | {name: raw[name] for name in ("spec", "status") if name in raw}


def status_to_measure(raw: Raw) -> Raw:
    """Return the status of a Backfill, or the part of it that its stub has."""
    return _mapping(_mapping(raw.get(STUB_FIELD, raw)).get("status"))


def dumps(raw: Raw) -> bytes:
    """Return an object as JSON text."""
    return to_json(raw)


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


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
