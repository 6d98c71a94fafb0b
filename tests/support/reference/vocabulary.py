"""Vocabulary of the reference machines: barriers, chunks, reports; and the stored and read data of snapshot backfill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Row = tuple[int, int]
"""(key, value)."""


class Fatal(Exception):
    """A rule of the protocol is broken; the executor fails and is recovered."""


# ------------------------------------------------------------------ messages
@dataclass(frozen=True, slots=True)
class Splits:
    """The partitions that an actor of source backfill owns after a barrier.

    `rescaled`: lost partitions move to another actor (`Update`); else they are gone from the topic (`SourceChangeSplit`).
    """

    owned: frozenset[int]
    rescaled: bool = False


@dataclass(frozen=True, slots=True)
class Mutation:
    """Content of a barrier for this executor."""

    pause: bool | None = None
    throttle: tuple[int | None] | None = None
    """New rate limit in a 1-tuple; `None` is unlimited, 0 reads nothing."""

    vnodes: frozenset[int] | None = None
    splits: Splits | None = None


@dataclass(frozen=True, slots=True)
class Barrier:
    """Closes epoch `prev`, opens `curr`."""

    prev: int
    curr: int
    checkpoint: bool = True
    mutation: Mutation = Mutation()

    @property
    def pair(self) -> tuple[int, int]:
        """Return both epochs, which must match between two inputs."""
        return self.prev, self.curr


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows with an operation each: `+`, `-`, `U-`, `U+`."""

    rows: tuple[tuple[str, Row], ...]


@dataclass(frozen=True, slots=True)
class Watermark:
    """No later row has a smaller value."""

    value: int


Message = Barrier | Chunk | Watermark


@dataclass(frozen=True, slots=True)
class Progress:
    """The stored row of a vnode; `position` is the first row not yet emitted, `None` if finished."""

    epoch: int
    rows: int
    finished: bool
    position: int | None


@dataclass(frozen=True, slots=True)
class Report:
    """Report to the control plane: kind, the barrier's `curr`, rows or lag."""

    kind: str
    epoch: int
    amount: int


# ------------------------------------------------------------------ the upstream table
@dataclass
class Table:
    """Snapshot reads at an epoch and the change log of each epoch; `committed` gates log reads."""

    vnodes: int
    snapshots: dict[int, dict[int, int]] = field(default_factory=dict)
    log: dict[int, list[tuple[str, Row, Row | None]]] = field(default_factory=dict)
    """Changes by epoch: (`insert`|`delete`|`update`, row, new row)."""

    committed: Callable[[int], bool] = lambda epoch: True
    collected: Callable[[int], bool] = lambda epoch: False

    def rows(self, epoch: int, vnode: int) -> list[Row]:
        """Return a vnode's rows at an epoch, in key order."""
        if self.collected(epoch):
            raise Fatal(f"epoch {epoch} was garbage collected")
        return sorted(row for row in self.snapshots[epoch].items() if row[0] % self.vnodes == vnode)

    def changes(self, epoch: int, vnode: int) -> list[tuple[str, Row, Row | None]]:
        """Return a vnode's change log of an epoch, in key order."""
        if self.collected(epoch):
            raise Fatal(f"epoch {epoch} was garbage collected")
        owned = (change for change in self.log.get(epoch, ()) if change[1][0] % self.vnodes == vnode)
        return sorted(owned, key=lambda change: change[1][0])


class Builder:
    """Packs rows into chunks; an update pair is never split over two (R-SNAP-20)."""

    def __init__(self, size: int, emit: Callable[[Chunk], None]) -> None:
        self._size, self._emit, self._rows = size, emit, list[tuple[str, Row]]()

    def add(self, *rows: tuple[str, Row]) -> None:
        if len(self._rows) + len(rows) > max(self._size, 2):
            self.flush()
        self._rows += rows
        if len(self._rows) >= self._size:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self._emit(Chunk(tuple(self._rows)))
            self._rows = []
