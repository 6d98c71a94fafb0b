"""A replica, row by row: files of one version, then a log of added, removed and hidden rows. The reference model for other implementations.

It uses nothing of the implementation under test. The target is a bag of rows, each with its source file and its position there;
`poll` does one step, and `barrier` makes it durable. A barrier takes exactly one whole version or none: an implementation that
takes several at once must reach the same rows.
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
    """Add a file: the rows at its positions; `None` for a hidden row."""

    file: str
    rows: tuple[Row | None, ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a file."""

    file: str


@dataclass(frozen=True, slots=True)
class Hide:
    """Hide exactly these positions of an existing file from now on; positions hidden before may become visible."""

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
        """Begin with nothing; `contents` are all rows that each file ever has, hidden ones too."""
        self.rows: dict[Place, Row] = {}
        """Durable rows that pass the filter."""

        self.shipped = 0
        """Number of durable versions of the log."""

        self.files: set[str] = set()
        """Source files that are durable in the target, with rows or without."""

        self._snapshot, self._log, self._contents, self._passes = list(snapshot), log, contents, passes
        self._staged: list[LogEntry] = []
        self._takes_version = False

    @property
    def phase(self) -> str:
        """Return the phase."""
        return "copying" if {add.file for add in self._snapshot} - self.files and not self.shipped else "shipping"

    @property
    def bag(self) -> Counter[Row]:
        """Return the durable rows."""
        return Counter(self.rows.values())

    def poll(self) -> bool:
        """Stage a missing file, or the next version; return whether there was work."""
        if self._takes_version:
            return False
        if self.phase == "copying":
            existing = self.files | {entry.file for entry in self._staged}
            missing = next((add for add in self._snapshot if add.file not in existing), None)
            self._staged += [] if missing is None else [missing]
            return missing is not None
        if self.shipped == len(self._log):
            return False
        self._staged, self._takes_version = list(self._log[self.shipped]), True
        return True

    def crash(self) -> None:
        """Drop all work that is not durable."""
        self._staged, self._takes_version = [], False

    def barrier(self) -> None:
        """Make all staged work durable."""
        for entry in self._staged:
            self._apply(entry)
        self.shipped += self._takes_version
        self.crash()

    def ship_to(self, version: int) -> None:
        """Continue until `version` versions are durable."""
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
            raise Fatal(f"{file} does not exist")
        self.rows = {place: row for place, row in self.rows.items() if place[0] != file}

    def _put(self, file: str, rows: Mapping[int, Row]) -> None:
        self.rows |= {(file, position): row for position, row in rows.items() if self._passes(row)}
