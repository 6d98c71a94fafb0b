"""Which attempts committed something: a lost driver that had made progress is no failure of its job."""

from __future__ import annotations

import hashlib

from backfill_api.status.progress import Progress
from backfill_api.status.status import Attempt

_CHARACTERS = 16


def with_commits(attempt: Attempt, progress: Progress | None) -> Attempt:
    """Return the attempt with what its driver reports: where it began, and whether it has committed more since.

    A driver's first commit is its fence, which takes nothing further, so commits alone are no progress.
    """
    if progress is None or progress.table_version is None or attempt.committed:
        return attempt
    held = _held(progress)
    if attempt.began_at is None:
        return attempt.model_copy(update={"began_at": held})
    return attempt.model_copy(update={"committed": True}) if held != attempt.began_at else attempt


def _held(progress: Progress) -> str:
    """Return a hash of what the target holds of the source."""
    parts = (progress.rows_done, progress.splits_done, progress.consumed_version, progress.consumed_position)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:_CHARACTERS]
