"""Facts of a job, each with its name; an unknown value is left out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from backfill_api.amounts import show_seconds
from backfill_api.status.progress import LimitInForce, Progress
from backfill_console.formatting import (
    format_bad_records,
    format_lag,
    format_phase,
    format_rate,
    format_state,
    format_width,
    format_writer_conflicts,
    show_clock,
    show_moment,
    show_rows,
)
from backfill_console.frame import JobFrame, Mark

SYMBOLS: Final[dict[Mark, str]] = {"Good": "✔", "Running": "▶", "Waiting": "◌", "Bad": "✖", "Idle": "■"}
PAUSED: Final = "‖"
SECOND_MS: Final = 1000

PHASES: Final[dict[str, tuple[str, str]]] = {
    "Running": ("▶", "Running"),
    "Pausing": (PAUSED, "Pausing"),
    "Paused": (PAUSED, "Paused"),
    "Suspending": ("■", "Suspending"),
    "Suspended": ("■", "Suspended"),
    "Succeeded": ("✔", "Succeeded"),
    "Failed": ("✖", "Failed"),
    "Stopped": ("■", "stopped"),
    "Finished": ("✔", "complete"),
}
"""Symbol and word of phases; all other phases are waits."""


WITHOUT_DRIVER: Final = {"Stopped", "Finished", "Pending", "Retrying", "Suspended", "Succeeded", "Failed"}
"""Phases in which no driver runs, so that there is no rate, no lag and no estimated end."""


@dataclass(frozen=True)
class Fact:
    """A name and its value."""

    rank: int
    """Facts of a high rank are left out first."""

    name: str
    value: str
    samples: tuple[int, ...] = ()
    """Samples of the value, oldest first."""


def state_of(frame: JobFrame) -> tuple[str, str]:
    """Return the symbol and the name of the activity of a job."""
    progress = frame.progress
    if frame.phase:
        symbol, word = PHASES.get(frame.phase, ("◌", frame.phase))
        return symbol, frame.resting or word
    if progress.finished:
        return "✔", "complete"
    if progress.stopping or progress.paused is not None:
        return "■" if progress.stopping else PAUSED, format_state(progress)
    return "▶" if progress.attempt else "◌", format_phase(progress)


def facts_of(frame: JobFrame, *, with_eta: bool) -> list[Fact]:
    """Return the facts of a job whose attempt has begun, in the order of a screen.

    Args:
        frame: The job.
        with_eta: Include the estimated end, if the title has no room for it.
    """
    progress = frame.progress
    resting = frame.phase in WITHOUT_DRIVER
    rate = f"{show_rows(progress.rows_per_second)} rows/s" if progress.rows_per_second and not resting else ""
    changes = f"{show_rows(progress.changes_done)} applied{format_bad_records(progress.bad_records)}"
    counted = progress.changes_done or progress.bad_records or "changes_done" in progress.model_fields_set
    facts = [
        Fact(2, "rate", rate, frame.trend.rates),
        Fact(4, "limit", _limit(frame.limit)),
        Fact(2, "ETA", format_end(frame) if with_eta else ""),
        Fact(3, "lag", "" if resting else _lag(progress), frame.trend.lags),
        Fact(5, "changes", changes if counted else ""),
        Fact(5, "writers", format_writer_conflicts(progress.writer_conflicts)),
        Fact(7, "commit", _commit(frame, resting=resting)),
        Fact(6, "refresh", _refresh(frame)),
        Fact(6, "barrier", _barrier(progress)),
        Fact(5, "width", format_width(progress, "max_in_flight")),
        Fact(7, "pieces", format_width(progress, "split_target_seconds", "chunk_rows", "executors")),
    ]
    return [fact for fact in facts if fact.value]


def format_end(frame: JobFrame) -> str:
    """Return the estimated end with its interval; empty before there is an estimate, and after the end."""
    progress = frame.progress
    left_s = _seconds_left(progress, frame.now)
    if left_s is None or progress.finished or frame.phase in WITHOUT_DRIVER:
        return ""
    # The interval is as old as the estimate, so it has become shorter by the same time.
    age_s = 0 if progress.eta_seconds is None else max(0, progress.eta_seconds - left_s)
    low, high = (
        None if seconds is None else max(0, seconds - age_s)
        for seconds in (progress.eta_seconds_low, progress.eta_seconds_high)
    )
    if left_s < 0 and not high:
        return ""  # the job runs longer than the estimate allows
    end = frame.now + timedelta(seconds=max(0, left_s))
    between = "" if low is None or high is None else f" ({show_seconds(low)} to {show_seconds(high)})"
    return f"{end.astimezone().strftime('%H:%M')}, in {show_seconds(max(0, left_s))}{between}"


def _seconds_left(progress: Progress, now: datetime) -> int | None:
    """Return the seconds from now to the estimated end, negative if it has passed; `None` without an estimate."""
    if progress.eta is None:
        return progress.eta_seconds
    # A status may be ten seconds old, and its time of the end still holds.
    return int((datetime.fromisoformat(progress.eta) - now).total_seconds())


def _limit(limit: LimitInForce | None) -> str:
    if limit is None:
        return "none"
    until = f" until {show_clock(limit.until)}" if limit.until else ""
    origin = ", ".join(part for part in (limit.origin.lower(), limit.by) if part)
    origin = f" ({origin})" if origin else ""
    return format_rate(limit.rows_per_second, limit.bytes_per_second) + until + origin


def _refresh(frame: JobFrame) -> str:
    """Describe the last refresh, and the next one."""
    progress, last = frame.progress, ""
    if progress.refresh is not None:
        upto = progress.consumed_position or f"version {progress.consumed_version}"
        last = f"{show_clock(progress.refresh.start)}, from {progress.refresh.from_position} to {upto}"
    coming = f"next {show_moment(frame.next_refresh)}" if frame.next_refresh else ""
    waits = f" waits: {frame.refresh_waits}" if coming and frame.refresh_waits else ""
    return "; ".join(part for part in (last, coming + waits) if part)


def _lag(progress: Progress) -> str:
    behind = progress.lag_versions or progress.lag_records or progress.lag_seconds
    return f"{format_lag(progress)}, {show_seconds(progress.lag_seconds)}" if behind else "none"


def _commit(frame: JobFrame, *, resting: bool) -> str:
    progress = frame.progress
    at = progress.last_commit_time
    if resting:
        return "" if at is None else show_moment(at)
    age = "" if at is None else f"{show_seconds(seconds_between(at, frame.now))} ago"
    medians = "" if progress.seal_ms_p50 is None else show_ms(progress.seal_ms_p50)
    slowest = "" if progress.seal_ms_p99 is None else f"p99 {show_ms(progress.seal_ms_p99)}"
    return ", ".join(part for part in (age, medians, slowest) if part)


def _barrier(progress: Progress) -> str:
    sealed = "" if progress.table_version is None else f", committed as version {progress.table_version}"
    return f"epoch {progress.epoch}{sealed}" if progress.epoch else ""


def show_ms(ms: int) -> str:
    """Return a duration in milliseconds, or in seconds from one second on."""
    return f"{ms} ms" if ms < SECOND_MS else f"{ms / SECOND_MS:.1f} s"


def seconds_between(moment: str, now: datetime) -> int:
    """Return the seconds since an RFC 3339 time; 0 for a time in the future, as clocks differ."""
    return max(0, int((now - datetime.fromisoformat(moment)).total_seconds()))
