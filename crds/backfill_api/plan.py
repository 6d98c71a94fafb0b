"""What would happen."""

from __future__ import annotations

from backfill_api.model import Model


class PlanWarning(Model):
    """Something to think about before the start."""

    reason: str
    message: str
    cure: str = ""


class Plan(Model):
    """What a job would read, how long it would take on this machine, and what is doubtful about it."""

    rows: int
    bytes: int
    files: int
    splits: int
    version: int
    estimated_seconds: int
    estimated_seconds_low: int
    estimated_seconds_high: int
    key_columns: tuple[str, ...] = ()
    key_unique: bool | None = None
    """None: not looked at (ask for it with --check-unique)."""

    key_nulls: int | None = None
    deterministic: bool = True
    change_feed: bool
    retention_seconds: int | None = None
    target_exists: bool
    resumes_attempt: int | None = None
    warnings: tuple[PlanWarning, ...] = ()
