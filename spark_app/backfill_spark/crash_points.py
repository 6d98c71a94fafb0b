"""Named places where the driver can be made to die, so that every seam between two effects is tested.

`BACKFILL_CRASH_AT=before_seal:3` kills the process with SIGKILL when it passes `before_seal` the third time.
Without it a crash point is one dictionary look-up.
"""

from __future__ import annotations

import os
import signal
import threading

CRASH_POINTS = (
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

_armed: dict[str, int] = {}
_lock = threading.Lock()


def parse(spec: str | None) -> dict[str, int]:
    """Return which passing of which point `name:n` means; without one: none.

    Raises:
        ValueError: no such point, or `n` is no positive number.
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
    """Arm one point; None disarms all. See `parse`."""
    _armed.clear()
    _armed.update(parse(spec))


def crash_point(name: str) -> None:
    """Die here if this is the armed passing; threads may pass at the same time."""
    if name not in _armed:
        return
    with _lock:
        _armed[name] -= 1
        if _armed[name] == 0:
            # The whole group: the JVM is our child, and a container's death takes it along.
            os.killpg(os.getpgrp(), signal.SIGKILL) if os.getpgrp() == os.getpid() else os.kill(
                os.getpid(), signal.SIGKILL
            )
