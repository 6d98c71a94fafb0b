"""Output of a decision: the status to write, the actions to execute, the events to emit. All values are frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from backfill_api.spec.override import Width
from backfill_api.status.procedure import ProcedureKind
from backfill_api.status.status import AttemptKind, BackfillStatus
from backfill_api.wire import CommandRequest

DRIVERS_LIMITED: Final = "DriversLimited"
"""Reason of a Backfill that waits for a driver's slot."""


@dataclass(frozen=True, slots=True)
class PersistIntent:
    """Write the decision's status now, under the observation's resourceVersion; on a conflict, drop the decision.

    Always the first action: later actions must not happen unless they are on record. An unchanged status is written too,
    because the write is the fence: a stale observation must not launch an attempt that has ended meanwhile.
    """


@dataclass(frozen=True, slots=True)
class RefetchPods:
    """Read the pods by label and this pod by name from the API server, then decide again with `live=True`.

    Always the only action; the status is not written.
    """

    pod_name: str
    executors_of: str = ""
    """UID of the driver pod whose executors must be read too, running ones included; empty for none."""


@dataclass(frozen=True, slots=True)
class LaunchDriver:
    """Create the attempt's ConfigMap, Secret and Service, then its pod.

    "Already exists" is success for the first three if the owner is right. For the pod it means that the pods must be read again.
    """

    attempt: int
    kind: AttemptKind
    paused: Literal["History", "All"] | None = None
    """Controls that the attempt starts with: spec and override together."""

    rows_per_second: int | None = None
    bytes_per_second: int | None = None
    until: str | None = None
    """End of the limit, RFC 3339; `None` if it has no end."""

    width: Width = Width()  # noqa: RUF009 - it is frozen
    """Values of the width that an override sets; the spec has the others."""

    refresh: bool = False
    """True if the driver continues a job that has ended."""

    procedure: ProcedureKind | None = None
    """The procedure that the driver performs instead of running the job."""

    detached: bool = False
    """True if its objects have no owner: a garbage collector that deletes the Backfill's dependents first must not end the driver."""

    token_hashes: tuple[str, ...] = ()
    """Hashes of tokens that its Secret may contain; a Secret with another token is not the attempt's. Empty if not on record."""


@dataclass(frozen=True, slots=True)
class EnsureObjects:
    """Recreate the ConfigMap and the Service of an attempt whose pod has a node, if they were deleted.

    Executed at the pace of relists, because each execution calls the API server. The objects are created only under the
    observation's resourceVersion, like an attempt. A Secret cannot be created again, because it contains the driver's certificate:
    an event reports that it is missing.
    """

    of: LaunchDriver


@dataclass(frozen=True, slots=True)
class SendCommand:
    """Send a command to the driver of its attempt. Several commands are sent in order, until one gets no answer."""

    request: CommandRequest


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod if it still has this UID; on SIGTERM a driver stops at a barrier within the grace period."""

    name: str
    uid: str
    grace_s: int


@dataclass(frozen=True, slots=True)
class DeleteAttemptObjects:
    """Delete ConfigMap, Secret and Service of an attempt without a pod; missing ones are no error."""

    attempt: int


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """Create the job's Workload, which asks its queue for the pods of an attempt of this kind. An existing one is success."""

    kind: AttemptKind


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """Delete the job's Workload if it still has this UID, which returns its quota."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class RequeueWorkload:
    """Return the quota of an evicted Workload whose pods are gone. Kueue puts it into its queue again."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class FinishWorkload:
    """Set the condition `Finished` of the job's Workload, which returns its quota."""

    name: str
    uid: str
    succeeded: bool
    message: str


@dataclass(frozen=True, slots=True)
class ReportPodsReady:
    """Set the condition `PodsReady` of the job's Workload: Kueue may be configured to evict Workloads without it."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add `backfill.dev/drain` under the observation's resourceVersion. The response has the resourceVersion for the status write."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove `backfill.dev/drain` under the observation's resourceVersion; a deleted object may disappear after it."""


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete the Backfill itself if it still has the observation's UID: its time to live has passed."""


Action = (
    PersistIntent
    | RefetchPods
    | LaunchDriver
    | EnsureObjects
    | SendCommand
    | DeletePod
    | DeleteAttemptObjects
    | AddFinalizer
    | RemoveFinalizer
    | DeleteObject
    | CreateWorkload
    | DeleteWorkload
    | RequeueWorkload
    | FinishWorkload
    | ReportPodsReady
)


@dataclass(frozen=True, slots=True)
class EventNote:
    """An event for `kubectl describe`; the operator skips an event that it has just written."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """Everything that follows from one observation: execute the actions in order, then write the status if it differs.

    The first failed action ends the list, and the status is not written; completed actions are safe to repeat. Every
    write of the object uses the resourceVersion of the observation, or of the previous write. After `PersistIntent`
    the status is on record and need not be written again.
    """

    status: BackfillStatus
    actions: tuple[Action, ...] = ()
    requeue_after_s: float | None = None
    """Longest time until the next decision; `None` to wait for a change."""

    events: tuple[EventNote, ...] = ()

    @property
    def waits_for_room(self) -> bool:
        """True if it would launch a driver as soon as a slot is free."""
        return any(condition.reason == DRIVERS_LIMITED for condition in self.status.conditions)
