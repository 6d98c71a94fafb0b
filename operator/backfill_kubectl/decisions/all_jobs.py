"""Decides whether a job has acknowledged the switch for all jobs, and describes the result."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from backfill_api.amounts import counted
from backfill_api.spec.change_claim import PauseAll
from backfill_core.lifecycle.inputs.all_jobs import ALL_JOBS_PAUSED
from backfill_kubectl.decisions.acknowledgement import (
    Acknowledgement,
    Recorded,
    Rejected,
    Waiting,
    commanded,
    controls_of,
    likely_silence,
)
from backfill_kubectl.decisions.changes import Pause, Resume
from backfill_kubectl.decisions.stored import StoredBackfill

CHART: Final = "the chart"
"""Author of a pause that the chart's values request."""

NAMED_MAX: Final = 5
"""Jobs without an acknowledgement that a message names."""


def switch_answer(switch: PauseAll, job: StoredBackfill, now_ms: int) -> Acknowledgement:
    """Return whether a job has acknowledged the switch; a job without a driver has nothing to acknowledge.

    Args:
        switch: The written switch.
        job: The current object.
        now_ms: Current time; a limit past its end is not in force.
    """
    seen = job.status.all_jobs_pause
    attempt = job.status.attempt
    ready = job.condition("Ready")
    held = not switch.enabled or (ready is not None and ready.reason == ALL_JOBS_PAUSED)
    if not job.driver_runs or (held and attempt is not None and attempt.state == "Planned"):
        return Recorded("no driver runs")
    # Each write of the switch has its own time, so an earlier pause does not count.
    if (seen is None or seen.time != switch.time) if switch.enabled else seen is not None:
        return Waiting(likely_silence(job, "the operator has not read the switch"))
    own = controls_of(job, now_ms)
    if switch.enabled:
        return commanded(Pause("All"), replace(own, paused="All"), job)
    return commanded(Resume() if own.paused is None else Pause(own.paused), own, job)


def unfinished(job: StoredBackfill) -> bool:
    """Return whether the switch concerns a job."""
    return not job.ended and not job.deleting


def summary(switch: PauseAll, acknowledged: int, held: int, seconds: float) -> str:
    """Describe the result for all jobs."""
    running = f"{counted(acknowledged, 'running job')} acknowledged in {seconds:.1f} s" if acknowledged else "none runs"
    state = "all jobs are paused" if switch.enabled else "the pause of all jobs is lifted"
    effect = "is held" if switch.enabled else "starts by its own state"
    effects = "are held" if switch.enabled else "start by their own state"
    rest = f", {held:,} without a driver {effect if held == 1 else effects}" if held else ""
    return f"{state}: {running}{rest}"


def describe_missing(answers: Collection[tuple[str, Waiting | Rejected]]) -> str:
    """Name the jobs that have not acknowledged, with their reasons."""
    named = [f"{key}: {answer.why}" for key, answer in sorted(answers, key=lambda each: each[0])[:NAMED_MAX]]
    more = len(answers) - len(named)
    return "; ".join(named) + (f"; and {more:,} more" if more else "")
