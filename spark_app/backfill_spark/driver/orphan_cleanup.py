"""Removes files that earlier attempts staged and never committed, at the right time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from backfill_core.job.view import JobView
from backfill_spark.crash_points import crash_point

WAITS_EPOCHS = 10
"""Number of barriers after the fence at which the removal begins even without a row, so that it also runs in a paused job."""

END_S = 60.0
"""Longest wait at the end of a complete job; no later run would remove the files."""

LOOK_S = 0.25


class OrphanRemoval:
    """Calls `remove` once, in a thread: after the fence, and after this attempt's first commit with rows.

    The fence prevents an older attempt from sealing files that are being removed. The removal waits for the first rows because listing
    the target's files takes Spark's capacity, which the first split of a cold JVM needs.
    """

    def __init__(self, remove: Callable[[], object]) -> None:
        """Take the function that removes the files; nothing runs before the first call of `look`."""
        self._remove = remove
        self._fence: JobView | None = None
        self._thread = threading.Thread(target=self._run, name="orphans", daemon=True)

    @property
    def running(self) -> bool:
        """True while the removal runs."""
        return self._thread.is_alive()

    def look(self, view: JobView) -> None:
        """Take a view of the job, and begin the removal when it is due."""
        if view.table_version < 0:
            return
        if self._fence is None:
            self._fence = view
            crash_point("after_fence")
        if is_due(self._fence, view):
            self._begin()

    def finish(self, until: Callable[[], bool] = lambda: False) -> None:
        """Begin the removal if it has not begun, and wait for it; for a minute at most, and only until `until` returns True."""
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
        except Exception as error:  # noqa: BLE001 - thread boundary
            # Orphans cost space, never rows. The next attempt tries again, and VACUUM removes them at the latest.
            message = "%s: files that were staged and never committed were not removed"
            logging.getLogger(__name__).warning(message, str(error).partition("\n")[0] or type(error).__name__)
        crash_point("after_orphan_removal")


def is_due(fence: JobView, view: JobView) -> bool:
    """Return True if a commit since the fence added rows, or if no such commit is expected soon."""
    rows = view.strategy.rows_done > fence.strategy.rows_done
    return rows or view.changes_done > fence.changes_done or view.epoch >= fence.epoch + WAITS_EPOCHS
