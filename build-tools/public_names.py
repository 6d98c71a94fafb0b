"""Names that clusters, dashboards, scripts and stored states depend on, one in each line.

    python build-tools/public_names.py > tests/architecture/public_names.txt    after a name was added

A test compares the file with the code, so that no name changes unnoticed. Removing a name breaks users: keep the old one.
The keys of a stored state are not listed: documents of earlier builds contain them (tests/support/builds).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import errors_page
from pydantic import BaseModel

from backfill_api import environment, names
from backfill_api.crd import fields, schema
from backfill_api.status.conditions import CONDITION_TYPES, REASONS
from backfill_api.status.ending import Ending
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import Receipt
from backfill_api.wire import Ack, CommandRequest
from backfill_operator.job_metrics import LABELS
from backfill_operator.metrics import Metrics

DRIVER_METRICS = Path(__file__).parent.parent / "spark_app" / "backfill_spark" / "control" / "metrics.py"
METRIC = re.compile(r'"(backfill_[a-z_]+)"')
MESSAGES: tuple[type[BaseModel], ...] = (Ack, CommandRequest, Ending, Progress, Receipt)


def public_names() -> list[str]:
    """Return each name with its kind, sorted; fields have their type, errors their exit code and retry class."""
    return sorted({*_fields(), *_reasons(), *_metrics(), *_json_keys(), *_constants()})


def _fields() -> Iterator[str]:
    properties = schema.open_api_schema()["properties"]
    for part in ("spec", "status"):
        for row in fields.rows(properties[part], part):
            yield f"field {row.path}: {row.type}"


def _reasons() -> Iterator[str]:
    yield from (f"condition {name}" for name in CONDITION_TYPES)
    yield from (f"reason {name}" for name in REASONS)
    for kind in errors_page.classes():
        yield f"error {kind.reason}: exit {kind.exit_code}, {'retryable' if kind.retryable else 'final'}"


def _metrics() -> Iterator[str]:
    yield from (f"metric of the operator {metric.name}" for metric in Metrics().registry.collect())
    yield from (f"metric of a job {name}: {', '.join(labels) or 'no labels'}" for name, labels in LABELS.items())
    yield from (f"metric of the driver {name}" for name in METRIC.findall(DRIVER_METRICS.read_text()))


def _json_keys() -> Iterator[str]:
    for model in MESSAGES:
        parts = model.model_json_schema(by_alias=True)
        for owner, part in {model.__name__: parts, **parts.get("$defs", {})}.items():
            yield from (f"key {owner}.{key}" for key in part.get("properties", {}))


def _constants() -> Iterator[str]:
    for module in (names, environment):
        values: dict[str, Any] = vars(module)
        yield from (f"name {value}" for name, value in values.items() if name.isupper() and isinstance(value, str))


if __name__ == "__main__":
    print("\n".join(public_names()))
