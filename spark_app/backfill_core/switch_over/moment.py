"""Time of the fence: as little as possible remains for the target afterwards, because writers are refused meanwhile.

The entry of the fence has no rows, so a target with all versions before it holds everything. The driver applies new versions in
batches, and a fence at a random time waits for two of them: for the one that runs, and for the one with the last versions.

target                                               source is fenced
--------------------------------------------------   --------------------------------------------------------------
it holds the newest version                          now: nothing remains
a MERGE up to the newest version has begun           now, if the driver has applied a batch since the command began
a paused job, and a newer version                    never: the target would not get it
anything else                                        after the longest wait
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from backfill_core.errors import SwitchBlockedError

MOMENT_WAIT_S: Final = 60.0
"""Longest wait for a good time. The source accepts writes during the wait, and its lag stays below the limit of the check."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Versions of the source that the target holds, as its log shows them."""

    consumed: int | None
    """Last version that the target holds; `None` while its history is incomplete."""

    announced: int | None = None
    """Last version of a MERGE that has begun and is not in the target yet; `None` without one."""

    paused: bool = False
    """True if the job applies no changes until it is resumed."""

    def holds(self, version: int) -> bool:
        """Return True if the target holds a version."""
        return self.consumed is not None and self.consumed >= version


def check_drains(head: int, now: Reached) -> None:
    """Refuse a fence after which the target would never get the versions that it lacks.

    Raises:
        SwitchBlockedError: the job is paused, and the source has a newer version.
    """
    if now.paused and not now.holds(head):
        raise SwitchBlockedError(
            f"the job is paused, and the target lacks version {head}: writers of the source would be refused for long.",
            hint="Resume the job, then run the switch-over again; nothing was changed.",
        )


def is_moment(head: int, first: Reached, now: Reached, *, waited_s: float) -> bool:
    """Return whether the source is fenced now, as the version after `head`.

    Args:
        head: Newest version of the source.
        first: State of the target when the command began: a batch since then shows that the driver's Java has loaded its code.
        now: Present state of the target.
        waited_s: Seconds since the wait began.
    """
    if now.consumed is None:
        return False
    if now.holds(head) or waited_s >= MOMENT_WAIT_S:
        return True
    is_warm = first.consumed is not None and now.consumed > first.consumed
    return is_warm and now.announced is not None and now.announced >= head


def is_drained(fence_version: int, now: Reached) -> bool:
    """Return whether the target holds all rows of a fenced source; the entry of the fence has none."""
    return now.holds(fence_version - 1)
