"""Actions of a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from backfill_api.typed_amounts import parse_duration_s, parse_rate
from backfill_page.seen import Action, AllJobsAction, Pause, PauseAllJobs, Resume, ResumeAllJobs, Throttle, Verify

REASON_CHARACTERS_MAX: Final = 200


def parse_action(form: Mapping[str, str]) -> Action:
    """Return the action of a form.

    Raises:
        ValueError: the verb is unknown, or a value is malformed.
    """
    match form.get("verb", ""):
        case "pause":
            return Pause()
        case "resume":
            return Resume()
        case "verify":
            return Verify()
        case "throttle":
            rate, duration = parse_rate(form.get("rate", "")), form.get("for", "").strip()
            if rate is None and duration:
                raise ValueError("no limit has no end: choose `until it is changed`")
            return Throttle(rate, parse_duration_s(duration) if duration else None)
        case verb:
            raise ValueError(f"unknown action {verb!r}")


def parse_all_jobs_action(form: Mapping[str, str]) -> AllJobsAction:
    """Return the action of a form for all jobs.

    Raises:
        ValueError: the verb is unknown, or a pause has no reason.
    """
    reason = " ".join(form.get("reason", "").split())[:REASON_CHARACTERS_MAX]
    match form.get("verb", ""):
        case "pause":
            if not reason:
                raise ValueError("give a reason, such as `incident 4711`: every paused job shows it")
            return PauseAllJobs(reason)
        case "resume":
            return ResumeAllJobs(reason)
        case verb:
            raise ValueError(f"unknown action {verb!r}")
