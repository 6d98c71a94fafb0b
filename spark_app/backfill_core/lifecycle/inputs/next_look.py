"""When to look again at a Backfill that waits for what no watch shows: soon at first, and ever more rarely.

Whatever a watch shows wakes a Backfill at once, and each deadline of its own is waited for exactly. This is about the rest: a
quota that grows, an account that is made, an event that was missed. Ten thousand that wait so must not keep a core busy.
"""

from __future__ import annotations

import hashlib
from typing import Final

from backfill_core.lifecycle.inputs.context import Context

PART_OF_THE_WAIT: Final = 8
"""A look comes at the latest after an eighth of the time that was waited already: what was mended is seen in proportion."""

SPREAD_PER_CENT: Final = 50
"""Subtracted from a wait that has grown, by the UID: an operator that starts finds thousands that wait."""


def next_look_ms(
    context: Context, since: str | None, *, first_ms: int, last_ms: int, last_look_ms: int | None = None
) -> int:
    """Return after how many milliseconds to look again.

    Args:
        context: The Backfill.
        since: When the wait began; a time that cannot be read counts as now.
        first_ms: The wait between two looks at first.
        last_ms: The longest wait between two looks.
        last_look_ms: Time of the look that the wait is counted from, in milliseconds since 1970; default: now.
    """
    waited_ms = -context.left_ms(since, 0)
    if last_look_ms is not None:
        waited_ms = max(0, waited_ms - max(0, context.now_ms - last_look_ms))
    grown_ms = min(waited_ms // PART_OF_THE_WAIT, last_ms)
    digest = hashlib.sha256(context.observation.uid.encode(errors="replace")).digest()
    spread = int.from_bytes(digest[:2]) * SPREAD_PER_CENT // 65_536
    return max(first_ms, grown_ms * (100 - spread) // 100)
