"""The JSON Schema of a manifest, for editors: `backfill schema` prints it.

The schema completes names, shows descriptions and marks unknown fields while the user types. Rules between fields are CEL rules
of the CRD, which an editor does not evaluate: `backfill validate` checks them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from backfill_api.crd.schema import open_api_schema
from backfill_api.names import API_VERSION, KIND

SCHEMA_NAME: Final = "backfill.schema.json"
"""Name of the file, which manifests refer to."""

SCHEMA_FILE: Final = Path(__file__).resolve().parents[2] / SCHEMA_NAME

NAME_PATTERN: Final = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"

Schema = dict[str, Any]


def editor_schema() -> Schema:
    """Return the JSON Schema of a manifest, with the plug-ins that are installed here."""
    of_cluster = open_api_schema()
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": KIND,
        "description": of_cluster["description"],
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            "metadata": {
                "description": "Name and namespace, as of every Kubernetes object.",
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string", "maxLength": 253, "pattern": NAME_PATTERN}},
            },
            "spec": _closed(of_cluster["properties"]["spec"]),
            "status": {"description": "The observed state; written by the operator.", "type": "object"},
        },
        "additionalProperties": False,
    }


def modeline(schema: str) -> str:
    """Return the comment by which editors with the YAML language server find the schema.

    Args:
        schema: Path of the schema, relative to the manifest.
    """
    return f"# yaml-language-server: $schema={schema}"


def render() -> str:
    """Return the text of crds/backfill.schema.json."""
    return json.dumps(editor_schema(), indent=1, ensure_ascii=False) + "\n"


def _closed(schema: Schema) -> Schema:
    """Return a cluster's schema as a JSON Schema: without the cluster's keywords, and closed to unknown fields."""
    made: Schema = {name: part for name, part in schema.items() if not name.startswith("x-kubernetes-")}
    made.pop("format", None)  # int64 is a cluster's format
    if "properties" in made:
        made["properties"] = {name: _closed(part) for name, part in made["properties"].items()}
        made["additionalProperties"] = False
    elif isinstance(made.get("additionalProperties"), dict):
        made["additionalProperties"] = _closed(made["additionalProperties"])
    if "items" in made:
        made["items"] = _closed(made["items"])
    return made
