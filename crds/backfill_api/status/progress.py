"""How far a job is, for people and for the operator."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from backfill_api.model import Model
from backfill_api.spec.bounds import Count, Duration, Message, Moment, Percent

GRID_CELLS_MAX = 64


STEPS_MAX = 8


class StepProgress(Model):
    """One step of a job that takes time."""

    name: Annotated[str, Field(max_length=64)]
    """Start, Copy, KeyProof, CatchUp or Receipt."""

    state: Annotated[str, Field(max_length=64)]
    """Pending, Running or Done."""

    seconds: Duration | None = None
    """Time that it took so far, pauses left out; absent: not begun, or done by an earlier attempt."""

    seconds_left: Duration | None = None
    """Estimated time left of it; absent: done, held, or not known yet."""


class ProgressSummary(Model):
    """How far a job is, short enough for a status; counts are those of the sealed state, never ahead of it."""

    phase: Annotated[str, Field(max_length=64)] = ""
    """Phase of the strategy: Snapshot, CatchUp or Live."""

    step: Annotated[str, Field(max_length=64)] = ""
    """The step of `steps` that runs; empty: none does."""

    percent: Percent = 0
    """Part of the whole job that is done, each step weighed by its time, rounded down; it never falls."""

    rows_total: Count = 0
    """Rows of the pinned version."""

    rows_done: Count = 0
    """Rows of the source whose turn is over: those sealed, and those that the filter left out."""

    rows_filtered: Count = 0
    """Of these, the rows that the filter left out."""

    splits_total: Count = 0
    """Splits sealed and estimated."""

    splits_done: Count = 0
    """Splits sealed."""

    rows_per_second: Count = 0
    """Mean over the last seals."""

    lag_versions: Count = 0
    """How far the target is behind, in versions."""

    lag_seconds: Count = 0
    """How far the target is behind, in time."""

    eta: Moment | None = None
    """When the whole job will be done, RFC 3339; with `after: Follow`, when it will have caught up."""

    steps: Annotated[tuple[StepProgress, ...], Field(max_length=STEPS_MAX)] = ()
    """What the job does one after another, with the time of each."""

    reason: Message = ""
    """Why the job is not faster than it is."""

    last_seal_time: Moment | None = None
    """When the newest seal was durable, RFC 3339."""

    epoch: Count = 0
    """Newest barrier; alone it is no progress."""


class Progress(ProgressSummary):
    """One look at a running job; counts are those of the sealed state, never ahead of it."""

    attempt: Count = 0
    """Number of the attempt."""

    changes_done: Count = 0
    """Row changes applied after the snapshot."""

    bytes_done: Count = 0
    """Bytes sealed."""

    consumed_version: Count | None = None
    """Source version that the target holds."""

    head_version: Count | None = None
    """Newest source version."""

    eta_seconds: Count | None = None
    """Seconds left of the whole job."""

    eta_seconds_low: Count | None = None
    """At least, nine times of ten."""

    eta_seconds_high: Count | None = None
    """At most, nine times of ten."""

    caught_up: bool = False
    """Has the target reached the newest version once?"""

    warnings: Annotated[tuple[Message, ...], Field(max_length=32)] = ()
    """What will end the job unless a user acts."""

    non_convergent: bool = False
    """Does the lag not fall?"""

    paused: Annotated[str, Field(max_length=64)] | None = None
    """History or All."""

    stopping: bool = False
    """Was the attempt asked to end?"""

    quiet: bool = False
    """Is nothing running?"""

    throttle_rows_per_second: Count | None = None
    """Limit in force; absent: none."""

    throttle_until: Moment | None = None
    """When it ends, RFC 3339."""

    revision: Count = 0
    """Newest command in force."""

    table_version: Count | None = None
    """Target version of the newest seal."""

    seal_ms_p50: Count | None = None
    """Median of the last seals."""

    seal_ms_p99: Count | None = None
    """99th percentile of the last seals."""

    grid: Annotated[tuple[Percent, ...], Field(max_length=GRID_CELLS_MAX)] = ()
    """At most 64 equal parts of the snapshot, each 0 to 100 percent sealed."""
