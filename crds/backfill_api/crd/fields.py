"""The field reference, made from the CRD's schema: `python -m backfill_api.crd.fields` prints it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backfill_api.crd.schema import open_api_schema
from backfill_api.names import API_VERSION, GROUP, KIND
from backfill_api.spec.sources import Source
from backfill_api.spec.strategies import Strategy
from backfill_api.spec.targets import Target
from backfill_api.spec.union import TaggedUnion
from backfill_api.status.conditions import CONDITION_TYPES, REASONS

FIELDS_FILE: Final = Path(__file__).resolve().parents[3] / "docs" / "fields.md"


def _changeable() -> str:
    """Return the fields of sources, targets and strategies that may change."""
    ends: tuple[tuple[str, type[TaggedUnion]], ...] = (("source", Source), ("target", Target), ("strategy", Strategy))
    return ", ".join(f"`{end}.{field}`" for end, union in ends for field in union.changeable())


INTRODUCTION: Final = f"""\
<!-- Generated from crds/backfill_api by `make docs`; do not edit. -->
# Fields

Every field of a `{KIND}` (`apiVersion: {API_VERSION}`). A field that is not listed is refused, with a suggestion.
Durations and rates are whole numbers with the unit in the name. A union is written `{{type: X, x: {{…}}}}`: `type` names the one
member that may be set.

`source`, `transform`, `target`, `strategy` and `jobId` cannot be changed after the object is created: the state in the target belongs
to them. These fields may change: {_changeable()}.
"""

METADATA: Final = f"""\
## metadata

| Field | Meaning |
|---|---|
| `metadata.name` | Required. Lower-case letters, digits, `-` and `.`; at most 253 characters. |
| `metadata.namespace` | Default `default`; at most 63 characters. |
| `metadata.annotations["{GROUP}/override"]` | JSON with `desiredState`, `pause`, `throttle`, `maxInFlight`, `splitTargetSeconds`, `chunkRows`, `executors` or `suspend`, which take precedence over the spec. |
| `metadata.annotations["{GROUP}/changed-by"]` | JSON with `by`, `note` and `time`: the author and the reason of a change, as the author claims them. |
| `metadata.annotations["{GROUP}/watched-until"]` | RFC 3339, at most a minute ahead: until then the status is written every two seconds. |
"""


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field, as the reference shows it."""

    path: str
    type: str
    default: str
    bounds: str
    meaning: str

    def __str__(self) -> str:
        """Write it as a row of a table."""
        cells = (f"`{self.path}`", self.type, self.default, self.bounds, self.meaning)
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def rows(schema: dict[str, Any], path: str) -> Iterator[FieldRow]:
    """Return the fields below a place in the schema, each before its own fields."""
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        default = "**required**" if name in required else _default(field)
        yield FieldRow(here, _type(field), default, _bounds(field), field.get("description", ""))
        below = field["items"] if field["type"] == "array" else field
        yield from rows(below, f"{here}[i]" if field["type"] == "array" else here)


def render() -> str:
    """Return the text of docs/fields.md."""
    properties = open_api_schema()["properties"]
    parts = [INTRODUCTION, METADATA]
    for part in ("spec", "status"):
        parts.append(f"## {part}\n\n{properties[part]['description']}\n\n" + _table(rows(properties[part], part)))
    parts.append("## Condition types\n\n" + _meanings("Type", CONDITION_TYPES))
    parts.append("## Reasons\n\n" + _meanings("Reason", REASONS))
    return "\n".join(parts)


def _table(fields: Iterator[FieldRow]) -> str:
    head = "| Field | Type | Default | Bounds | Meaning |\n|---|---|---|---|---|\n"
    return head + "".join(f"{field}\n" for field in fields)


def _meanings(title: str, meanings: Any) -> str:
    return f"| {title} | Meaning |\n|---|---|\n" + "".join(
        f"| `{word}` | {meaning} |\n" for word, meaning in meanings.items()
    )


def _type(field: dict[str, Any]) -> str:
    match field["type"]:
        case "array":
            return f"list of {_type(field['items'])}"
        case "object" if "additionalProperties" in field:
            return f"map of {_type(field['additionalProperties'])}"
        case "object" if "properties" not in field:
            return "object, as in Kubernetes"
        case name:
            return str(name)


def _default(field: dict[str, Any]) -> str:
    if field.get("default") in (None, {}, []):
        return ""
    value = field["default"]
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def _bounds(field: dict[str, Any]) -> str:
    """Return which values are accepted: the bounds of a list, then those of its items."""
    inner = field.get("items") or field.get("additionalProperties") or {}
    parts = []
    if "enum" in field:
        parts.append(", ".join(f"`{value}`" for value in field["enum"]))
    if "minimum" in field:
        parts.append(f"{field['minimum']:,} to {field['maximum']:,}")
    for keyword, unit in (("maxLength", "characters"), ("maxItems", "items"), ("maxProperties", "entries")):
        if keyword in field:
            parts.append(f"at most {field[keyword]:,} {unit}")
    if inner.get("type") in ("string", "integer") and (text := _bounds(inner)):
        parts.append(f"each {text}")
    return "; ".join(parts)


def main() -> int:
    """Print the reference, with the plug-ins that are installed here."""
    sys.stdout.write(render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
