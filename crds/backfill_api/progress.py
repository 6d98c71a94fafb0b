"""How far a job is, for people and for the operator."""

from __future__ import annotations

from backfill_api.model import Model


class Progress(Model):
    """One look at a running job; counts are those of the sealed state, never ahead of it."""

    attempt: int = 0
    """Number of the attempt."""

    epoch: int = 0
    """Newest barrier."""

    phase: str = ""
    """Snapshot, LogStore or Live."""

    percent: int = 0
    """Sealed part of the snapshot, 0 to 100."""

    rows_total: int = 0
    """Rows of the pinned version."""

    rows_done: int = 0
    """Rows sealed."""

    changes_done: int = 0
    """Row changes applied after the snapshot."""

    bytes_done: int = 0
    """Bytes sealed."""

    splits_total: int = 0
    """Splits sealed and estimated."""

    splits_done: int = 0
    """Splits sealed."""

    rows_per_second: int = 0
    """Mean over the last seals."""

    consumed_version: int | None = None
    """Source version that the target holds."""

    head_version: int | None = None
    """Newest source version."""

    lag_versions: int = 0
    """How far the target is behind, in versions."""

    lag_seconds: int = 0
    """How far the target is behind, in time."""

    eta_seconds: int | None = None
    """Seconds left of the snapshot."""

    eta_seconds_low: int | None = None
    """At least, nine times of ten."""

    eta_seconds_high: int | None = None
    """At most, nine times of ten."""

    eta: str | None = None
    """When the snapshot will be done, RFC 3339."""

    reason: str = ""
    """Why the job is not faster than it is."""

    caught_up: bool = False
    """Has the target reached the newest version once?"""

    non_convergent: bool = False
    """Does the lag not fall?"""

    paused: str | None = None
    """History or All."""

    quiet: bool = False
    """Is nothing running?"""

    throttle_rows_per_second: int | None = None
    """Limit in force; absent: none."""

    throttle_until: str | None = None
    """When it ends, RFC 3339."""

    revision: int = 0
    """Newest command in force."""

    table_version: int | None = None
    """Target version of the newest seal."""

    seal_ms_p50: int | None = None
    """Median of the last seals."""

    seal_ms_p99: int | None = None
    """99th percentile of the last seals."""

    grid: tuple[int, ...] = ()
    """At most 64 equal parts of the snapshot, each 0 to 100 percent sealed."""
