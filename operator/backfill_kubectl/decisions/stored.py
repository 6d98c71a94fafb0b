"""A Backfill as the API server stores it; an unreadable part of its status is left out and named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from backfill_api.model import known
from backfill_api.names import OVERRIDE_ANNOTATION
from backfill_api.spec.override import Override
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.conditions import Condition
from backfill_api.status.progress import ProgressSummary
from backfill_api.status.status import BackfillStatus
from backfill_api.width import fixed_width

Json = dict[str, Any]

UNREADABLE_MAX: Final = 5
"""Unreadable parts that are named."""


@dataclass(frozen=True, slots=True)
class StoredBackfill:
    """One object, with a status that matches the models of this version."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created: str
    deleting: bool
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    managers: tuple[str, ...]
    """Field managers of the spec."""

    spec: Mapping[str, Any]
    status: BackfillStatus
    unreadable: tuple[str, ...] = ()
    """Fields of the status that this version cannot read."""

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def progress(self) -> ProgressSummary:
        """Return the progress; an empty one before the first."""
        return self.status.progress or ProgressSummary()

    @property
    def overridden(self) -> Override | None:
        """Return the override of the annotation; `None` if it is missing or cannot be read."""
        try:
            return Override.model_validate_json(
                self.annotations.get(OVERRIDE_ANNOTATION, ""), by_alias=True, by_name=False
            )
        except ValidationError:
            return None

    @property
    def ended(self) -> bool:
        """Return whether the job has succeeded or failed."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def driver_runs(self) -> bool:
        """Return whether an attempt is in flight, whose driver can confirm a command. Without one, a lag is that of the past."""
        attempt = self.status.attempt
        return attempt is not None and attempt.state != "Ended" and attempt.kind == "Run"

    def condition(self, type_: str) -> Condition | None:
        """Return a condition; `None` if the status does not have it."""
        return next((condition for condition in self.status.conditions if condition.type == type_), None)

    def holds(self, type_: str) -> bool:
        """Return whether a condition is true."""
        condition = self.condition(type_)
        return condition is not None and condition.status == "True"


def read_stored(raw: Mapping[str, Any]) -> StoredBackfill:
    """Return the values of an object. Any JSON is accepted: fields of a wrong type count as absent."""
    metadata = _mapping(raw.get("metadata"))
    status, unreadable = _status(_mapping(raw.get("status")))
    generation = metadata.get("generation")
    return StoredBackfill(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        resource_version=str(metadata.get("resourceVersion", "")),
        generation=generation if isinstance(generation, int) else 0,
        created=str(metadata.get("creationTimestamp", "")),
        deleting="deletionTimestamp" in metadata,
        annotations=_texts(metadata.get("annotations")),
        labels=_texts(metadata.get("labels")),
        managers=_managers(metadata.get("managedFields")),
        spec=_mapping(raw.get("spec")),
        status=status,
        unreadable=unreadable,
    )


def fixed_values(backfill: StoredBackfill) -> Mapping[str, str]:
    """Return why values of the width cannot change, by their names in Python; empty for a spec that cannot be read, which the operator refuses."""
    try:
        return fixed_width(BackfillSpec.model_validate(backfill.spec, by_alias=True, by_name=False))
    except ValidationError:
        return {}


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in _mapping(value).items()}


def _managers(value: Any) -> tuple[str, ...]:
    """Return the managers that own a field of the spec; the operator writes only the status."""
    entries = [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
    return tuple(str(entry.get("manager", "")) for entry in entries if "f:spec" in _mapping(entry.get("fieldsV1")))


def _status(document: Json) -> tuple[BackfillStatus, tuple[str, ...]]:
    """Return the status, and the fields that do not match the models: another version wrote them, or a user."""
    readable = known(BackfillStatus, document)
    unreadable: list[str] = []
    while True:
        try:
            return BackfillStatus.model_validate(readable, by_alias=True, by_name=False), tuple(unreadable)
        except ValidationError as error:
            places = {
                tuple(str(part) for part in detail["loc"])
                for detail in error.errors(include_url=False, include_input=False)
            }
            broken = {place[0] for place in places if place} & set(readable)
            if not broken:
                return BackfillStatus(), ("status",)
            unreadable += sorted(".".join(("status", *place)) for place in places)[:UNREADABLE_MAX]
            readable = {name: value for name, value in readable.items() if name not in broken}
