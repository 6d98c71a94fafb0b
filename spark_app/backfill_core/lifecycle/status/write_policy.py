"""Rule for writing a status: events at once, mere progress at most every few seconds, and a percent that never falls."""

from __future__ import annotations

from typing import Literal, NamedTuple

from backfill_api.status.progress import ProgressSummary
from backfill_api.status.status import BackfillStatus

PROGRESS_EVERY_MS = 10_000


class WriteDecision(NamedTuple):
    """Decision about writing a status, with its time."""

    write: Literal["Now", "Progress", "Later", "Never"]
    """`Now`: an event happened. `Progress`: only progress, if the operator's rate limit admits it. `Later`: see `after_ms`. `Never`: no change."""

    after_ms: int = 0
    """Delay of `Later`, in milliseconds."""


def decide_write(
    written: BackfillStatus, status: BackfillStatus, *, progress_written_ms: int | None, now_ms: int
) -> WriteDecision:
    """Decide about writing the status, compared with the stored one.

    Args:
        written: The stored status.
        status: The current status.
        progress_written_ms: Time of the last write of this object's progress; `None` if unknown.
        now_ms: Wall time.
    """
    if written == status:
        return WriteDecision("Never")
    if written.model_copy(update={"progress": None}) != status.model_copy(update={"progress": None}):
        return WriteDecision("Now")
    old, new = written.progress, status.progress
    if old is not None and new is not None and old.model_copy(update={"epoch": new.epoch}) == new:
        return WriteDecision("Never")  # the epoch grows every second, even in an idle job
    stepped = old is None or new is None or old.percent != new.percent or old.phase != new.phase
    left_ms = 0 if progress_written_ms is None else progress_written_ms + PROGRESS_EVERY_MS - now_ms
    if stepped or left_ms <= 0:
        return WriteDecision("Progress")
    return WriteDecision("Later", min(left_ms, PROGRESS_EVERY_MS))


def not_less(progress: ProgressSummary, written: ProgressSummary | None) -> ProgressSummary:
    """Return a progress whose percent is not below the percent shown before (R-PROG-4).

    A driver that is killed in a proof or a receipt, which commit nothing, starts it again. Fewer rows than before indicate another target.
    """
    if written is None or written.percent <= progress.percent or written.rows_done > progress.rows_done:
        return progress
    return progress.model_copy(update={"percent": written.percent})
