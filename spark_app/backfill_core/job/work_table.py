"""The work under way, by kind: work that a pause or a stop cancels, and work to wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from backfill_core.protocol.actions import CancelWork, StartWork
from backfill_core.protocol.work import Verify, Work, WorkKind


@dataclass(slots=True)
class _Entry:
    work: Work
    cancelled: bool = False
    """True if a cancel was sent."""


class WorkTable:
    """All work, from its start to its single answer; ids are never reused."""

    def __init__(self) -> None:
        """Start empty; no work has id 0."""
        self._entries: dict[int, _Entry] = {}
        self.next_id = 1

    def __len__(self) -> int:
        """Return the number of works under way."""
        return len(self._entries)

    @property
    def verify_id(self) -> int | None:
        """Id of the comparison under way; `None` if no comparison runs."""
        return next((work_id for work_id, entry in self._entries.items() if isinstance(entry.work, Verify)), None)

    @property
    def checks(self) -> bool:
        """True if a check of the strategy is under way."""
        return any(
            entry.work.kind is WorkKind.CHECK and not isinstance(entry.work, Verify) for entry in self._entries.values()
        )

    @property
    def oldest_history_id(self) -> int:
        """Smallest id of the work that reads history; the next id if no such work is under way."""
        ids = (work_id for work_id, entry in self._entries.items() if entry.work.kind is WorkKind.HISTORY)
        return min(ids, default=self.next_id)

    def start(self, work: Iterable[Work]) -> list[StartWork]:
        """Add works, and return the actions that start them."""
        started = []
        for item in work:
            self._entries[item.work_id] = _Entry(item)
            self.next_id = max(self.next_id, item.work_id + 1)
            started.append(StartWork(item))
        return started

    def end(self, work_id: int) -> None:
        """Remove work that answered."""
        self._entries.pop(work_id, None)

    def cancel(self, which: Callable[[Work], bool]) -> list[CancelWork]:
        """Return the actions that cancel the selected works; each work is cancelled once."""
        fresh = [work_id for work_id, entry in self._entries.items() if not entry.cancelled and which(entry.work)]
        for work_id in fresh:
            self._entries[work_id].cancelled = True
        return [CancelWork(work_id) for work_id in fresh]

    def abandon(self) -> list[CancelWork]:
        """Return the actions that cancel all work, cancelled work included."""
        return [CancelWork(work_id) for work_id in self._entries]


def held_by(*, stopping: bool, changes_held: bool) -> Callable[[Work], bool]:
    """Select the work that a stop, a pause of everything or a pause of history ends.

    Changes continue in a pause of history (R-SNAP-43), and a receipt continues in every pause.
    """
    if stopping:
        return lambda _: True
    if changes_held:
        return lambda work: not isinstance(work, Verify)
    return lambda work: work.kind is WorkKind.HISTORY
