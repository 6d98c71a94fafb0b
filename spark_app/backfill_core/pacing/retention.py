"""How long what a job still needs will be there: a warning in time, instead of an end that cannot be repaired."""

from __future__ import annotations

from backfill_api.amounts import show_seconds

SHORT = 3
"""Retention below so many times the estimated duration is said to be short; a plan says the same."""

OF_A_TABLE = "delta.deletedFileRetentionDuration and delta.logRetentionDuration of the source"
"""What a user raises."""

NEAR = 0.8
"""Part of the retention after which it is said; the rest is the time that a user has to raise it."""


def warn(version: int, committed_ms: int, newest_version: int, kept_s: int | None, now_ms: int) -> str | None:
    """Return what to say about the oldest version that a job still needs, or None.

    What a version needs goes, at the earliest, when it is older than the source keeps removed files or log; as long as
    it is the newest one, nothing of it goes.

    Args:
        version: The oldest one needed: the pinned one, later the one consumed last.
        committed_ms: When it was committed, milliseconds since 1970.
        newest_version: Of the source.
        kept_s: The shorter of the source's two retentions; None: not known.
        now_ms: Now.
    """
    age_s = max(0, now_ms - committed_ms) // 1000
    if kept_s is None or newest_version <= version or age_s <= kept_s * NEAR:
        return None
    return (
        f"version {version} of the source is still needed, is {show_seconds(age_s)} old, and is kept for {show_seconds(kept_s)}: raise "
        f"{OF_A_TABLE} before it is gone"
    )


def warn_short(needed_s: float | None, kept_s: int | None, settings: str = OF_A_TABLE) -> str | None:
    """Return what to say when the snapshot may take longer than the source keeps it, or None.

    Args:
        needed_s: How long the rest of it is estimated to take; None: not known.
        kept_s: As in `warn`.
        settings: What to raise.
    """
    if needed_s is None or kept_s is None or kept_s >= SHORT * needed_s:
        return None
    return (
        f"the source keeps what the job needs for {show_seconds(kept_s)}, the snapshot may take {show_seconds(round(needed_s))} more: raise "
        f"{settings}, or the limit"
    )
