"""When to remove files that earlier attempts staged and never committed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from backfill_core.job.view import JobView
from backfill_spark.crash_points import crash_point

WAITS_EPOCHS = 10
"""So many barriers may pass without a row before garbage stops waiting for one: a paused job is tidied too."""

END_S = 60.0
"""Longest wait at the end of a complete job: no later run removes them."""

LOOK_S = 0.25


class OrphanRemoval:
    """Calls `remove` once, in a thread: after the fence, and after this attempt's first commit with rows.

    The fence keeps an older attempt from sealing what is removed. The rows come first because looking through the
    target's files is work for Spark, of which the first split of a cold JVM has too little.
    """

    def __init__(self, remove: Callable[[], object]) -> None:
        """Take what removes them; nothing runs before `look`."""
        self._remove = remove
        self._fence: JobView | None = None
        self._thread = threading.Thread(target=self._run, name="orphans", daemon=True)

    @property
    def running(self) -> bool:
        """Is it under way?"""
        return self._thread.is_alive()

    def look(self, view: JobView) -> None:
        """Take a look at the job, and begin when it is time."""
        if view.table_version < 0:
            return
        if self._fence is None:
            self._fence = view
            crash_point("after_fence")
        if is_due(self._fence, view):
            self._begin()

    def finish(self, until: Callable[[], bool] = lambda: False) -> None:
        """Have it done, begun or not; waits for it, for a minute at most, and not beyond `until`."""
        if self._fence is None:
            return
        self._begin()
        deadline_s = time.monotonic() + END_S
        while self.running and time.monotonic() < deadline_s and not until():
            self._thread.join(LOOK_S)

    def _begin(self) -> None:
        if self._thread.ident is None:
            self._thread.start()

    def _run(self) -> None:
        crash_point("before_orphan_removal")
        try:
            self._remove()
        except Exception as error:  # noqa: BLE001 - a thread's border
            # They cost space, never rows: the next attempt tries again, and VACUUM does in the end.
            words = "%s: files that were staged and never committed stay"
            logging.getLogger(__name__).warning(words, str(error).partition("\n")[0] or type(error).__name__)
        crash_point("after_orphan_removal")


def is_due(fence: JobView, view: JobView) -> bool:
    """Did a commit since the fence hold rows, or is none expected soon?"""
    rows = view.strategy.rows_done > fence.strategy.rows_done
    return rows or view.changes_done > fence.changes_done or view.epoch >= fence.epoch + WAITS_EPOCHS
