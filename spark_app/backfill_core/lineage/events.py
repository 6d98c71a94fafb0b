"""Events of one run: START when the driver starts, RUNNING while it works, one event at the end.

The schema is that of OpenLineage 2-0-2, and of its facets 1-0-1 (errorMessage) and 2-0-4 (jobType).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from backfill_api.timestamps import rfc3339_ms

EventType = Literal["START", "RUNNING", "COMPLETE", "ABORT", "FAIL"]

RUNNING_EVERY_S: Final = 300.0
"""Seconds between two RUNNING events: catalogs show a run without events as lost after longer times."""

PRODUCER: Final = "https://backfill.dev"
SCHEMA: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACETS: Final = "https://openlineage.io/spec/facets"
MESSAGE_CHARACTERS_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table or a topic, by the naming rules of OpenLineage."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class LineageRun:
    """Facts that all events of a run share."""

    run_id: str
    """UUID of the run."""

    namespace: str
    job: str
    source: Dataset
    target: Dataset
    streaming: bool = False
    """True if the job follows its source without an end."""


def running_due(last_s: float | None, now_s: float) -> bool:
    """Return whether a RUNNING event is due: at the first progress, then every `RUNNING_EVERY_S`.

    Args:
        last_s: Monotonic time of the last one; `None` before the first.
        now_s: Monotonic time.
    """
    return last_s is None or now_s - last_s >= RUNNING_EVERY_S


def type_of_end(outcome: str) -> EventType:
    """Return the type of the last event. A stopped run is aborted, because another run continues the job."""
    return "COMPLETE" if outcome == "Complete" else "ABORT" if outcome == "Stopped" else "FAIL"


def event(run: LineageRun, kind: EventType, wall_ms: int, *, problem: str = "") -> dict[str, Any]:
    """Return an event as JSON.

    Args:
        run: The run.
        kind: Type of the event.
        wall_ms: Time of the event, in milliseconds since 1970.
        problem: Reason and message of a failure.
    """
    facets = {"errorMessage": _facet("1-0-1", "ErrorMessageRunFacet", _error(problem))} if problem else {}
    job_type = {
        "processingType": "STREAMING" if run.streaming else "BATCH",
        "integration": "BACKFILL",
        "jobType": "JOB",
    }
    return {
        "eventType": kind,
        "eventTime": rfc3339_ms(wall_ms),
        "run": {"runId": run.run_id, "facets": facets},
        "job": {
            "namespace": run.namespace,
            "name": run.job,
            "facets": {"jobType": _facet("2-0-4", "JobTypeJobFacet", job_type)},
        },
        "inputs": [{"namespace": run.source.namespace, "name": run.source.name}],
        "outputs": [{"namespace": run.target.namespace, "name": run.target.name}],
        "producer": PRODUCER,
        "schemaURL": SCHEMA,
    }


def _error(problem: str) -> dict[str, str]:
    return {"message": problem[:MESSAGE_CHARACTERS_MAX], "programmingLanguage": "PYTHON"}


def _facet(version: str, name: str, fields: dict[str, str]) -> dict[str, str]:
    return {"_producer": PRODUCER, "_schemaURL": f"{FACETS}/{version}/{name}.json#/$defs/{name}"} | fields
