"""All Backfills of a watch: one thread applies its events, another reads them."""

from __future__ import annotations

import threading

from backfill_core.errors import BackfillError
from backfill_kubectl.decisions.stored import Json, StoredBackfill, read_stored


class BackfillTable:
    """The newest Backfills; empty until the first list is complete."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._backfills: dict[str, StoredBackfill] | None = None
        self._listed: dict[str, StoredBackfill] | None = None
        """Objects of a list that is not complete; `None` between lists."""

        self._error: BackfillError | None = None
        self._lock = threading.Lock()
        self.news = threading.Event()
        """Set after each change."""

    def change(self, type_: str, raw: Json) -> None:
        """Apply an event of `follow_all`. A complete list replaces all objects: some may be deleted since the last one."""
        with self._lock:
            match type_:
                case "LISTING":
                    self._listed = {}
                    return
                case "LISTED":
                    self._backfills, self._listed = self._listed, None
                case "DELETED":
                    (self._backfills or {}).pop(read_stored(raw).key, None)
                case _:
                    backfill = read_stored(raw)
                    table = self._backfills if self._listed is None else self._listed
                    if table is not None:
                        table[backfill.key] = backfill
                    if self._listed is not None:
                        return
        self.news.set()

    def fail(self, error: BackfillError) -> None:
        """Keep the error that ended the watch."""
        with self._lock:
            self._error = error
        self.news.set()

    def backfills(self) -> list[StoredBackfill] | None:
        """Return all Backfills; `None` before the first list is complete.

        Raises:
            BackfillError: the watch has ended.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            return None if self._backfills is None else list(self._backfills.values())
