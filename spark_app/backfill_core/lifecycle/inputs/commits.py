"""Commits of attempts: a lost driver that had made progress is not a failure of its job."""

from __future__ import annotations

import hashlib

from backfill_api.status.progress import Progress
from backfill_api.status.status import Attempt

_CHARACTERS = 16


def with_commits(attempt: Attempt, progress: Progress | None) -> Attempt:
    """Return the attempt with the driver's report: where it began, and whether it has committed progress since.

    A driver's first commit is its fence, which adds nothing, so a commit does not imply progress. A copy back has no fence, and reports a
    version only after its own first commit.
    """
    if progress is None or attempt.committed:
        return attempt
    if progress.table_version is None and attempt.procedure != "FollowBack":
        return attempt
    progress_hash = _progress_hash(progress)
    if attempt.began_at is None:
        return attempt.model_copy(update={"began_at": progress_hash})
    return attempt.model_copy(update={"committed": True}) if progress_hash != attempt.began_at else attempt


def _progress_hash(progress: Progress) -> str:
    """Return a hash of the part of the source that the target contains."""
    parts = (progress.rows_done, progress.splits_done, progress.consumed_version, progress.consumed_position)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:_CHARACTERS]
