"""Steps of a copy back, as the watch of Java sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from backfill_core.pacing.barrier_pulse import BarrierMark

STEP_S: Final = 600.0
"""Seconds of extra time for a step that is no commit, such as the read of a log of a million files, or the copy of a file inside a store."""


class WatchedSteps:
    """Counts the steps of one copy back. A commit may take as long as one of a job's driver, each other step longer."""

    def __init__(self, check: Callable[[], None]) -> None:
        """Begin without a step.

        Args:
            check: Called with each step; an exception that it raises ends the copy.
        """
        self._check = check
        self._turns = 0
        self._commit: tuple[int, int] | None = None

    def check(self) -> None:
        """Count a step; raise what the check raises. Safe from any thread."""
        self._turns += 1
        self._check()

    @contextmanager
    def committing(self, version: int, files: int) -> Iterator[None]:
        """Mark a commit to the source as in flight while the block runs."""
        self._turns += 1
        self._commit = version, files
        try:
            yield
        finally:
            self._commit = None
            self._turns += 1

    @property
    def mark(self) -> BarrierMark:
        """Progress of the copy; safe from any thread."""
        commit, turns = self._commit, self._turns
        return BarrierMark(turns, more_s=STEP_S) if commit is None else BarrierMark(turns, *commit)
