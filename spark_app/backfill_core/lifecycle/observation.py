"""What passes between the operator's hands and its rules: one look in, one decision out, all frozen values.

Times are milliseconds since 1970 UTC (`*_ms`), durations have their unit in the name. An `Observation` says what was
*seen*, which may be stale or incomplete; the rules are written so that a stale look costs a round, never a second driver.
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
class Now:
    """The moment of a decision. Wall time only: what is timed must survive the death of the operator."""

    wall_ms: int


@dataclass(frozen=True, slots=True)
class SpecRefused:
    """The spec cannot be read; the driver that runs, if one does, goes on under the spec it was started with."""

    errors: tuple[str, ...]
    """One line a field: path, what is wrong, hint."""


@dataclass(frozen=True, slots=True)
class DriverPod:
    """A pod that carries the Backfill's label, or the name that its driver has."""

    name: str
    uid: str
    owner_uid: str | None
    """UID of the controlling owner; a pod owned by anybody else is not ours."""

    attempt: int | None
    """Of its label; None: it has none, or no number."""

    backfill_uid: str = ""
    """Of its label: it is still there when `kubectl delete --cascade=orphan` has taken the owner away."""

    kind: AttemptKind = "Run"
    phase: PodPhase = "Pending"
    ready: bool = False
    created_ms: int = 0
    started_ms: int | None = None
    """When its container started."""

    ended_ms: int | None = None
    deletion_ms: int | None = None
    """`deletionTimestamp`: the moment at which its grace is over."""

    exit_code: int | None = None
    reason: str = ""
    """Of the pod (`Evicted`, `NodeLost`…), else of its container (`OOMKilled`, `Error`…)."""

    message: str = ""
    waiting: str = ""
    """Why its container, or an init container, waits: `ImagePullBackOff`, `CreateContainerConfigError`…"""

    waiting_message: str = ""
    unscheduled: str = ""
    """Why no node takes it, in the scheduler's words."""

    scheduled: bool = False
    """Has a node taken it?"""

    oom_killed: bool = False
    disrupted: bool = False
    """Has it the condition `DisruptionTarget`: evicted, preempted, or its node is going?"""

    ending: Ending | None = None
    """What the driver said last, from the termination message."""

    @property
    def over(self) -> bool:
        """Will no process of it run again?"""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class DriverLook:
    """What the control channel heard last from one attempt's driver."""

    attempt: int
    """The operator's number; what another attempt says counts for nothing."""

    heard_ms: int | None = None
    """When it answered last."""

    progress: Progress | None = None
    receipt: ReceiptSummary | None = None
    acks: tuple[Ack, ...] = ()
    """Answers to commands, in any order, repeated as often as one likes."""

    unreachable_since_ms: int | None = None
    """When it stopped answering; None: it answers."""

    unreachable: str = ""
    """Why, as far as the operator can see."""


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """The last try to make an attempt's objects, when the API server refused it; forgotten when one succeeds."""

    attempt: int
    at_ms: int
    status: int
    """Of HTTP; 0: no answer."""

    reason: str = ""
    """Of the `Status` object: `Forbidden`, `Invalid`, `AlreadyExists`…"""

    message: str = ""
    """The server's words, shown to people as they are."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at a Backfill and at everything that belongs to it."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: BackfillSpec | SpecRefused
    status: BackfillStatus = field(default_factory=BackfillStatus)
    resource_version: str = ""
    """Of the object in which `status` was read: the fence of `PersistIntent`."""

    deletion_ms: int | None = None
    """When its deletion was asked for."""

    finalizers: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    pods: tuple[DriverPod, ...] = ()
    """By label, and the one that has the name of the current attempt's driver, whoever owns it."""

    beside: tuple[str, ...] = ()
    """Other Backfills that write the same target, as people may be told of them."""

    no_room: str = ""
    """Why no further driver may be made now; empty: one may."""

    live: bool = False
    """Were `pods` asked of the API server for this look? False: they are what the cache holds."""

    recordable: bool = True
    """May the status be written? False: the API server will not have it, so that nothing can stand on it."""

    look: DriverLook | None = None
    launch_failed: LaunchFailed | None = None
    token_hash: str = ""
    """Of the token that the next Secret will hold."""
