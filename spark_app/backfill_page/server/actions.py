"""Actions of a form."""

from __future__ import annotations

from collections.abc import Mapping

from backfill_api.typed_amounts import parse_duration_s, parse_rate
from backfill_page.seen import Action, Pause, Resume, Throttle, Verify


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
