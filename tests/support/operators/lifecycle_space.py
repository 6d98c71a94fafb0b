"""The observations of the exhaustive suite: every part combined with every other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any, TypeVar

import pytest
from support.operators.observations import NAME, T0, ended, observed, pod, report, running, spec

from backfill_api.names import DRAIN_FINALIZER
from backfill_api.status.conditions import Condition
from backfill_api.status.plan import Plan
from backfill_api.status.status import (
    Attempt,
    AttemptKind,
    BackfillStatus,
    Control,
    PastAttempt,
    PendingCommand,
    StopRequest,
)
from backfill_api.timestamps import rfc3339
from backfill_api.wire import Ack, Command
from backfill_core.lifecycle.inputs.approval import planned_of
from backfill_core.lifecycle.observation import DriverPod, DriverReport, Observation, SpecRefused, WaitingExecutors

T = TypeVar("T")

BEFORE, LONG_AGO = rfc3339(T0 - 5_000), rfc3339(T0 - 90_000)
PLAN = Plan(
    rows=1, bytes=1, files=1, splits=1, version=1, estimated_seconds=1, estimated_seconds_low=1,
    estimated_seconds_high=1, change_feed=True,
)  # fmt: skip

SPECS: dict[str, Any] = {
    "plain": spec(),
    "paused": spec(desiredState="Paused"),
    "throttled": spec(throttle={"rowsPerSecond": 5}),
    "suspended": spec(suspend=True),
    "manual": spec(approval="Manual"),
    "approved": spec(approval="Manual", approved=True),
    "deadline": spec(activeDeadlineSeconds=30),
    "immediate": spec(deletionPolicy="Immediate", retainDriver="Never"),
    "no retries": spec(backoffLimit=0, ttlSecondsAfterFinished=0, startupTimeoutSeconds=30),
    "refused": SpecRefused(("spec.source: is required",)),
}


def _attempt(state: str, **fields: Any) -> Attempt:
    given = {"number": 1, "state": state, "pod_name": f"{NAME}-1-driver", "start_time": LONG_AGO}
    return Attempt.model_validate(given | ({"pod_uid": "pod-1"} if state != "Planned" else {}) | fields)


def _status(attempt: Attempt | None, **fields: Any) -> BackfillStatus:
    given: dict[str, Any] = {"observed_generation": 1, "attempt": attempt, "attempts": 1 if attempt else 0}
    return BackfillStatus(**({"start_time": LONG_AGO} | given | fields))


def _over(type_: str, reason: str) -> tuple[Condition, ...]:
    return tuple(
        Condition(type=condition, status="True", reason=reason, last_transition_time=BEFORE, observed_generation=1)
        for condition in (type_, "Finished")
    )


def _past(reason: str, code: int | None = None, kind: AttemptKind = "Run") -> tuple[PastAttempt, ...]:
    return (PastAttempt(number=1, kind=kind, start=LONG_AGO, end=BEFORE, reason=reason, exit_code=code),)


UP = _attempt("Created", ready_time=LONG_AGO)
PENDING = Control(
    desired_revision=3, attempt=1, paused="History", pending_since=BEFORE,
    pending=(PendingCommand(revision=3, command=Command(type="Pause")),),
)  # fmt: skip
STATUSES: dict[str, BackfillStatus] = {
    "new": BackfillStatus(),
    "planned": _status(_attempt("Planned")),
    "starting": _status(_attempt("Created")),
    "running": _status(UP, control=Control(attempt=1)),
    "command pending": _status(UP, control=PENDING),
    "stopping, commanded": _status(
        UP.model_copy(update={"stop": StopRequest(reason="Suspended", time=BEFORE, revision=3)}),
        control=PENDING.model_copy(
            update={"pending": (PendingCommand(revision=3, command=Command(type="Stop")),), "paused": None}
        ),
    ),
    "stopping, late": _status(UP.model_copy(update={"stop": StopRequest(reason="Restarted", time=LONG_AGO)})),
    "planning": _status(_attempt("Created", kind="Plan")),
    "planned, unapproved": _status(
        _attempt("Ended", kind="Plan"), plan=PLAN, plan_of=planned_of(spec()), history=_past("Planned", 0, "Plan")
    ),
    "planned, of another spec": _status(
        _attempt("Ended", kind="Plan"), plan=PLAN, plan_of="0" * 16, history=_past("Planned", 0, "Plan")
    ),
    "approved, not launched": _status(
        _attempt("Planned", number=2), plan=PLAN, plan_of="0" * 16, approved_of="0" * 16, history=_past("Planned", 0, "Plan")
    ),
    "failed once": _status(_attempt("Ended"), failures=1, history=_past("Infrastructure")),
    "suspended": _status(_attempt("Ended"), start_time=None, history=_past("Suspended", 10)),
    "complete": _status(
        _attempt("Ended"), history=_past("Complete", 0), completion_time=BEFORE, conditions=_over("Complete", "Complete")
    ),
    "failed": _status(
        _attempt("Ended"), history=_past("StateMismatch", 40), completion_time=BEFORE, failures=1,
        conditions=_over("Failed", "StateMismatch"),
    ),
}  # fmt: skip

NO_IMAGE = WaitingExecutors("ImagePullBackOff", "no such image")
PODS: dict[str, tuple[DriverPod, ...]] = {
    "none": (),
    "pending": (pod(),),
    "no image": (pod(waiting="ImagePullBackOff", waiting_message="no such image", created_ms=T0 - 700_000),),
    "of another spec": (pod(launched_of="of before", unscheduled="no node has room"),),
    "started, of another spec": (pod(launched_of="of before", started=True),),
    "ready": (running(launched_of="of before"),),
    "executors wait": (running(executors_of="of before", executors=NO_IMAGE),),
    "no executor runs": (running(started=True, executors_of="of before", executors=replace(NO_IMAGE, running=0)),),
    "an executor runs": (running(executors_of="of before", executors=replace(NO_IMAGE, running=1)),),
    "no node for executors": (running(ready=False, executors=WaitingExecutors(message="0/1 nodes")),),
    "not ready": (running(ready=False),),
    "ending": (running(deletion_ms=T0 + 5_000),),
    "stuck": (running(ready=False, deletion_ms=T0 - 100_000),),
    "done": (ended(0),),
    "stopped": (ended(10),),
    "wrong state": (ended(40),),
    "storage full": (ended(60),),
    "killed": (ended(137),),
    "rejected": (ended(None, reason="OutOfpods"),),
    "evicted": (ended(None, reason="Evicted"),),
    "another owner's": (running(owner_uid="uid-2"),),
    "restored": (running(uid="restored", owner_uid=None, backfill_uid="uid-0"),),
    "restored, another number": (running(), running(3, owner_uid=None, backfill_uid="uid-0")),
    "newer": (ended(137), running(2)),
    "unnumbered too": (running(), replace(running(7), attempt=None)),
}
REPORTS: dict[str, DriverReport | None] = {
    "silence": None,
    "works": report(),
    "acks": report(
        paused="History", revision=3, acks=(Ack(attempt=1, epoch=9, revision=3, outcome="Applied"),)
    ),
    "superseded": report(
        paused="All", revision=8, acks=(Ack(attempt=1, epoch=9, revision=3, outcome="Superseded"),),
        unreachable_since_ms=T0 - 60_000,
    ),
}  # fmt: skip


PARTS = 7
"""A prime that divides no number of choices, so that a part has each choice together with each other one."""

SHARES = [
    pytest.param((0,), id="a seventh"), pytest.param(tuple(range(1, PARTS)), id="the others", marks=pytest.mark.rest),
]  # fmt: skip
"""The combinations in two parts: `make test` has every seventh one, with other neighbours for each spec and status."""


def share_of(share: tuple[int, ...], combinations: Iterable[T], *, start: int = 0) -> list[T]:
    """Return the combinations of a share."""
    return [combination for number, combination in enumerate(combinations, start) if number % PARTS in share]


def observations_of(spec_name: str, status_name: str) -> Iterator[tuple[str, Observation]]:
    """Yield every observation with this spec and this stored status, each with a name that lists its parts."""
    for pods, reported, live, deleted in product(PODS, REPORTS, (False, True), (False, True)):
        observation = observed(
            spec=SPECS[spec_name], status=STATUSES[status_name], pods=PODS[pods], report=REPORTS[reported], live=live,
            finalizers=(DRAIN_FINALIZER,) if deleted else (), deletion_ms=T0 - 1_000 if deleted else None,
        )  # fmt: skip
        parts = [spec_name, status_name, pods, reported, "live" if live else "cached", "deleted" if deleted else "kept"]
        yield " / ".join(parts), observation
