"""Decides the smallest write that brings a change into force, and where: in the spec, or in the override annotation.

A write carries the resourceVersion that was read. So a concurrent write is a conflict, and this decision is made again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from backfill_api.model import member_of
from backfill_api.names import (
    CHANGED_BY_ANNOTATION,
    COMPLETE_SWITCH_ANNOTATION,
    OVERRIDE_ANNOTATION,
    REFRESH_ANNOTATION,
    REPAIR_ANNOTATION,
    RESTART_ANNOTATION,
    STATE_ANNOTATION,
    SUSPEND_ANNOTATION,
    SWITCH_ANNOTATION,
    UNDO_SWITCH_ANNOTATION,
    VERIFY_ANNOTATION,
)
from backfill_api.shallow_json import loads
from backfill_api.spec.change_claim import ChangeClaim
from backfill_api.spec.override import WIDTH_FIELDS
from backfill_api.spec.strategies import Strategy
from backfill_api.width import BY_TIME, spec_path
from backfill_kubectl.decisions.changes import (
    Approve,
    Change,
    Control,
    Pause,
    RepairTarget,
    Rescale,
    Resume,
    Retry,
    RunAgain,
    Suspend,
    SwitchOver,
    TakeReceipt,
    Throttle,
    Unsuspend,
)
from backfill_kubectl.decisions.ownership import SpecOwner, spec_owner
from backfill_kubectl.decisions.stored import StoredBackfill, fixed_values

Json = dict[str, Any]
How = Literal["spec", "override"]
Place = Literal["spec", "override", "annotation"]

PLAIN: Final[Mapping[str, str]] = {"desiredState": STATE_ANNOTATION, "suspend": SUSPEND_ANNOTATION}
"""Annotations that take precedence over the override annotation, by the field that they set."""

WIDTH: Final = {field: name for name, field in WIDTH_FIELDS.items()}
"""Names in Python of the values of a width, by their fields in an override."""

SWITCH_ANNOTATIONS: Final = {
    "Switch": SWITCH_ANNOTATION, "Undo": UNDO_SWITCH_ANNOTATION, "Complete": COMPLETE_SWITCH_ANNOTATION,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Write:
    """A merge patch, and the reason for its place."""

    patch: Json
    place: Place
    owner: SpecOwner | None = None
    """The tool that owns the spec; `None` if users apply it."""

    @property
    def reason(self) -> str:
        """Describe the place to a user; empty if it needs no explanation."""
        if self.owner is None:
            return "by the override annotation" if self.place == "override" else ""
        if self.place == "override":
            return f"by the override annotation, because {self.owner} owns the spec"
        if self.place == "spec":
            return f"in the spec, which {self.owner} owns and may reset"
        return ""


def decide_write(backfill: StoredBackfill, change: Change, *, how: How | None, claim: ChangeClaim) -> Write:
    """Return the write that brings a change into force.

    Args:
        backfill: The object that was read.
        change: The requested change.
        how: Place that the user chose; `None` for the spec, or the override if a tool owns the spec.
        claim: Author, reason and time of the change.
    """
    owner = spec_owner(backfill)
    annotations: dict[str, str | None] = {
        CHANGED_BY_ANNOTATION: claim.model_dump_json(by_alias=True, exclude_defaults=True)
    }
    spec: Json = {}
    place: Place
    match change:
        case Retry():
            place, annotations[RESTART_ANNOTATION] = "annotation", claim.time
        case RunAgain():
            place, annotations[REFRESH_ANNOTATION] = "annotation", claim.time
        case TakeReceipt():
            place, annotations[VERIFY_ANNOTATION] = "annotation", claim.time
        case SwitchOver():
            place, annotations[SWITCH_ANNOTATIONS[change.goal]] = "annotation", claim.time
        case RepairTarget():
            place, annotations[REPAIR_ANNOTATION] = "annotation", claim.time
        case Approve():
            plan = backfill.status.plan_of
            place, spec = "spec", {"approved": True} if plan is None else {"approvedPlan": plan}
        case _:
            # A limit with an end leaves the spec as it is, so that the limit of the spec applies again.
            ends = isinstance(change, Throttle) and change.until is not None
            place = how or ("override" if owner is not None or ends else "spec")
            fields = _fields(change)
            override = _without(
                _override(backfill), fields.keys() | {WIDTH_FIELDS[name] for name in fixed_values(backfill)}
            )
            if place == "override":
                override |= _needed(backfill, change, fields)
            else:
                spec = _spec_patch(backfill, fields)
            annotations |= _annotations(backfill, override, fields)
    metadata = {"resourceVersion": backfill.resource_version, "annotations": annotations}
    return Write({"metadata": metadata} | ({"spec": spec} if spec else {}), place, owner)


def _fields(change: Control) -> Json:
    """Return the fields of an override for a change; a field that is null is taken away from the spec."""
    match change:
        case Pause():
            return {"desiredState": "Paused", "pause": {"scope": change.scope}}
        case Resume():
            return {"desiredState": "Running", "pause": None}
        case Throttle():
            limits = {
                "rowsPerSecond": change.rows_per_second,
                "bytesPerSecond": change.bytes_per_second,
                "until": change.until,
            }
            return {"throttle": limits}
        case Rescale():
            return {WIDTH_FIELDS[name]: value for name, value in change.width.given.items()}
        case Suspend():
            return {"suspend": True}
        case Unsuspend():
            return {"suspend": False}


def _override(backfill: StoredBackfill) -> Json:
    """Return the override in force: that of the annotation, or if it is invalid, the last valid one of the status."""
    if not backfill.annotations.get(OVERRIDE_ANNOTATION, "").strip():
        return {}
    override = backfill.overridden or backfill.status.override
    return {} if override is None else override.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _without(override: Json, fields: Collection[str]) -> Json:
    return {name: value for name, value in override.items() if name not in fields}


def _needed(backfill: StoredBackfill, change: Control, fields: Json) -> Json:
    """Return the fields that the override needs. A change that only ends an override needs none, if the spec agrees."""
    if isinstance(change, Pause | Suspend) or not _agrees(backfill.spec, fields):
        given = {name: value for name, value in fields.items() if value is not None}
        throttle = given.get("throttle")
        if throttle is not None:
            limits = {name: value for name, value in throttle.items() if value is not None}
            # An empty limit would read as a typo; null takes the limit of the spec away.
            given["throttle"] = limits or {"rowsPerSecond": None}
        return given
    return {}


def _agrees(spec: Mapping[str, Any], fields: Json) -> bool:
    """Return whether the spec has the requested values without an override."""
    for name, value in _of_spec(spec, fields).items():
        stored = spec.get(name)
        if name == "pause":
            continue  # its scope counts only in a pause
        if name == "throttle":
            stored = stored if isinstance(stored, dict) else {}
            if any(stored.get(limit) != wanted for limit, wanted in value.items()):
                return False
        elif isinstance(value, dict):
            if _merged(stored, value) != (stored or {}):
                return False
        elif stored != value and not (stored is None and value in ("Running", False)):
            return False
    return True


def _spec_patch(backfill: StoredBackfill, fields: Json) -> Json:
    """Return the part of the spec to merge, without fields that it has already."""
    patch: Json = {}
    for name, value in _of_spec(backfill.spec, fields).items():
        if value is None:
            continue
        stored = backfill.spec.get(name)
        below = stored if isinstance(stored, dict) else {}
        if isinstance(value, dict):
            merged = _merged(below, value)
            changed = {field: new for field, new in value.items() if below.get(field) != merged.get(field)}
            patch |= {name: changed} if changed else {}
        elif stored != value:
            patch[name] = value
    return patch


def _of_spec(spec: Mapping[str, Any], fields: Json) -> Json:
    """Return fields of an override as the spec has them: a width belongs to the member of the strategy, and to the executors."""
    if not WIDTH.keys() & fields.keys():
        return fields
    strategy = spec.get("strategy")
    type_ = (strategy if isinstance(strategy, dict) else {}).get("type") or Strategy.model_fields["type"].default
    patch: Json = {}
    for field, value in fields.items():
        *above, last = spec_path(WIDTH[field], member_of(str(type_)))
        part = patch
        for below in above:
            part = part.setdefault(below, {})
        part[last] = None if (WIDTH[field], value) == ("chunk_rows", BY_TIME) else value
    return patch


def _merged(stored: Any, change: Json) -> Json:
    """Return stored fields with a merge patch applied; a part that would be empty is not added."""
    merged: Json = dict(stored) if isinstance(stored, dict) else {}
    for name, value in change.items():
        new = _merged(merged.get(name), value) if isinstance(value, dict) else value
        if new is None:
            merged.pop(name, None)
        elif new != {} or name in merged:
            merged[name] = new
    return merged


def _annotations(backfill: StoredBackfill, override: Json, fields: Json) -> dict[str, str | None]:
    """Return the changed annotations: the override, and those of single fields, which take precedence over it."""
    annotations: dict[str, str | None] = {
        PLAIN[name]: None for name in fields if name in PLAIN and PLAIN[name] in backfill.annotations
    }
    before = backfill.annotations.get(OVERRIDE_ANNOTATION)
    after = json.dumps(override, separators=(",", ":")) if override else None
    if after is None and before is None:
        return annotations
    if before is not None and after is not None and override == _json(before):
        return annotations
    return annotations | {OVERRIDE_ANNOTATION: after}


def _json(text: str) -> Any:
    try:
        return loads(text)
    except ValueError:
        return None
