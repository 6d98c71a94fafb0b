"""The CRD, made from the models: `python -m backfill_api.crd.schema` prints it.

pydantic's JSON schema is not one that a cluster accepts: no `$ref`, no `type` inside `anyOf`, no `const`, closed
objects by pruning instead of `additionalProperties: false`. Rules that types cannot express are CEL rules,
defined next to the validators of the models.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from backfill_api.names import CATEGORIES, GROUP, KIND, LIST_KIND, PLURAL, SHORT_NAMES, SINGULAR, VERSION
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import BackfillStatus

CRD_FILE: Final = Path(__file__).resolve().parents[2] / "backfills.yaml"
CRD_BYTES_MAX: Final = 128 * 1024
"""Most bytes of the CRD as JSON, which the annotation of `kubectl apply` holds: half of the size that it may have."""
HEADER: Final = "# Generated from crds/backfill_api by `make docs`; do not edit.\n"

Schema = dict[str, Any]

KEPT: Final = (
    "type", "enum", "format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
    "minProperties", "maxProperties", "required", "x-kubernetes-validations",
)  # fmt: skip
"""Keywords that mean the same in both schemas."""

CONDITION_BY_TYPE: Final = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


def custom_resource_definition() -> dict[str, Any]:
    """Return the CRD as what YAML parses to."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": LIST_KIND,
                "plural": PLURAL,
                "singular": SINGULAR,
                "shortNames": list(SHORT_NAMES),
                "categories": list(CATEGORIES),
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _printer_columns(),
                    "schema": {"openAPIV3Schema": open_api_schema()},
                }
            ],
        },
    }


def open_api_schema() -> Schema:
    """Return the structural schema of a Backfill."""
    status = structural(BackfillStatus.model_json_schema(by_alias=True))
    _drop_defaults(status)
    status["properties"]["conditions"] |= CONDITION_BY_TYPE
    # A new object must not look finished to tools that compare generations: Flux, Argo CD, kstatus.
    status["default"] = {"observedGeneration": -1}
    spec = structural(BackfillSpec.model_json_schema(by_alias=True))
    return {
        "description": "Fills a table from another one that keeps changing: exactly once, sealed every second, under control.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of this schema."},
            "kind": {"type": "string", "description": "Backfill."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }


def structural(schema: Schema) -> Schema:
    """Turn pydantic's JSON schema of a model into a structural one.

    Raises:
        ValueError: a field has a type that a CRD cannot express: a float, or a union of two types.
    """
    return _converted(schema, schema.get("$defs", {}))


def render() -> str:
    """Return the text of crds/backfills.yaml."""
    body = yaml.dump(custom_resource_definition(), Dumper=_Dumper, sort_keys=False, width=140, allow_unicode=True)
    return HEADER + body


# ------------------------------------------------------------------ conversion
def _converted(schema: Schema, definitions: Schema) -> Schema:
    schema = _resolved(schema, definitions)
    if schema.get("type") == "number":
        raise ValueError(f"a CRD has no floats: {schema}")
    made: Schema = {}
    if "description" in schema:
        made["description"] = " ".join(schema["description"].split())
    made |= {name: schema[name] for name in KEPT if name in schema}
    if made.get("type") == "integer":
        made["format"] = "int64"
    if schema.get("default") is not None:
        # An empty object is enough: the defaults of its fields apply.
        made["default"] = {} if isinstance(schema["default"], dict) else schema["default"]
    if made.get("type") == "array":
        made["x-kubernetes-list-type"] = "atomic"
        made["items"] = _converted(schema["items"], definitions)
    if "properties" in schema:
        made["properties"] = {name: _converted(field, definitions) for name, field in schema["properties"].items()}
    elif made.get("type") == "object":
        made |= _map(schema.get("additionalProperties"), definitions)
    return made


def _map(values: Any, definitions: Schema) -> Schema:
    """Return the schema part of a mapping with free names."""
    if isinstance(values, dict):
        return {"additionalProperties": _converted(values, definitions)}
    return {"x-kubernetes-preserve-unknown-fields": True}


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    """Follow a reference and remove null; keywords next to the reference take precedence."""
    beside = {name: value for name, value in schema.items() if name not in ("$ref", "anyOf", "const")}
    if "$ref" in schema:
        return _resolved(definitions[schema["$ref"].rsplit("/", 1)[1]], definitions) | beside
    if "anyOf" in schema:
        real = [part for part in schema["anyOf"] if part.get("type") != "null"]
        if len(real) != 1:
            raise ValueError(f"a CRD has no unions of types: {schema}")
        return _resolved(real[0], definitions) | beside
    if "const" in schema:
        return beside | {"enum": [schema["const"]]}
    return schema


def _drop_defaults(schema: Schema) -> None:
    """Remove all nested defaults: a status reports only observed values."""
    schema.pop("default", None)
    for field in schema.get("properties", {}).values():
        _drop_defaults(field)
    if "items" in schema:
        _drop_defaults(schema["items"])


# ------------------------------------------------------------------ what kubectl shows
def _printer_columns() -> list[dict[str, Any]]:
    return [
        _column("Phase", "string", ".status.phase"),
        _column("Progress", "integer", ".status.progress.percent", "Part of the whole job that is done, percent."),
        _column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        _column("Attempt", "integer", ".status.attempt.number"),
        _column("Rows", "integer", ".status.progress.rowsDone", wide=True),
        _column("Rows/s", "integer", ".status.progress.rowsPerSecond", wide=True),
        # A `date` is shown as an age, and one that is still to come as `<invalid>`.
        _column("ETA", "string", ".status.progress.eta", "When the whole job will be done, RFC 3339.", wide=True),
        _column("Lag", "integer", ".status.progress.lagSeconds", "Seconds behind the source.", wide=True),
        _column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', wide=True),
        _column("Driver", "string", ".status.attempt.podName", wide=True),
        _column("Age", "date", ".metadata.creationTimestamp"),
    ]


def _column(name: str, kind: str, path: str, description: str = "", *, wide: bool = False) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    if description:
        column["description"] = description
    if wide:
        column["priority"] = 1
    return column


class _Dumper(yaml.SafeDumper):
    """Writes no anchors: the same list twice is two lists, as in every other CRD."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def main() -> int:
    """Print the CRD, with the plug-ins that are installed here."""
    sys.stdout.write(render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
