"""View that a separate thread redraws, and the interval of each view.

The driver's thread hands in each progress and never waits: a slow reader (a pager, a terminal on hold) must not delay a commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from backfill.lines import GOODBYE_S

LINE_EVERY_S = 5.0
JSON_EVERY_S = 1.0
SCREEN_EVERY_S = 0.25


T = TypeVar("T")


class Redrawn(Generic[T]):
    """Draws the newest progress again and again, and once more at the end."""

    def __init__(self, draw: Callable[[T], None], progress: T) -> None:
        """Start to draw; `draw` is called on a separate thread."""
        self._draw = draw
        self._progress = progress
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._thread.start()

    def see(self, progress: T) -> None:
        """Draw this progress from now on."""
        self._progress = progress

    def close(self) -> None:
        """Draw the last progress, and end."""
        self._over.set()
        self._thread.join(GOODBYE_S)

    def _run(self) -> None:
        while not self._over.wait(SCREEN_EVERY_S):
            self._draw(self._progress)
        self._draw(self._progress)
