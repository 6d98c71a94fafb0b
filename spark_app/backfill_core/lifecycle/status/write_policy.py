"""When a status is worth a write: what changed for a reason at once, mere progress at a walking pace."""

from __future__ import annotations

from typing import Literal, NamedTuple

from backfill_api.status.status import BackfillStatus

PROGRESS_EVERY_MS = 10_000


class WriteDecision(NamedTuple):
    """What to do with a status."""

    write: Literal["Now", "Progress", "Later", "Never"]
    """`Now`: something happened. `Progress`: only progress, which the operator's bucket must admit. `Never`: nothing new."""

    after_ms: int = 0
    """Of `Later`: when it is worth a write."""


def decide_write(
    written: BackfillStatus, status: BackfillStatus, *, progress_written_ms: int | None, now_ms: int
) -> WriteDecision:
    """Compare a status with the one that is stored.

    Args:
        written: What is stored.
        status: What is true.
        progress_written_ms: When this object's progress was written last; None: not known.
        now_ms: The moment.
    """
    if written == status:
        return WriteDecision("Never")
    if written.model_copy(update={"progress": None}) != status.model_copy(update={"progress": None}):
        return WriteDecision("Now")
    old, new = written.progress, status.progress
    if old is not None and new is not None and old.model_copy(update={"epoch": new.epoch}) == new:
        return WriteDecision("Never")  # barriers come every second, also to a job that has nothing to do
    stepped = old is None or new is None or old.percent != new.percent or old.phase != new.phase
    left_ms = 0 if progress_written_ms is None else progress_written_ms + PROGRESS_EVERY_MS - now_ms
    if stepped or left_ms <= 0:
        return WriteDecision("Progress")
    return WriteDecision("Later", min(left_ms, PROGRESS_EVERY_MS))
