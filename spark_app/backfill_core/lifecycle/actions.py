"""What a decision asks of the operator: the status to write, the actions to execute, the events to tell. All frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backfill_api.status.status import AttemptKind, BackfillStatus
from backfill_api.wire import CommandRequest


@dataclass(frozen=True, slots=True)
class PersistIntent:
    """Write the decision's status now, under the look's resourceVersion; on a conflict drop the decision, look again.

    Always the first action when it is there: what follows must not happen unless it is on record. Write it even when the
    status is unchanged: the fence is what counts, a stale look must not launch what has ended meanwhile.
    """


@dataclass(frozen=True, slots=True)
class RefetchPods:
    """Ask the API server for the pods by label and for this pod by name, then decide again with `live=True`.

    Stands alone: nothing else is done, and the status is not written.
    """

    pod_name: str


@dataclass(frozen=True, slots=True)
class LaunchDriver:
    """Make the attempt's ConfigMap, Secret and Service, and its pod last.

    "Already exists" is success for the first three when the owner is right; for the pod it means: look live.
    """

    attempt: int
    kind: AttemptKind
    paused: Literal["History", "All"] | None = None
    """Controls that the attempt starts with: spec and override together."""

    rows_per_second: int | None = None
    token_hashes: tuple[str, ...] = ()
    """Of tokens that its Secret may hold; another Secret of its name is somebody else's. Empty: not on record."""


@dataclass(frozen=True, slots=True)
class EnsureObjects:
    """Make the ConfigMap and the Service of an attempt that runs again, should somebody have deleted them.

    To be carried out now and then, at the pace of lists: whether they are there is asked of the API server. They are made
    only under the look's resourceVersion, like an attempt. A Secret cannot be made again, its certificate is the driver's:
    that it is gone is told.
    """

    of: LaunchDriver


@dataclass(frozen=True, slots=True)
class SendCommand:
    """Send a command to the driver of its attempt; several are sent in order, up to the first that gets no answer."""

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
    """Add `backfill.dev/drain`, under the look's resourceVersion; the answer has the one for the status write."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove `backfill.dev/drain`, under the look's resourceVersion; of a deleted object nothing may be left to write."""


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete the Backfill itself, if it still has the look's UID: its time to live is over."""


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
    """An event for `kubectl describe`; the shell leaves out one that it has just written."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """Everything that follows from one look: do the actions in order, then write the status if it differs.

    An action that fails ends the list, and the status is not written; what was done before is safe to do again. Every
    write of the object carries the resourceVersion of the look, or of the write before it. After `PersistIntent`
    the status is on record and need not be written again.
    """

    status: BackfillStatus
    actions: tuple[Action, ...] = ()
    requeue_after_s: float | None = None
    """Look again after this long at the latest; None: when something changes."""

    events: tuple[EventNote, ...] = ()
