"""What a decision asks of the operator: the status to write, the actions to execute, the events to tell. All frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from backfill_api.status.status import AttemptKind, BackfillStatus
from backfill_api.wire import CommandRequest

DRIVERS_LIMITED: Final = "DriversLimited"
"""The reason of a Backfill that waits for a driver's slot."""


@dataclass(frozen=True, slots=True)
class PersistIntent:
    """Write the decision's status now, under the observation's resourceVersion; on a conflict, drop the decision.

    Always the first action: what follows must not happen unless it is on record. An unchanged status is written too,
    because the write is the fence: a stale observation must not launch what has ended meanwhile.
    """


@dataclass(frozen=True, slots=True)
class RefetchPods:
    """Ask the API server for the pods by label and for this pod by name, then decide again with `live=True`.

    Always the only action; the status is not written.
    """

    pod_name: str
    executors_of: str = ""
    """UID of the driver pod whose executors are to be asked for too, those that run included; empty: none."""


@dataclass(frozen=True, slots=True)
class LaunchDriver:
    """Make the attempt's ConfigMap, Secret and Service, and its pod last.

    "Already exists" is success for the first three if the owner is right; for the pod it means: refetch the pods.
    """

    attempt: int
    kind: AttemptKind
    paused: Literal["History", "All"] | None = None
    """Controls that the attempt starts with: spec and override together."""

    rows_per_second: int | None = None
    bytes_per_second: int | None = None
    token_hashes: tuple[str, ...] = ()
    """Of tokens that its Secret may hold; a Secret with another token is not ours. Empty: not on record."""


@dataclass(frozen=True, slots=True)
class EnsureObjects:
    """Make the ConfigMap and the Service of an attempt whose pod has a node again if they were deleted.

    Execute it at the pace of relists: each time asks the API server. They are made only under the observation's
    resourceVersion, like an attempt. A Secret cannot be made again, because its certificate is the driver's: an event
    says that it is gone.
    """

    of: LaunchDriver


@dataclass(frozen=True, slots=True)
class SendCommand:
    """Send a command to the driver of its attempt; several are sent in order, until one gets no answer."""

    request: CommandRequest


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod if it still has this UID; SIGTERM makes a driver stop at a barrier within the grace."""

    name: str
    uid: str
    grace_s: int


@dataclass(frozen=True, slots=True)
class DeleteAttemptObjects:
    """Delete ConfigMap, Secret and Service of an attempt that is over; missing ones are fine."""

    attempt: int


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add `backfill.dev/drain`, under the observation's resourceVersion; the answer has the one for the status write."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove `backfill.dev/drain`, under the observation's resourceVersion; a deleted object may be gone after it."""


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete the Backfill itself, if it still has the observation's UID: its time to live is over."""


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
)


@dataclass(frozen=True, slots=True)
class EventNote:
    """An event for `kubectl describe`; the operator leaves out one that it has just written."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """Everything that follows from one observation: do the actions in order, then write the status if it differs.

    The first action that fails ends the list, and the status is not written; what was done is safe to do again. Every
    write of the object carries the resourceVersion of the observation, or of the write before it. After `PersistIntent`
    the status is on record and need not be written again.
    """

    status: BackfillStatus
    actions: tuple[Action, ...] = ()
    requeue_after_s: float | None = None
    """Decide again after this long at the latest; None: when something changes."""

    events: tuple[EventNote, ...] = ()

    @property
    def waits_for_room(self) -> bool:
        """Would it launch a driver if there were room for one more?"""
        return any(one.reason == DRIVERS_LIMITED for one in self.status.conditions)
