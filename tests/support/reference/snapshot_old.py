"""The older snapshot backfill (SNAP-old): its rules R-SNAP-3, 5, 24, 30 differ from the newer one's.

Its limit counts: the lag is the number of pending checkpoint groups, and a group is taken whole. The limit is lowered once all
barriers of a group are consumed, so the upstream may send one more meanwhile. It cannot be resumed, so progress of a former run
is an error. The snapshot has exactly the epoch at which the upstream's first barrier begins.
"""

from __future__ import annotations

from typing import Any

from support.reference.snapshot import ReferenceSnapshot
from support.reference.vocabulary import Barrier, Fatal, Report, Table


class ReferenceSnapshotOld(ReferenceSnapshot):
    """One actor; phases as in the newer machine. `lag` and `limit` are numbers of checkpoint groups."""

    def __init__(self, table: Table, snapshot_epoch: int | None, **more: Any) -> None:
        """Begin without a former run; see `ReferenceSnapshot` for further parameters."""
        super().__init__(table, snapshot_epoch, **more)
        self._first: Barrier | None = None
        self._group: list[Barrier] = []

    # -------------------------------------------------------------- startup
    def _check_epoch(self, epoch: int, first: Barrier) -> None:
        if epoch != first.prev:
            raise Fatal("the snapshot is not of the upstream's first epoch (R-SNAP-3)")

    def _hold_first(self, first: Barrier) -> None:
        """Keep the first barrier apart from the pending ones; the injected one that equals it consumes it."""
        if self.stored:
            raise Fatal("there is progress of a former run (R-SNAP-5)")
        self._first = first

    def _passing_barrier(self, barrier: Barrier) -> None:
        if barrier.prev == self._epoch and self._first is not None and barrier.pair != self._first.pair:
            raise Fatal("the barrier after the snapshot's epoch is not the upstream's first")
        super()._passing_barrier(barrier)

    # -------------------------------------------------------------- catching up, by count
    @property
    def lag(self) -> int:
        """Return the number of waiting checkpoint groups."""
        return self._groups

    @property
    def _is_due(self) -> bool:
        return bool(self._group) or self._groups > 0

    def _drain_allowed(self) -> bool:
        if self.phase in ("snapshot", "passing") or not self._slowable:
            return True
        return self.lag < self.limit or (self.polling and not self._is_due)

    def _begin_log(self, consumed: int) -> None:
        self.limit, self.consumed = float(self.lag), consumed
        self._enter_log()

    def _step(self, barrier: Barrier) -> None:
        """Take the next barrier of the group, a new group when it is empty; drain while its log is read (R-SNAP-10)."""
        if not self._group:
            end = next(at for at, barrier_ in enumerate(self.pending) if barrier_.checkpoint) + 1
            self._group, self.pending = self.pending[:end], self.pending[end:]
        if self._group.pop(0).pair != barrier.pair:
            raise Fatal("the pending barrier does not match the injected one")
        self.consumed = barrier.prev
        while self.upstream and self._drain_allowed():
            self._drain()

    def _report_log(self, barrier: Barrier, *, finished: bool) -> None:
        """Report the number of waiting groups; the end is reported with the first live barrier (R-SNAP-24, R-SNAP-30)."""
        if not self._group:
            self.limit = max(0.0, min(self.lag, self.limit - 1))
        self.reports.append(Report("update log", barrier.curr, self.lag))
        self._owes_finish = finished
