"""The command that undoes a change, with the values that held before."""

from __future__ import annotations

from backfill_kubectl.decisions.acknowledgement import controls_of
from backfill_kubectl.decisions.changes import Change, Pause, Resume, Suspend, Throttle, Unsuspend
from backfill_kubectl.decisions.stored import StoredBackfill


def undo_of(change: Change, before: StoredBackfill, now_ms: int) -> str:
    """Return the words after the program's name; empty if the change cannot be undone."""
    where = f"{before.name} -n {before.namespace}"
    match change:
        case Pause():
            return f"resume {where}"
        case Resume():
            scope = controls_of(before, now_ms).paused
            return "" if scope is None else f"pause {where}" + (" --with-changes" if scope == "All" else "")
        case Throttle():
            desired = controls_of(before, now_ms)
            rows, size = desired.rows_per_second, desired.bytes_per_second
            limits = [] if size is None else [f"--bytes {size}B"]
            return " ".join(
                ["throttle", before.name, *(["none"] if rows is None else [str(rows)]), *limits, "-n", before.namespace]
            )
        case Suspend():
            return f"unsuspend {where}"
        case Unsuspend():
            return f"suspend {where}"
        case _:
            return ""
