"""Changes that a command requests of a Backfill, and the answers of operator and driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backfill_api.spec.override import Width


@dataclass(frozen=True, slots=True)
class Pause:
    """The snapshot stands still; with `All` changes do, too."""

    scope: Literal["History", "All"] = "History"


@dataclass(frozen=True, slots=True)
class Resume:
    """The snapshot and changes are read."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """Limit of the snapshot; without a number there is no limit."""

    rows_per_second: int | None = None
    bytes_per_second: int | None = None
    until: str | None = None
    """End, RFC 3339; `None` if it stays."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """Pieces of the snapshot have this size and number, and the job this number of executors; absent values stay."""

    width: Width


@dataclass(frozen=True, slots=True)
class Suspend:
    """The pods are deleted after a barrier."""


@dataclass(frozen=True, slots=True)
class Unsuspend:
    """An attempt starts, and resumes."""


@dataclass(frozen=True, slots=True)
class Approve:
    """The current plan is approved, and no later one."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt ends at a barrier, and the next one starts; a failed job starts again."""


@dataclass(frozen=True, slots=True)
class RunAgain:
    """A complete job runs again, from the position that its target holds."""


@dataclass(frozen=True, slots=True)
class TakeReceipt:
    """Source and target are compared once."""


@dataclass(frozen=True, slots=True)
class SwitchOver:
    """Readers and writers use the target; or the source again, or the switch-over is completed."""

    goal: Literal["Switch", "Undo", "Complete"] = "Switch"


@dataclass(frozen=True, slots=True)
class RepairTarget:
    """The rows and files of the target that differ from the source are replaced."""


Control = Pause | Resume | Throttle | Rescale | Suspend | Unsuspend
"""Changes that the spec or an override can hold."""

Procedure = SwitchOver | RepairTarget
"""Changes that an attempt of their own performs."""

Change = Control | Approve | Retry | RunAgain | TakeReceipt | Procedure


@dataclass(frozen=True, slots=True)
class Waiting:
    """The change is not in force yet."""

    why: str


@dataclass(frozen=True, slots=True)
class InForce:
    """The change is in force."""

    state: str
    """The state that holds now."""

    proof: str = ""
    """The acknowledgement, such as `epoch 14`; empty if no driver had to confirm."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """No driver runs that could confirm the change; the next one starts with it."""

    state: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The operator or the driver refuses the change."""

    why: str
    hint: str


Acknowledgement = Waiting | InForce | Recorded | Rejected
