"""One look at a job, for people and for the operator."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_core.errors import BackfillError
from backfill_core.job.controls import Controls
from backfill_core.job.steps import Course
from backfill_core.protocol.clock import Now
from backfill_core.protocol.receipt import Receipt
from backfill_core.protocol.strategy import StrategyView


@dataclass(frozen=True, slots=True)
class JobView:
    """How far a job is, and why it is not faster."""

    attempt: int
    epoch: int
    controls: Controls
    strategy: StrategyView
    changes_done: int
    bytes_done: int
    running: int
    quiet: bool
    stopping: bool
    verifying: bool
    receipt: Receipt | None
    seal_seconds: tuple[float, ...]
    sealed_ms: int | None
    """When the newest seal was durable."""

    table_version: int
    reason: str
    course: Course
    """The steps of the job, and how much of the whole is done."""
    warnings: tuple[str, ...] = ()
    """What will end the job unless the user acts, and what others did to the target."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Work failed and is tried again later; until then nothing starts."""

    until_s: float
    failures: int
    """In a row."""

    error: BackfillError

    def words(self, now: Now) -> str:
        """Say when it is tried again, and why not now."""
        left_s = max(0.0, self.until_s - now.mono_s)
        return f"trying again in {left_s:.0f} s, failure {self.failures}: {self.error}"


def reason_of_controls(controls: Controls, now: Now, *, running: bool, history_complete: bool) -> str:
    """Say which pause or limit makes the job slower; empty: none does."""
    if controls.paused is not None:
        what = "everything" if controls.changes_held else "the snapshot"
        return f"{what} is paused {_by(controls.paused_by)}" + ("; work under way is ending" if running else "")
    if controls.rows_per_s is not None and not history_complete:
        until_ms = controls.until_ms
        until = "" if until_ms is None else f", for {max(0, until_ms - now.wall_ms) // 1000} s more"
        return f"throttled to {controls.rows_per_s:,} rows/s {_by(controls.limited_by)}{until}"
    return ""


def _by(revision: int) -> str:
    return f"by command (revision {revision})" if revision else "by the spec"
