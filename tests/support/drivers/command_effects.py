"""Fields of a driver's progress once a command is in force: one script for all doubles of a driver."""

from typing import Any

from backfill_core.protocol.commands import Pause, Rescale, Resume, Stop, Throttle, VerifyNow
from backfill_core.protocol.events import CommandReceived
from backfill_spark.control.wire import format_timestamp


def effect_of(event: CommandReceived) -> dict[str, Any]:
    """Return the fields of a progress that a command sets, by their names."""
    match event.command:
        case Pause(everything=everything):
            reason = f"paused by command (revision {event.revision})"
            return {"paused": "All" if everything else "History", "quiet": True, "reason": reason}
        case Resume():
            return {"paused": None, "quiet": False, "reason": ""}
        case Throttle(rows_per_s=rows, bytes_per_s=size_bytes, until_ms=until_ms):
            reason = f"throttled by command (revision {event.revision})"
            until = None if until_ms is None else format_timestamp(until_ms)
            limits = {"throttle_rows_per_second": rows, "throttle_bytes_per_second": size_bytes}
            return {**limits, "throttle_until": until, "reason": reason}
        case Rescale(width=width):
            return width.given
        case Stop():
            return {"stopping": True}
        case VerifyNow():
            return {}
