"""Delay until the next poll of a Backfill that waits for a change which no watch shows: short at first, then growing.

A change that a watch shows wakes a Backfill at once, and each of its deadlines is scheduled exactly. This module covers other changes: a
quota that grows, a service account that is created, an event that was missed. Ten thousand waiting Backfills must not keep a core busy.
"""

from __future__ import annotations

import hashlib
from typing import Final

from backfill_core.lifecycle.inputs.context import Context

PART_OF_THE_WAIT: Final = 8
"""The next poll comes after at most an eighth of the time waited so far, so a fix is noticed in proportion."""

SPREAD_PER_CENT: Final = 50
"""Spread that is subtracted from a long wait, by UID, because a starting operator may find thousands of waiting Backfills."""


def next_look_ms(
    context: Context, since: str | None, *, first_ms: int, last_ms: int, last_look_ms: int | None = None
) -> int:
    """Return the milliseconds until the next poll.

    Args:
        context: The Backfill.
        since: Start of the wait; an unreadable time counts as now.
        first_ms: Delay between two polls at first.
        last_ms: Longest delay between two polls.
        last_look_ms: Time of the poll from which the delay counts, in milliseconds since 1970; default: now.
    """
    waited_ms = -context.left_ms(since, 0)
    if last_look_ms is not None:
        waited_ms = max(0, waited_ms - max(0, context.now_ms - last_look_ms))
    grown_ms = min(waited_ms // PART_OF_THE_WAIT, last_ms)
    digest = hashlib.sha256(context.observation.uid.encode(errors="replace")).digest()
    spread = int.from_bytes(digest[:2]) * SPREAD_PER_CENT // 65_536
    return max(first_ms, grown_ms * (100 - spread) // 100)
