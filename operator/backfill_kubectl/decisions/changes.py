"""Changes that a command requests of a Backfill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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


Control = Pause | Resume | Throttle | Suspend | Unsuspend
"""Changes that the spec or an override can hold."""

Change = Control | Approve | Retry | RunAgain | TakeReceipt
