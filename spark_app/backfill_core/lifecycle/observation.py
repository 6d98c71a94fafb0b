"""Observed state of one Backfill, as frozen values.

Times are milliseconds since 1970 UTC (`*_ms`), durations have their unit in the name. An observation may be stale or
incomplete: a stale one costs one more decision, but never a second driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from backfill_api.spec.change_claim import PauseAll
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.ending import Ending
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import ReceiptSummary
from backfill_api.status.status import AttemptKind, BackfillStatus
from backfill_api.wire import Ack
from backfill_core.lifecycle.inputs.dependencies import ObservedDependency
from backfill_core.lifecycle.queue.workload import ObservedWorkload

PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]


@dataclass(frozen=True, slots=True)
class SpecRefused:
    """The spec is unreadable; a running driver continues under the spec with which it started."""

    errors: tuple[str, ...]
    """One line for each field: path, error, hint."""


@dataclass(frozen=True, slots=True)
class WaitingExecutors:
    """Executor pods of one driver that were created and do not start; the reason of one of them represents all."""

    waiting: str = ""
    """Waiting reason of a container (`ImagePullBackOff`, `CreateContainerConfigError`…); empty if no node accepts the pod."""

    message: str = ""
    """Message of the container, or else of the scheduler."""

    running: int | None = None
    """Number of other executors that run; `None` if they were not counted."""


@dataclass(frozen=True, slots=True)
class DriverPod:
    """A pod with the Backfill's label, or with the name of its driver."""

    name: str
    uid: str
    owner_uid: str | None
    """UID of the controlling owner; a pod with another owner does not belong to this Backfill."""

    attempt: int | None
    """Number in its label; `None` without a label, or if the label is not a number."""

    backfill_uid: str = ""
    """UID in its label, which remains when `kubectl delete --cascade=orphan` removes the owner."""

    kind: AttemptKind = "Run"
    phase: PodPhase = "Pending"
    ready: bool = False
    """True if its driver's container is ready; other containers of the pod do not count."""

    started: bool = False
    """True if its driver's container ever ran."""

    unready: str = ""
    """Name and reason of another container that is not ready; empty if all are ready."""

    held: str = ""
    """Name and reason of the sidecar that the driver's container waits for; empty if it waits for none."""

    lingering: str = ""
    """Names of the containers that still run after its driver's container ended; empty if none does."""

    init_failed: str = ""
    """Name, exit code and message of the init container that failed; empty if none did."""

    launched_of: str = ""
    """Hash of the part of the spec from which it was created; empty if unknown (created by an earlier version of the operator)."""

    launched_fields: str = ""
    """Hashes of the single fields from which it was created; empty if unknown."""

    executors_of: str = ""
    """Hash of the part of the spec from which its executors are created; empty if unknown."""

    executors: WaitingExecutors | None = None
    """Its executors that do not start; `None` if no such executor was seen."""

    created_ms: int = 0
    deletion_ms: int | None = None
    """`deletionTimestamp`: the end of its grace period."""

    exit_code: int | None = None
    reason: str = ""
    """Reason of the pod (`Evicted`, `NodeLost`…), or else of its container (`OOMKilled`, `Error`…)."""

    message: str = ""
    waiting: str = ""
    """Waiting reason of its container or an init container: `ImagePullBackOff`, `CreateContainerConfigError`…"""

    waiting_message: str = ""
    unscheduled: str = ""
    """Reason why no node accepts it, according to the scheduler."""

    scheduled: bool = False
    """True if it is assigned to a node."""

    scheduled_ms: int = 0
    """Time at which it was assigned to a node, or at which its init containers and sidecars were ready, if later; 0 if unknown."""

    oom_killed: bool = False
    disrupted: bool = False
    """True if it has the condition `DisruptionTarget`: evicted, preempted, or its node is being removed."""

    disruption: str = ""
    """Reason and message of that condition."""

    ending: Ending | None = None
    """The driver's termination message."""

    @property
    def over(self) -> bool:
        """True if none of its processes will run again."""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class DriverReport:
    """Latest report of one attempt's driver, from its control server."""

    attempt: int
    """Number that the operator assigned; a report of another attempt does not count."""

    heard_ms: int | None = None
    """Time of its latest answer."""

    progress: Progress | None = None
    receipt: ReceiptSummary | None = None
    acks: tuple[Ack, ...] = ()
    """Answers to commands, in any order; they may repeat."""

    unreachable_since_ms: int | None = None
    """Time since which it does not answer; `None` if it answers."""

    unreachable: str = ""
    """Cause, as the operator observed it."""


NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
"""Cause of a refusal in a namespace that is being deleted."""

NOT_BUILT: Final = "NotBuilt"
"""Reason of a refusal by the operator itself: the objects cannot be built from this spec with its settings."""


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """The last launch of an attempt that the API server refused; removed when a launch succeeds."""

    attempt: int
    at_ms: int
    status: int
    """HTTP status; 0 without an answer."""

    reason: str = ""
    """Reason of the `Status` object: `Forbidden`, `Invalid`, `AlreadyExists`…"""

    message: str = ""
    """The server's message, shown to users unchanged."""

    causes: tuple[str, ...] = ()
    """Reasons of the `Status` object's causes, such as `NamespaceTerminating`."""

    @property
    def namespace_ends(self) -> bool:
        """True if the namespace is being deleted, so that nothing can be created in it."""
        return NAMESPACE_TERMINATING in self.causes


@dataclass(frozen=True, slots=True)
class Observation:
    """A Backfill and everything that belongs to it, as the operator saw them at one time."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: BackfillSpec | SpecRefused
    status: BackfillStatus = field(default_factory=BackfillStatus)
    resource_version: str = ""
    """Resource version of the object with `status`: the fence of `PersistIntent`."""

    deletion_ms: int | None = None
    """Time at which its deletion was requested."""

    finalizers: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    pods: tuple[DriverPod, ...] = ()
    """Pods by label, and the one with the name of the current attempt's driver, for any owner."""

    shared_with: tuple[str, ...] = ()
    """Other Backfills that write the same target, by the names that users may see."""

    pause_all: PauseAll | None = None
    """The switch for all jobs; `None` if it is not known, so that the stored state stays in force."""

    no_room: str = ""
    """Reason why no further driver may be created now; empty if one may."""

    dependencies: tuple[ObservedDependency, ...] = ()
    """The Backfills of `spec.dependsOn`."""

    dependency_cycle: tuple[str, ...] = ()
    """Names of the Backfills that wait for each other, from this one on; empty without a cycle."""

    workload: ObservedWorkload | None = None
    """The Workload of Kueue with its name; `None` if none exists."""

    queue_problem: str = ""
    """Reason why the Workloads are not known, so that `workload` says nothing; empty if they are known."""

    live: bool = False
    """True if `pods` were read from the API server for this observation, false if they come from the cache."""

    recordable: bool = True
    """True if the status may be written; false if the API server refuses it, so that no action may depend on its record."""

    report: DriverReport | None = None
    launch_failed: LaunchFailed | None = None
    token_hash: str = ""
    """Hash of the token for the next Secret."""
