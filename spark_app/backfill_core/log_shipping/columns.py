"""Columns of a table in its log: fields as JSON, and their physical names."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

COLUMN_ID, PHYSICAL_NAME = "delta.columnMapping.id", "delta.columnMapping.physicalName"
COMMENT, DEFAULT = "comment", "CURRENT_DEFAULT"
TYPE_CHANGES = "delta.typeChanges"
"""Key in a field's metadata that lists type widenings; files may still have the old types."""

WIDENING = "typeWidening"
"""Table feature that makes readers convert widened types."""

DEFAULTS = "allowColumnDefaults"
"""Table feature that makes writers fill an omitted column with its `DEFAULT`."""

Field = Mapping[str, Any]
"""A field of a schema: `name`, `type`, `nullable`, `metadata`."""

INSIDE = {"array": ("elementType",), "map": ("keyType", "valueType")}
"""Keys of the inner types of an array and a map."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a version of a table."""

    fields: tuple[Field, ...]
    mapped: bool
    """True with column mapping: columns can be renamed or dropped without rewriting files."""


def kept_metadata(features: Collection[str]) -> tuple[str, ...]:
    """Return the metadata keys of comments and defaults that a table with these features supports."""
    return (COMMENT, DEFAULT) if DEFAULTS in features else (COMMENT,)


def defaults_of(schema: str) -> dict[str, str]:
    """Return the defaults in a JSON schema by column name. Only top-level columns have defaults."""
    fields = json.loads(schema)["fields"]
    return {field["name"]: field["metadata"][DEFAULT] for field in fields if DEFAULT in field["metadata"]}


def with_defaults(schema: str, defaults: Mapping[str, str]) -> str:
    """Return a JSON schema whose defaults are exactly these, by column name."""
    columns = json.loads(schema)
    for field in columns["fields"]:
        metadata = {key: value for key, value in field["metadata"].items() if key != DEFAULT}
        field["metadata"] = metadata | ({DEFAULT: defaults[field["name"]]} if field["name"] in defaults else {})
    return json.dumps(columns)


def physical(field: Field) -> str:
    """Return the physical name of a field."""
    return str((field.get("metadata") or {}).get(PHYSICAL_NAME, field["name"]))


def fields_of(kind: Any) -> Iterator[Field]:
    """Yield the fields inside a type, outermost first."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        yield field
        yield from fields_of(field["type"])
    for part in INSIDE.get(kind["type"], ()):
        yield from fields_of(kind[part])


def loose(field: Field, *, mapped: bool, kept: tuple[str, ...] = (COMMENT,)) -> dict[str, Any]:
    """Return a nullable copy of a field; its metadata has only the keys in `kept` and, if `mapped`, physical name and id."""
    metadata = field.get("metadata") or {}
    names = (*kept, COLUMN_ID, PHYSICAL_NAME) if mapped else kept
    return {
        "name": field["name"],
        "type": _loose_type(field["type"], mapped=mapped, kept=kept),
        "nullable": True,
        "metadata": {name: metadata[name] for name in names if name in metadata},
    }


def _loose_type(kind: Any, *, mapped: bool, kept: tuple[str, ...]) -> Any:
    if not isinstance(kind, dict):
        return kind
    match kind["type"]:
        case "struct":
            return {"type": "struct", "fields": [loose(field, mapped=mapped, kept=kept) for field in kind["fields"]]}
        case "array":
            return {
                **kind,
                "elementType": _loose_type(kind["elementType"], mapped=mapped, kept=kept),
                "containsNull": True,
            }
        case "map":
            inside = {name: _loose_type(kind[name], mapped=mapped, kept=kept) for name in INSIDE["map"]}
            return {**kind, **inside, "valueContainsNull": True}
    return kind


def shape(kind: Any) -> Any:
    """Return the part of a type that determines values in files: names, physical names and types.

    Nullability, comments, defaults and ids are left out.
    """
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return tuple((field["name"], physical(field), shape(field["type"])) for field in kind["fields"])
    return (kind["type"], *(shape(kind[part]) for part in INSIDE.get(kind["type"], ())))


def format_type(kind: Any) -> str:
    """Format a type for a message."""
    return kind if isinstance(kind, str) else str(kind["type"])
