"""Rule for writing a status: events at once, mere progress at most every few seconds, and a percent that never falls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from backfill_api.names import WATCHED_ANNOTATION
from backfill_api.status.progress import ProgressSummary
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.inputs.timestamps import ms_of

PROGRESS_EVERY_MS = 10_000
WATCHED_EVERY_MS = 2_000
"""Interval for an object that somebody watches."""

LEASE_MS = 60_000
"""Longest lease. A viewer that disappears costs no more than this."""

LEASE_ERROR_MS = 600_000
"""A time this far ahead is an error, and not a clock that is ahead."""

WATCHED_MAX = 50
"""Objects that are written at this pace at a time: 25 writes a second, of 50 that the operator allows."""

SHOWN_CHARACTERS_MAX = 64


class WriteDecision(NamedTuple):
    """Decision about writing a status, with its time."""

    write: Literal["Now", "Progress", "Later", "Never"]
    """`Now`: an event happened. `Progress`: only progress, if the operator's rate limit admits it. `Later`: see `after_ms`. `Never`: no change."""

    after_ms: int = 0
    """Delay of `Later`, in milliseconds."""


class Lease(NamedTuple):
    """Time until which somebody watches an object; the default is that of no annotation."""

    until_ms: int = 0
    error: str = ""
    """Reason why the annotation is ignored; empty if it is not."""


def lease_of(annotations: Mapping[str, str], now_ms: int) -> Lease:
    """Return the lease of the annotation `backfill.dev/watched-until`.

    Only the minute before the given time counts, so a viewer that disappears never holds a lease for longer.
    """
    text = annotations.get(WATCHED_ANNOTATION, "").strip()
    if not text:
        return Lease()
    until_ms = ms_of(text)
    if until_ms is None:
        reason = f"{text[:SHOWN_CHARACTERS_MAX]!r} is no time of RFC 3339, such as 2026-11-26T21:37:02Z"
    elif until_ms > now_ms + LEASE_ERROR_MS:
        reason = f"{text[:SHOWN_CHARACTERS_MAX]!r} is more than a minute ahead"
    else:
        return Lease(until_ms if now_ms < until_ms <= now_ms + LEASE_MS else 0)
    return Lease(error=f"{WATCHED_ANNOTATION}: {reason}; the status is written every {PROGRESS_EVERY_MS // 1000} s")


def with_lease(leases: Mapping[str, int], uid: str, until_ms: int, now_ms: int) -> dict[str, int]:
    """Return the leases in force, in the order in which they began, with that of one object if there is room.

    Args:
        leases: End of each lease, by the UID of its object.
        uid: The object.
        until_ms: End of its lease; 0 without one.
        now_ms: Wall time.
    """
    held = {of: end for of, end in leases.items() if end > now_ms and of != uid}
    first = uid in leases or len(held) < WATCHED_MAX
    return held | {uid: until_ms} if until_ms > now_ms and first else held


def decide_write(
    written: BackfillStatus,
    status: BackfillStatus,
    *,
    progress_written_ms: int | None,
    now_ms: int,
    every_ms: int = PROGRESS_EVERY_MS,
) -> WriteDecision:
    """Decide about writing the status, compared with the stored one.

    Args:
        written: The stored status.
        status: The current status.
        progress_written_ms: Time of the last write of this object's progress; `None` if unknown.
        now_ms: Wall time.
        every_ms: Interval of writes that contain only progress.
    """
    if written == status:
        return WriteDecision("Never")
    if written.model_copy(update={"progress": None}) != status.model_copy(update={"progress": None}):
        return WriteDecision("Now")
    old, new = written.progress, status.progress
    if old is not None and new is not None and old.model_copy(update={"epoch": new.epoch}) == new:
        return WriteDecision("Never")  # the epoch grows every second, even in an idle job
    stepped = old is None or new is None or old.percent != new.percent or old.phase != new.phase
    left_ms = 0 if progress_written_ms is None else progress_written_ms + every_ms - now_ms
    if stepped or left_ms <= 0:
        return WriteDecision("Progress")
    return WriteDecision("Later", min(left_ms, every_ms))


def not_less(progress: ProgressSummary, written: ProgressSummary | None) -> ProgressSummary:
    """Return a progress whose percent is not below the percent shown before (R-PROG-4).

    A driver that is killed in a proof or a receipt, which commit nothing, starts it again. Fewer rows than before indicate another target.
    """
    if written is None or written.percent <= progress.percent or written.rows_done > progress.rows_done:
        return progress
    return progress.model_copy(update={"percent": written.percent})
