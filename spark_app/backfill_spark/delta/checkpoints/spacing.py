"""Distance between checkpoints. A checkpoint lists every file of a table, so its cost grows with the table."""

from __future__ import annotations

FILES_PER_COMMIT = 5_000
"""Number of files that one commit between two checkpoints stands for. Kernel writes 5,000 files in 0.1 to 0.2 s of one core."""

COMMITS_MAX = 500
"""Most commits between two checkpoints: each reader of the table opens them."""


def commits_between(files: int) -> int:
    """Return the least number of commits between two checkpoints of a table with this many files.

    Without a distance that grows with the table, a target of 500,000 files that gets a commit a second would write checkpoints all the time.
    """
    return min(COMMITS_MAX, files // FILES_PER_COMMIT)
