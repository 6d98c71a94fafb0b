"""What a run tells while it goes on: lines for logs, JSON for programs, a block of lines on a terminal.

The driver's own thread hands in what it sees, and never waits: a reader that is slow (a pager, a terminal that is held)
must not hold up a seal. A thread of ours says it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from backfill import Progress
from backfill.lines import GOODBYE_S

LINE_EVERY_S = 5.0
JSON_EVERY_S = 1.0
SCREEN_EVERY_S = 0.25


class Teller(Protocol):
    """Shows a run to its user, on a thread of its own."""

    def see(self, progress: Progress) -> None:
        """Take a look at the job; returns at once."""

    def close(self) -> None:
        """Say what is left to be said, and end."""


class Redrawn:
    """Draws the newest look again and again, and once more at the end."""

    def __init__(self, draw: Callable[[Progress], None], progress: Progress) -> None:
        """Take what draws; it is called on a thread of ours."""
        self._draw = draw
        self._progress = progress
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._thread.start()

    def see(self, progress: Progress) -> None:
        """Take a look at the job."""
        self._progress = progress

    def close(self) -> None:
        """Draw it as it is at the end."""
        self._over.set()
        self._thread.join(GOODBYE_S)

    def _run(self) -> None:
        while not self._over.wait(SCREEN_EVERY_S):
            self._draw(self._progress)
        self._draw(self._progress)
