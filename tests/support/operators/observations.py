"""Observations of a Backfill, made by hand for the tests of the lifecycle."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from support.cluster.kstatus import broken_rules

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.conditions import REASONS
from backfill_api.status.progress import Progress
from backfill_api.status.status import BackfillStatus, Control
from backfill_api.wire import Ack
from backfill_core.lifecycle.actions import Decision, LaunchDriver, SendCommand
from backfill_core.lifecycle.decide import decide
from backfill_core.lifecycle.naming import driver_name, number_of
from backfill_core.lifecycle.observation import DriverPod, DriverReport, Observation

NAME, UID = "orders", "uid-1"
T0 = 1_800_000_000_000
TABLES = {
    "source": {"type": "Delta", "delta": {"path": "/data/a", "key": ["id"]}},
    "target": {"type": "Delta", "delta": {"path": "/data/b"}},
}


def spec(**fields: Any) -> BackfillSpec:
    """Return a valid spec; fields in camelCase."""
    return BackfillSpec.model_validate(TABLES | fields)


PLAIN = spec()
"""A frozen spec, shared by thousands of observations."""


def observed(**fields: Any) -> Observation:
    """Return an observation of a new Backfill, with these fields replaced."""
    given: dict[str, Any] = {"namespace": "shop", "name": NAME, "uid": UID, "generation": 1, "spec": PLAIN}
    return Observation(**(given | fields))


def pod(attempt: int = 1, **fields: Any) -> DriverPod:
    """Return a driver pod of the Backfill."""
    given: dict[str, Any] = {
        "name": driver_name(NAME, attempt), "uid": f"pod-{attempt}", "owner_uid": UID, "attempt": attempt, "created_ms": T0,
    }  # fmt: skip
    return DriverPod(**(given | fields))


def running(attempt: int = 1, **fields: Any) -> DriverPod:
    """Return a driver pod that is up."""
    return pod(attempt, **({"phase": "Running", "ready": True} | fields))


def ended(exit_code: int | None, attempt: int = 1, **fields: Any) -> DriverPod:
    """Return a driver pod that ended."""
    phase = "Succeeded" if exit_code == 0 else "Failed"
    return pod(attempt, **({"phase": phase, "exit_code": exit_code} | fields))


def report(attempt: int = 1, **fields: Any) -> DriverReport:
    """Return the report of a driver at work; fields of its progress in snake case."""
    acks = fields.pop("acks", ())
    since_ms = fields.pop("unreachable_since_ms", None)
    given = {"phase": "Snapshot", "percent": 40, "rows_total": 100, "rows_done": 40, "table_version": 3, "epoch": 5}
    progress = Progress(**(given | fields))
    return DriverReport(attempt, T0, progress, None, acks, since_ms)


def conditions(status: BackfillStatus) -> dict[str, str]:
    """Return the conditions as type -> status."""
    return {condition.type: condition.status for condition in status.conditions}


def reason(status: BackfillStatus, type_: str = "Ready") -> str:
    """Return the reason of a condition."""
    return next(condition.reason for condition in status.conditions if condition.type == type_)


def resource(observation: Observation, status: BackfillStatus) -> dict[str, Any]:
    """Return the object as the API server would return it."""
    metadata = {"name": observation.name, "generation": observation.generation}
    if observation.deletion_ms is not None:
        metadata["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    return {"metadata": metadata, "status": stored(status)}


def stored(status: BackfillStatus) -> dict[str, Any]:
    """Return a status as the API server stores it."""
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


@lru_cache(maxsize=4096)
def check_status(status: BackfillStatus) -> None:
    """Check the invariants of a written status; equal statuses are checked once."""
    document = stored(status)
    assert broken_rules({"status": document}) == []
    assert {condition.reason for condition in status.conditions} <= set(REASONS)
    # A written status must be readable again: the API server checks it against the schema.
    assert BackfillStatus.model_validate(document) == status


def checked(observation: Observation, now_ms: int = T0) -> Decision:
    """Decide, and check the invariants of every decision."""
    decision = decide(observation, now_ms)
    assert decide(observation, now_ms) == decision
    launches = [action for action in decision.actions if isinstance(action, LaunchDriver)]
    assert len(launches) <= 1
    if launches:
        drivers = [pod_ for pod_ in observation.pods if number_of(observation.name, pod_.name)]
        alive = [pod_ for pod_ in drivers if not pod_.over and pod_.owner_uid in (observation.uid, None)]
        assert alive == []
        assert observation.deletion_ms is None or launches[0].procedure == "Close"
        assert decision.status.attempt is not None
        assert decision.status.attempt.number == launches[0].attempt
    names = [type(action).__name__ for action in decision.actions]
    if "LaunchDriver" in names or "SendCommand" in names:
        assert decision.status.attempt is not None
    if "LaunchDriver" in names:
        assert names[0] == "PersistIntent"
    assert "PersistIntent" not in names[1:]
    if "RefetchPods" in names:
        assert names == ["RefetchPods"]
        assert decision.status == observation.status
        assert not observation.live
    else:
        assert decision.status.observed_generation == observation.generation
        check_status(decision.status)
    assert decision.requeue_after_s is None or 0 <= decision.requeue_after_s <= 4_000_000_000
    return decision


def after(observation: Observation, decision: Decision, **fields: Any) -> Observation:
    """Return the next observation, with the decision's status stored."""
    return replace(observation, **({"status": decision.status, "live": False} | fields))


def sent(decision: Decision) -> list[tuple[int, str]]:
    """Return the commands that are sent, as revision and type."""
    return [
        (action.request.revision, action.request.command.type)
        for action in decision.actions
        if isinstance(action, SendCommand)
    ]


def control(decision: Decision) -> Control:
    """Return the control state."""
    assert decision.status.control is not None
    return decision.status.control


def acked(observation: Observation, decision: Decision, **progress: object) -> Observation:
    """Let the driver acknowledge every pending command."""
    acks = tuple(
        Ack(attempt=1, epoch=9, revision=command.revision, outcome="Applied") for command in control(decision).pending
    )
    newest = max((ack.revision for ack in acks), default=0)
    return after(observation, decision, report=report(acks=acks, **({"revision": newest} | progress)))
