"""Warnings before the source deletes versions that the job still needs, because a job cannot recover from that."""

from __future__ import annotations

from backfill_api.amounts import show_seconds

SHORT = 3
"""Retention below this multiple of the estimated duration is short; a plan uses the same rule."""

OF_A_TABLE = "delta.deletedFileRetentionDuration and delta.logRetentionDuration of the source"
"""Settings that a user must raise."""

NEAR = 0.8
"""Part of the retention after which the warning appears; the rest is the time that a user has to raise it."""


def warn(version: int, committed_ms: int, newest_version: int, kept_s: int | None, now_ms: int) -> str | None:
    """Return the warning about the oldest version that a job still needs; `None` if none is necessary.

    The files of a version may disappear once it is older than the source keeps removed files or log entries. The files of the newest
    version never disappear.

    Args:
        version: The oldest version needed: the pinned one, later the last consumed one.
        committed_ms: Its commit time, milliseconds since 1970.
        newest_version: Newest version of the source.
        kept_s: The shorter of the source's two retentions; `None` if unknown.
        now_ms: Current time, milliseconds since 1970.
    """
    age_s = max(0, now_ms - committed_ms) // 1000
    if kept_s is None or newest_version <= version or age_s <= kept_s * NEAR:
        return None
    return (
        f"version {version} of the source is still needed, is {show_seconds(age_s)} old, and is kept for {show_seconds(kept_s)}: raise "
        f"{OF_A_TABLE} before it is gone"
    )


def warn_short_removals(needed_s: float | None, kept_s: int | None) -> str | None:
    """Return the warning for a compacted topic that may drop removals of keys before a job reads them; `None` if none is necessary.

    A job that has read a key, and not its removal, then keeps the key's row.
    """
    if needed_s is None or kept_s is None or kept_s >= SHORT * needed_s:
        return None
    return (
        f"the topic keeps records without a value for {show_seconds(kept_s)}, but the history may take {show_seconds(round(needed_s))} more, "
        "and rows of removed keys may stay: raise delete.retention.ms of the topic, or the limit"
    )


def warn_missed_removals(stopped_s: int, kept_s: int | None) -> str | None:
    """Return the warning for a compacted topic that may have dropped removals of keys while no attempt ran; `None` if it may not.

    Args:
        stopped_s: Time between the last commit and the next attempt.
        kept_s: How long the topic keeps records without a value; `None` if it keeps them.
    """
    if kept_s is None or stopped_s <= kept_s:
        return None
    return (
        f"the job did not commit for {show_seconds(stopped_s)}, but the topic keeps records without a value for {show_seconds(kept_s)}: rows of keys "
        "that were removed meanwhile may stay. Compare with `backfill verify`; if the tables differ, fill a new target"
    )


def warn_short(needed_s: float | None, kept_s: int | None, settings: str = OF_A_TABLE) -> str | None:
    """Return the warning for a snapshot that may take longer than the source keeps it; `None` if none is necessary.

    Args:
        needed_s: Estimated time left of the snapshot; `None` if unknown.
        kept_s: The shorter retention, as in `warn`.
        settings: Settings that the user must raise.
    """
    if needed_s is None or kept_s is None or kept_s >= SHORT * needed_s:
        return None
    return (
        f"the source keeps the data of the job for {show_seconds(kept_s)}, but the snapshot may take {show_seconds(round(needed_s))} more: raise "
        f"{settings}, or the limit"
    )
