"""The parts of the chart backfill-tenant that equal those of backfill-operator: templates, rules, and the schema of values."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

CHARTS = Path(__file__).parent.parent / "charts"
OPERATOR, TENANT = CHARTS / "backfill-operator", CHARTS / "backfill-tenant"
COPIES = (
    "templates/_helpers.tpl", "templates/_tenant.tpl", "files/operator-rules.yaml", "files/driver-rules.yaml", "files/claim-rules.yaml",
    "files/queue-rules.yaml",
)  # fmt: skip
"""A chart reads only files in its own folder."""

NAMES = {"images": ("pullSecrets",), "networkPolicy": ("enabled", "metricsFrom", "sparkUiFrom", "egress")}
TENANT_ONLY = ("createNamespaces", "podSecurity")


def render_schema() -> str:
    """Return the schema of the tenant chart's values, with the operator chart's definitions."""
    given: dict[str, Any] = json.loads((OPERATOR / "values.schema.json").read_text())
    whole = given["properties"]
    name = {"$ref": "#/definitions/name"}
    tenant = {key: value for key, value in whole["tenant"]["properties"].items() if key not in TENANT_ONLY}
    properties: dict[str, Any] = {
        "global": whole["global"],
        "operator": _closed({"release": name, "namespace": {"$ref": "#/definitions/label"}}),
        "images": _closed(_only(whole, "images")),
        "queues": whole["queues"],
        "commonLabels": whole["commonLabels"],
        "tenant": _closed(tenant),
        "networkPolicy": _closed(_only(whole, "networkPolicy")),
    }
    made = given | {"properties": properties}
    return json.dumps(made, indent=2) + "\n"


def _only(whole: dict[str, Any], topic: str) -> dict[str, Any]:
    return {name: whole[topic]["properties"][name] for name in NAMES[topic]}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def generated() -> Iterator[tuple[Path, Callable[[], str]]]:
    """Yield each file with the function that returns its text."""
    for name in COPIES:
        yield TENANT / name, partial((OPERATOR / name).read_text)
    yield TENANT / "values.schema.json", render_schema
