"""State of one job at one time, as every screen shows it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from backfill_api.status.progress import LimitInForce, Progress
from backfill_api.status.receipt import Receipt, ReceiptSummary
from backfill_api.status.source_head import SourceHead

SAMPLES_MAX = 60
"""Samples of a sparkline; older ones are dropped."""

SAMPLE_EVERY_S = 5.0

Mark = Literal["Good", "Running", "Waiting", "Bad", "Idle"]
"""Kind of a symbol. A word always stands next to the symbol."""


@dataclass(frozen=True)
class Table:
    """Source or target of a job."""

    place: str
    """Path, catalog name or topic."""

    version: str = ""
    """Its version or position for display; empty if unknown."""


@dataclass(frozen=True)
class CommandNote:
    """A command and its acknowledgement."""

    text: str
    """The command as a user types it: `throttle 100000 --for 30m`."""

    mark: Mark = "Good"
    outcome: str = "applied"
    epoch: int | None = None
    time: str | None = None
    """Time of the acknowledgement, RFC 3339; `None` if unknown."""

    took_ms: int | None = None
    by: str = ""
    """Claimed person of an annotation; the audit log of the API server is the proof."""

    note: str = ""


@dataclass(frozen=True)
class EventNote:
    """An event of the cluster about the job or its pods."""

    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"
    time: str | None = None
    """RFC 3339."""

    count: int = 1


@dataclass(frozen=True)
class TreeNode:
    """A row of the tree: the Backfill, an attempt, a pod, or the receipt."""

    name: str
    kind: str
    mark: Mark
    status: str
    """State in one or two words."""

    age_s: float | None = None
    info: str = ""
    below: tuple[TreeNode, ...] = ()


@dataclass(frozen=True)
class Trend:
    """Rates and lags of a watch, oldest first, and the time of the current step; a status stores none of them."""

    rates: tuple[int, ...] = ()
    lags: tuple[int, ...] = ()
    sampled_at: datetime | None = None
    step: str = ""
    """The step of a driver that starts."""

    step_began_at: datetime | None = None

    def after(self, progress: Progress, now: datetime) -> Trend:
        """Return the trend with this progress; a sample of an attempt is taken every five seconds."""
        if not progress.attempt:
            same = self.step_began_at is not None and self.step == progress.reason
            return self if same else replace(self, step=progress.reason, step_began_at=now)
        due = self.sampled_at is None or (now - self.sampled_at).total_seconds() >= SAMPLE_EVERY_S
        if not due:
            return self
        lag = progress.lag_seconds if progress.lag_records is None else progress.lag_records
        rates, lags = (*self.rates, progress.rows_per_second), (*self.lags, lag)
        return replace(self, rates=rates[-SAMPLES_MAX:], lags=lags[-SAMPLES_MAX:], sampled_at=now)


@dataclass(frozen=True)
class JobFrame:
    """State of one job at one time. An empty or absent field is unknown, and not shown."""

    name: str
    now: datetime
    """Time of the frame, with a time zone; ages and clock times are relative to it."""

    progress: Progress = field(default_factory=Progress)
    """As the driver or a status reports it; `attempt` is 0 while the driver starts."""

    namespace: str = ""
    phase: str = ""
    """Phase of a Backfill, or the state of a local job without a driver; empty: `progress` decides."""

    resting: str = ""
    """Message that replaces the activity of a job without a driver."""

    strategy: str = ""
    source: Table | None = None
    target: Table | None = None
    attempts_max: int | None = None
    limit: LimitInForce | None = None
    """`None` if no limit is in force."""

    next_refresh: str = ""
    """Next time of the schedule, RFC 3339."""

    refresh_waits: str = ""
    """Reason why that refresh does not start yet."""

    warnings: tuple[str, ...] = ()
    """Warnings that `progress` does not contain."""

    tree: tuple[TreeNode, ...] = ()
    commands: tuple[CommandNote, ...] = ()
    """Oldest first."""

    events: tuple[EventNote, ...] = ()
    """Oldest first."""

    plan: str = ""
    """The plan in one line."""

    receipt: Receipt | ReceiptSummary | None = None
    head: SourceHead | None = None
    """Newest position of the source of a job that has ended."""

    trend: Trend = Trend()
    """Samples of a watch, and the time of the current step."""

    up_s: float | None = None
    """Seconds since the job or the command began."""

    updated_at: datetime | None = None
    """Time of the data; `None` if it is as new as `now`."""

    note: str = ""
    """Message to the user in front of the screen: `stopping at a barrier; Ctrl-C again: at once`."""

    keys: tuple[tuple[str, str], ...] = ()
    """Keys that the screen accepts, each with its action."""

    @property
    def title(self) -> str:
        """Return the namespace and the name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
