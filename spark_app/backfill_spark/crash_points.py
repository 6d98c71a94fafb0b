"""Named crash points of the driver, so that tests can kill it between any two effects.

`BACKFILL_CRASH_AT=before_seal:3` kills the process with SIGKILL when it reaches `before_seal` for the third time.
Without that variable, a crash point costs one dictionary lookup.
"""

from __future__ import annotations

import os
import signal
import threading

OF_JOBS = (
    "after_fence",
    "before_stage",
    "after_stage",
    "before_seal",
    "after_seal_commit",
    "before_quarantine",
    "after_quarantine",
    "before_ack",
    "before_merge",
    "after_merge",
    "before_orphan_removal",
    "after_orphan_removal",
    "before_finish",
    "after_finish",
)
"""The points that a driver's job reaches."""

OF_PUBLICATIONS = ("before_publish", "after_publish")
"""The points that only a job with `publish: WhenComplete` or `WhenVerified` reaches."""

OF_LIVE_TABLES = ("before_fill", "after_fill")
"""The points that only a job which fills columns of a live table reaches."""

OF_COMMANDS = (
    "before_log_entry",
    "after_log_entry",
    "before_repair",
    "after_repair",
    "before_switch_step",
    "after_switch_step",
)
"""The points that only commands such as `backfill fence`, `repair` and `switch` reach."""

CRASH_POINTS = OF_JOBS + OF_PUBLICATIONS + OF_LIVE_TABLES + OF_COMMANDS

_armed: dict[str, int] = {}
_lock = threading.Lock()


def parse(spec: str | None) -> dict[str, int]:
    """Return the crash point of `name:n` with the number of the fatal pass; an empty dictionary without a spec.

    Raises:
        ValueError: there is no such crash point, or `n` is not a positive number.
    """
    if not spec:
        return {}
    name, _, count = spec.partition(":")
    if name not in CRASH_POINTS:
        raise ValueError(f"no crash point {name!r}; there are {', '.join(CRASH_POINTS)}")
    if not (count or "1").isdecimal() or int(count or 1) < 1:
        raise ValueError(f"{count!r} is no positive number")
    return {name: int(count or 1)}


def arm(spec: str | None) -> None:
    """Arm one crash point; `None` disarms all. See `parse`."""
    _armed.clear()
    _armed.update(parse(spec))


def crash_point(name: str) -> None:
    """Kill the process if this is the armed pass; threads may pass concurrently."""
    if name not in _armed:
        return
    with _lock:
        _armed[name] -= 1
        if _armed[name] == 0:
            # The whole process group, because the death of a container also kills the JVM, which is a child process.
            os.killpg(os.getpgrp(), signal.SIGKILL) if os.getpgrp() == os.getpid() else os.kill(
                os.getpid(), signal.SIGKILL
            )
