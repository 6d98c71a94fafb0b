"""Documents that this build writes for other builds: statuses, driver messages, commands, Backfills for a driver, states.

tests/support/builds has one file for each build whose documents the current build must read. The program also writes the
documents of an earlier build, from a work tree of that build:

    PYTHONPATH=$TREE/crds:$TREE/spark_app:$TREE/operator:$TREE/tests:$TREE/build-tools python -P build-tools/contract_documents.py $TREE
"""

import json
import sys
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import lifecycle_page
import yaml
from pydantic import BaseModel
from support.simulation.model import model_of, modelled
from support.simulation.scenario import scenario
from support.simulation.world import World

from backfill_api.load import load_backfill
from backfill_api.status.ending import Ending
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import Receipt
from backfill_api.status.status import BackfillStatus
from backfill_api.wire import Ack, CommandRequest
from backfill_core.job.state import JobState
from backfill_core.lifecycle.actions import RefetchPods
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.config_map import backfill_document

PHASE_MAX, STATES_MAX, SEEDS = 3, 8, 12
OTHERS = {"Counter"}
"""Strategies that exist only in tests."""

WORDS = {"token_hashes": "0" * 32, "plan_of": "0" * 16, "approved_of": "0" * 16}
"""Values of fields with a fixed format."""

COMMANDS = [
    {"type": "Pause", "pause": {}}, {"type": "Pause", "pause": {"scope": "All", "force": True}}, {"type": "Resume"},
    {"type": "Throttle", "throttle": {"rowsPerSecond": 5, "forSeconds": 60}}, {"type": "Throttle", "throttle": {}}, {"type": "Verify"},
    {"type": "Stop", "stop": {"force": True}},
]  # fmt: skip


def main(tree: Path) -> None:
    """Print all documents as JSON."""
    made = {
        "statuses": [*statuses(), written(filled(BackfillStatus))],
        "progress": written(filled(Progress)),
        "receipt": written(filled(Receipt)),
        "ack": written(filled(Ack)),
        "endings": [filled(Ending).text(), Ending(outcome="Complete").text()],
        "commands": [
            written(CommandRequest.model_validate({"attempt": 1, "revision": 1, "command": command}))
            for command in COMMANDS
        ],
        "commandSchema": CommandRequest.model_json_schema(),
        "backfills": [backfill(path) for path in sorted((tree / "examples").glob("*.yaml"))],
        "states": {strategy: states(strategy) for strategy in sorted({*modelled()} - OTHERS)},
    }
    json.dump(made, sys.stdout, indent=1, sort_keys=True)


def statuses() -> list[Any]:
    """Return statuses from the exploration of the lifecycle, one of each shape."""
    by_form: dict[str, Any] = {}
    for _, _, decision in lifecycle_page.decisions():
        if any(isinstance(action, RefetchPods) for action in decision.actions):
            continue
        status = written(decision.status)
        key = f"{status.get('phase')} {sorted(status)} {sorted(status.get('attempt') or {})}"
        by_form.setdefault(key, status)
    phases = sorted({str(status.get("phase")) for status in by_form.values()})
    of_phase = [[by_form[key] for key in sorted(by_form) if key.startswith(f"{phase} ")] for phase in phases]
    return [status for those in of_phase for status in some(those, PHASE_MAX)]


def backfill(path: Path) -> Any:
    """Return an example, the document that its driver receives, and the spec hash in its state."""
    document = yaml.safe_load(path.read_text())
    made = load_backfill(document)
    launch = Launch("shop", made.metadata.name, "uid", 1, "Run", made.spec, Installation("backfill:1"))
    return {"name": path.stem, "document": document, "forDriver": backfill_document(launch), "specHash": made.spec_hash}


def states(strategy: str) -> list[str]:
    """Return states that jobs of simulated worlds store, the shortest one of each shape."""
    by_form: dict[str, str] = {}
    encode = JobState.encode

    def noted(state: JobState) -> str:
        text = encode(state)
        form = shape(json.loads(text))
        by_form[form] = min(by_form.get(form, text), text, key=len)
        return text

    JobState.encode = noted  # type: ignore[assignment, method-assign]
    try:
        for seed in range(SEEDS):
            World(scenario(strategy, model_of(strategy).MODES, seed)).run()
    finally:
        JobState.encode = encode  # type: ignore[assignment, method-assign]
    return some(sorted(by_form.values(), key=len), STATES_MAX)


def some(items: list[Any], number: int) -> list[Any]:
    """Return about `number` items of a list, spread over its length."""
    return items[:: max(1, -(-len(items) // number))]


def shape(value: Any) -> str:
    """Return the structure of a document, without its values."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{shape(item)}" for name, item in sorted(value.items())) + "}"
    return f"[{shape(value[0])}]" if isinstance(value, list) and value else type(value).__name__


def written(model: BaseModel) -> Any:
    """Return the JSON document of a model."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def filled(model: type[BaseModel]) -> Any:
    """Return a model with values in all fields, nested ones included."""
    return model.model_validate(values_of(model), by_name=True)


def values_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return a value for each field."""
    if model is CommandRequest or model.__name__ == "Command":
        return {"type": "Pause", "pause": {"scope": "All"}}
    return {name: value_of(field.annotation, name) for name, field in model.model_fields.items()}


def value_of(kind: Any, name: str) -> Any:
    """Return a value of a type that is not the default of any field."""
    origin, given = get_origin(kind), get_args(kind)
    if origin is Literal:
        return given[-1]
    if origin in (Union, types.UnionType):
        return value_of(next(member for member in given if member is not type(None)), name)
    if origin is tuple:
        return [value_of(given[0], name)]
    if hasattr(kind, "__metadata__"):
        return value_of(given[0], name)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return values_of(kind)
    moment = name.endswith(("_time", "_since", "_until", "_at")) or name in ("eta", "time", "start", "end")
    string = WORDS.get(name) or ("2026-01-01T00:00:00Z" if moment else "Word")
    return {str: string, int: 7, bool: True, float: 1.5}[kind]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent)
