"""The work under way, by kind: what a pause or a stop cancels, and what is awaited."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from backfill_core.protocol.actions import CancelWork, StartWork
from backfill_core.protocol.work import Verify, Work, WorkKind


@dataclass(slots=True)
class _Entry:
    work: Work
    cancelled: bool = False
    """Was its end asked for?"""


class WorkTable:
    """Every piece of work from its start to its one answer; numbers are never used twice."""

    def __init__(self) -> None:
        """Begin with nothing; 0 is no work's number."""
        self._entries: dict[int, _Entry] = {}
        self.next_id = 1

    def __len__(self) -> int:
        """Return how many are under way."""
        return len(self._entries)

    @property
    def verify_id(self) -> int | None:
        """The comparison that is under way."""
        return next((number for number, one in self._entries.items() if isinstance(one.work, Verify)), None)

    @property
    def checks(self) -> bool:
        """Is a check of the strategy under way?"""
        return any(
            one.work.kind is WorkKind.CHECK and not isinstance(one.work, Verify) for one in self._entries.values()
        )

    def start(self, work: Iterable[Work]) -> list[StartWork]:
        """Enter work, and return what starts it."""
        started = []
        for one in work:
            self._entries[one.work_id] = _Entry(one)
            self.next_id = max(self.next_id, one.work_id + 1)
            started.append(StartWork(one))
        return started

    def end(self, work_id: int) -> None:
        """Its answer came."""
        self._entries.pop(work_id, None)

    def cancel(self, which: Callable[[Work], bool]) -> list[CancelWork]:
        """Return what asks some work for its end, once."""
        fresh = [number for number, one in self._entries.items() if not one.cancelled and which(one.work)]
        for number in fresh:
            self._entries[number].cancelled = True
        return [CancelWork(number) for number in fresh]

    def abandon(self) -> list[CancelWork]:
        """Return what asks all work for its end, again."""
        return [CancelWork(number) for number in self._entries]


def held_by(*, stopping: bool, changes_held: bool) -> Callable[[Work], bool]:
    """Return which work a stop, a pause of everything or a pause of history ends.

    Changes go on in a pause of history (R-SNAP-43), and a receipt in every pause.
    """
    if stopping:
        return lambda _: True
    if changes_held:
        return lambda work: not isinstance(work, Verify)
    return lambda work: work.kind is WorkKind.HISTORY
