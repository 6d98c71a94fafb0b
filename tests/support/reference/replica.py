"""A replica, row by row: files of one version, then a log of what came, went and got hidden. The model others are held to.

Nothing of our implementation is used here. The target is a bag of rows, each with the file of the source that it came from and its
position there; `poll` does one thing, and durable is what `barrier` makes so. A version is taken whole or not at all, one a barrier:
who takes several at once must arrive at the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from support.reference.vocabulary import Fatal

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Add:
    """A file comes: the rows at its positions; None of one that is hidden."""

    file: str
    rows: tuple[Row | None, ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """A file goes."""

    file: str


@dataclass(frozen=True, slots=True)
class Hide:
    """Of a file that stays exactly these positions are hidden from now on; one that was may be seen again."""

    file: str
    positions: frozenset[int]


LogEntry = Add | Remove | Hide
Place = tuple[str, int]
"""File of the source and position in it."""


class ReferenceReplica:
    """Phases: `copying`, `shipping`."""

    def __init__(
        self,
        snapshot: Sequence[Add],
        log: Sequence[Sequence[LogEntry]],
        *,
        contents: Mapping[str, Sequence[Row]],
        passes: Callable[[Row], bool] = lambda _: True,
    ) -> None:
        """Begin with nothing; `contents` are all rows of each file that there ever is, hidden ones too."""
        self.rows: dict[Place, Row] = {}
        """Durable, as far as the filter lets them pass."""

        self.shipped = 0
        """Versions of the log that are durable."""

        self.files: set[str] = set()
        """Those of the source that are durable in the target, with rows or without."""

        self._snapshot, self._log, self._contents, self._passes = list(snapshot), log, contents, passes
        self._staged: list[LogEntry] = []
        self._takes_version = False

    @property
    def phase(self) -> str:
        """Say where it is."""
        return "copying" if {one.file for one in self._snapshot} - self.files and not self.shipped else "shipping"

    @property
    def bag(self) -> Counter[Row]:
        """Return the durable rows."""
        return Counter(self.rows.values())

    def poll(self) -> bool:
        """Stage a file that is missing, or the next version; say whether there was anything to do."""
        if self._takes_version:
            return False
        if self.phase == "copying":
            known = self.files | {one.file for one in self._staged}
            missing = next((one for one in self._snapshot if one.file not in known), None)
            self._staged += [] if missing is None else [missing]
            return missing is not None
        if self.shipped == len(self._log):
            return False
        self._staged, self._takes_version = list(self._log[self.shipped]), True
        return True

    def crash(self) -> None:
        """Forget what is not durable."""
        self._staged, self._takes_version = [], False

    def barrier(self) -> None:
        """Make durable what is staged, all of it."""
        for entry in self._staged:
            self._apply(entry)
        self.shipped += self._takes_version
        self.crash()

    def ship_to(self, version: int) -> None:
        """Go on until so many versions are durable."""
        while self.shipped < version and self.poll():
            self.barrier()

    def _apply(self, entry: LogEntry) -> None:
        match entry:
            case Add(file=file, rows=rows):
                if file in self.files:
                    raise Fatal(f"{file} comes twice")
                self.files.add(file)
                self._put(file, {position: row for position, row in enumerate(rows) if row is not None})
            case Remove(file=file):
                self._take_out(file)
                self.files.remove(file)
            case Hide(file=file, positions=positions):
                self._take_out(file)
                seen = enumerate(self._contents[file])
                self._put(file, {position: row for position, row in seen if position not in positions})

    def _take_out(self, file: str) -> None:
        if file not in self.files:
            raise Fatal(f"{file} is not there")
        self.rows = {place: row for place, row in self.rows.items() if place[0] != file}

    def _put(self, file: str, rows: Mapping[int, Row]) -> None:
        self.rows |= {(file, position): row for position, row in rows.items() if self._passes(row)}
