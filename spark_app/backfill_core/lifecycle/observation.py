"""What the operator observed of one Backfill: all frozen values.

Times are milliseconds since 1970 UTC (`*_ms`), durations have their unit in the name. An observation may be stale or
incomplete: a stale one costs a round, never a second driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.ending import Ending
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import ReceiptSummary
from backfill_api.status.status import AttemptKind, BackfillStatus
from backfill_api.wire import Ack

PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]


@dataclass(frozen=True, slots=True)
class SpecRefused:
    """The spec cannot be read; a driver that runs goes on under the spec that it was started with."""

    errors: tuple[str, ...]
    """One line for each field: path, what is wrong, hint."""


@dataclass(frozen=True, slots=True)
class WaitingExecutors:
    """Executor pods of one driver that were made and do not start: why one of them does not, which stands for all."""

    waiting: str = ""
    """Why a container waits: `ImagePullBackOff`, `CreateContainerConfigError`…; empty: no node takes the pod."""

    message: str = ""
    """Of the container, else of the scheduler."""

    running: int | None = None
    """How many other executors run; None: not looked at."""


@dataclass(frozen=True, slots=True)
class DriverPod:
    """A pod that carries the Backfill's label, or the name that its driver has."""

    name: str
    uid: str
    owner_uid: str | None
    """UID of the controlling owner; a pod with another owner is not ours."""

    attempt: int | None
    """Number in its label; None: it has none, or the label is no number."""

    backfill_uid: str = ""
    """UID in its label; it stays when `kubectl delete --cascade=orphan` removes the owner."""

    kind: AttemptKind = "Run"
    phase: PodPhase = "Pending"
    ready: bool = False
    """Is its driver's container ready? Other containers of the pod do not count."""

    started: bool = False
    """Did its driver's container ever run?"""

    unready: str = ""
    """Which other container is not ready, and why; empty if all are."""

    held: str = ""
    """Which sidecar the driver's container waits for, and why; empty if it waits for none."""

    lingering: str = ""
    """Names of the containers that still run after its driver's has ended; empty if none does."""

    init_failed: str = ""
    """Which init container failed, with its exit code and message; empty if none did."""

    launched_of: str = ""
    """Hash of the part of the spec that it was made of; empty: not known, an earlier version of the operator made it."""

    launched_fields: str = ""
    """Hashes of the single fields that it was made of; empty: not known."""

    executors_of: str = ""
    """Hash of the part of the spec that its executors are made of; empty: not known."""

    executors: WaitingExecutors | None = None
    """Its executors that do not start; None: none was seen."""

    created_ms: int = 0
    deletion_ms: int | None = None
    """`deletionTimestamp`: when its grace is over."""

    exit_code: int | None = None
    reason: str = ""
    """Of the pod (`Evicted`, `NodeLost`…), else of its container (`OOMKilled`, `Error`…)."""

    message: str = ""
    waiting: str = ""
    """Why its container, or an init container, waits: `ImagePullBackOff`, `CreateContainerConfigError`…"""

    waiting_message: str = ""
    unscheduled: str = ""
    """Why no node takes it, as the scheduler says."""

    scheduled: bool = False
    """Has a node taken it?"""

    scheduled_ms: int = 0
    """When a node took it, or when its init containers and sidecars were ready, if that was later; 0 if that is not known."""

    oom_killed: bool = False
    disrupted: bool = False
    """Has it the condition `DisruptionTarget`: evicted, preempted, or its node is being removed?"""

    disruption: str = ""
    """Reason and message of that condition."""

    ending: Ending | None = None
    """The driver's termination message."""

    @property
    def over(self) -> bool:
        """Will no process of it run again?"""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class DriverReport:
    """What one attempt's driver reported last, over its control server."""

    attempt: int
    """The operator's number; a report of another attempt does not count."""

    heard_ms: int | None = None
    """When it answered last."""

    progress: Progress | None = None
    receipt: ReceiptSummary | None = None
    acks: tuple[Ack, ...] = ()
    """Answers to commands, in any order; they may repeat."""

    unreachable_since_ms: int | None = None
    """When it stopped answering; None: it answers."""

    unreachable: str = ""
    """Why, as the operator saw it."""


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """The last launch of an attempt, when the API server refused it; forgotten when one succeeds."""

    attempt: int
    at_ms: int
    status: int
    """Of HTTP; 0: no answer."""

    reason: str = ""
    """Of the `Status` object: `Forbidden`, `Invalid`, `AlreadyExists`…"""

    message: str = ""
    """The server's message, shown to people as it is."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A Backfill and everything that belongs to it, as the operator saw them at one moment."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: BackfillSpec | SpecRefused
    status: BackfillStatus = field(default_factory=BackfillStatus)
    resource_version: str = ""
    """Of the object that had `status`: the fence of `PersistIntent`."""

    deletion_ms: int | None = None
    """When its deletion was requested."""

    finalizers: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    pods: tuple[DriverPod, ...] = ()
    """By label, and the one with the name of the current attempt's driver, whatever its owner."""

    beside: tuple[str, ...] = ()
    """Other Backfills that write the same target, by the names that people may see."""

    no_room: str = ""
    """Why no further driver may be made now; empty: one may."""

    live: bool = False
    """Did `pods` come from the API server for this observation? False: they are what the cache holds."""

    recordable: bool = True
    """May the status be written? False: the API server refuses it, so nothing may depend on its record."""

    report: DriverReport | None = None
    launch_failed: LaunchFailed | None = None
    token_hash: str = ""
    """Of the token that the next Secret will hold."""
