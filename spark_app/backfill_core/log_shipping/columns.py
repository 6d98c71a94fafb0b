"""The columns of a table as a log has them: fields as JSON, and which name each has in files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

COLUMN_ID, PHYSICAL_NAME = "delta.columnMapping.id", "delta.columnMapping.physicalName"
COMMENT, DEFAULT = "comment", "CURRENT_DEFAULT"
TYPE_CHANGES = "delta.typeChanges"
"""Of a field, in its metadata; the last one tells how types in it became wider, and files may have the old ones."""

WIDENING = "typeWidening"
"""The table feature by which readers know of that."""

DEFAULTS = "allowColumnDefaults"
"""The table feature by which writers know that a column that they leave out has a `DEFAULT`."""

Field = Mapping[str, Any]
"""A field of a schema: `name`, `type`, `nullable`, `metadata`."""

INSIDE = {"array": ("elementType",), "map": ("keyType", "valueType")}
"""Where an array and a map have their types."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a version of a table."""

    fields: tuple[Field, ...]
    mapped: bool
    """Do columns have names of their own in files, so that one may be renamed or dropped without a change of any file?"""


def kinds_of_words(features: Collection[str]) -> tuple[str, ...]:
    """Return the names in metadata under which fields of a table with these features may say something of themselves."""
    return (COMMENT, DEFAULT) if DEFAULTS in features else (COMMENT,)


def defaults_of(schema: str) -> dict[str, str]:
    """Return the defaults of columns, which are JSON here, by name. Only those of a table itself have one."""
    fields = json.loads(schema)["fields"]
    return {one["name"]: one["metadata"][DEFAULT] for one in fields if DEFAULT in one["metadata"]}


def with_defaults(schema: str, defaults: Mapping[str, str]) -> str:
    """Return columns, as JSON, with these defaults by name, and no others."""
    columns = json.loads(schema)
    for one in columns["fields"]:
        said = {name: word for name, word in one["metadata"].items() if name != DEFAULT}
        one["metadata"] = said | ({DEFAULT: defaults[one["name"]]} if one["name"] in defaults else {})
    return json.dumps(columns)


def physical(field: Field) -> str:
    """Return the name that a field has in files."""
    return str((field.get("metadata") or {}).get(PHYSICAL_NAME, field["name"]))


def fields_of(kind: Any) -> Iterator[Field]:
    """Yield the fields inside a type, outer ones first."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        yield field
        yield from fields_of(field["type"])
    for part in INSIDE.get(kind["type"], ()):
        yield from fields_of(kind[part])


def loose(field: Field, *, mapped: bool, kept: tuple[str, ...] = (COMMENT,)) -> dict[str, Any]:
    """Return a field that takes null, with what is `kept` and what its files need of its metadata.

    `mapped`: it keeps its name and id in files.
    """
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
    """Return of a type what values in files go by: names, names in files, types; not nullability, words or ids."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return tuple((field["name"], physical(field), shape(field["type"])) for field in kind["fields"])
    return (kind["type"], *(shape(kind[part]) for part in INSIDE.get(kind["type"], ())))


def words(kind: Any) -> str:
    """Say a type in a message."""
    return kind if isinstance(kind, str) else str(kind["type"])
