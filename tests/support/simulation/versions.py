"""A source with versions: a table with files, a history and a change feed; and common parts of the models that read one.

Rows are `(key, value)`. A file has a number of physical rows `of`, of which only some are alive (deletion vectors). A part of
it is cut by hash residue, as Spark does it. So the rows of slices are right only on average, and a few rows can stand for a
large file.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Protocol
from zlib import crc32

from support.simulation.law import demand
from support.simulation.model import Progress, Promise
from support.simulation.scenario import Scenario
from support.simulation.tables import APPEND, CHANGELOG, UPSERT, Row

from backfill_core.errors import BackfillError
from backfill_core.positions.file_ranges import FileRange, file_ranges
from backfill_core.protocol.events import Event, Head, SourcePolled
from backfill_core.protocol.work import ApplyChanges, Work

INSERT, UPDATE, DELETE = "insert", "update", "delete"
GROWTH = 25
"""Rows that each commit adds to a table that grows at its end."""


@dataclass(frozen=True, slots=True)
class Change:
    """One row of the change feed."""

    version: int
    op: str
    key: int
    value: int | None
    """New value; for a removed key, its last value."""

    before: int | None = None
    """Previous value of an updated key."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of one version: its live rows, and its number of rows with the deleted ones."""

    rows: tuple[Row, ...]
    of: int


def residue(row: Row, of: int) -> int:
    """Return the position at which a row is cut in its file; the same in all processes, like xxhash64."""
    return crc32(repr(row).encode()) % of


class VersionedTable:
    """A table of the simulated world; `commit` adds a version, versions are immutable."""

    def __init__(
        self, seed: int, *, rows: int, append_only: bool, sparse: bool, filtered: bool, grows: bool = False
    ) -> None:
        """Make version 0 with `rows` rows; `sparse` gives each file 20,000 to 200,000 physical rows; `grows`: see `Scenario`."""
        self._rng = Random(seed)
        self._seed = seed
        self._append_only, self.sparse, self._filtered, self._grows = append_only, sparse, filtered, grows
        self._stamp = itertools.count(1)
        self._keys = itertools.count(rows)
        self._versions: list[dict[int, int]] = [{key: next(self._stamp) for key in range(rows)}]
        self.changes: list[tuple[Change, ...]] = [()]
        self._layouts: dict[int, tuple[SourceFile, ...]] = {}
        self._rows: dict[int, list[Row]] = {}

    @property
    def version(self) -> int:
        """Return the newest version."""
        return len(self._versions) - 1

    def commit(self) -> str:
        """Commit inserts, updates, deletes, a changed key, or an OPTIMIZE that changes no row; return a description."""
        rng, state = self._rng, dict(self._versions[-1])
        made: list[Change] = []
        kinds = [INSERT] if self._append_only else [INSERT, UPDATE, UPDATE, DELETE, "key"]
        for kind in rng.choices(kinds, k=rng.choice([0, 1, 1, 2, 5])):
            made += self._change(kind, state)
        for _ in range(GROWTH if self._grows else 0):
            made += self._change(INSERT, state)
        self._versions.append(state)
        self.changes.append(tuple(made))
        return f"version {self.version}: {', '.join(f'{change.op} ({change.key}, {change.value})' for change in made) or 'no row changes'}"

    def _change(self, kind: str, state: dict[int, int]) -> list[Change]:
        version, stamp = len(self._versions), next(self._stamp)
        if kind == INSERT or not state:
            key = next(self._keys)
            state[key] = stamp
            return [Change(version, INSERT, key, stamp)]
        key = self._rng.choice(sorted(state))
        if kind == UPDATE:
            before, state[key] = state[key], stamp
            return [Change(version, UPDATE, key, stamp, before)]
        removed = state.pop(key)
        gone = Change(version, DELETE, key, removed)
        if kind == DELETE:
            return [gone]
        other = next(self._keys)
        state[other] = removed
        return [gone, Change(version, INSERT, other, removed)]

    # ------------------------------------------------------------------ reading
    def layout(self, version: int) -> tuple[SourceFile, ...]:
        """Return the files of a version, in path order; always the same."""
        if version not in self._layouts:
            self._layouts[version] = self._lay_out(version)
        return self._layouts[version]

    def _lay_out(self, version: int) -> tuple[SourceFile, ...]:
        rng, rows = Random(self._seed * 1_000_003 + version), sorted(self._versions[version].items())
        files: list[SourceFile] = []
        while rows:
            count = rng.choice([0, 1, 2, 3, 5, 8, 13])
            taken, rows = tuple(rows[:count]), rows[count:]
            dead = rng.randrange(20_000, 200_000) if self.sparse else rng.choice([0, 0, 1, 4])
            files.append(SourceFile(taken, len(taken) + dead))
        return tuple(files)

    def passes(self, value: int | None) -> bool:
        """Return whether a row passes the transform's filter."""
        return value is not None and (not self._filtered or value % 3 != 0)

    def read(self, version: int, parts: Iterable[FileRange]) -> list[Row]:
        """Return the transformed rows of some ranges of a version."""
        files = self.layout(version)
        return [
            row
            for file_range in parts
            for row in files[file_range.file].rows
            if file_range.start <= residue(row, files[file_range.file].of) < file_range.stop and self.passes(row[1])
        ]

    def covered(self, version: int, spans: Iterable[tuple[int, int]]) -> list[Row]:
        """Return the transformed rows of some intervals of a version's line."""
        prefix = [0, *itertools.accumulate(file.of for file in self.layout(version))]
        return self.read(version, (file_range for span in spans for file_range in file_ranges(prefix, *span)))

    def rows(self, version: int) -> list[Row]:
        """Return the rows of a version in the source; the caller must not change the list."""
        if version not in self._rows:
            self._rows[version] = sorted(self._versions[version].items())
        return self._rows[version]

    def view(self, version: int) -> Counter[Row]:
        """Return the transformed rows of a version."""
        return Counter(row for row in self._versions[version].items() if self.passes(row[1]))

    def between(self, after: int, upto: int) -> list[Change]:
        """Return the changes of the versions `(after, upto]`, in order."""
        return [change for version in range(after + 1, upto + 1) for change in self.changes[version]]

    def net(self, after: int, upto: int) -> dict[int, int | None]:
        """Return the last image of each key that changed in `(after, upto]`; `None` removes it."""
        last: dict[int, int | None] = {}
        for change in self.between(after, upto):
            image = None if change.op == DELETE else change.value
            last[change.key] = image if self.passes(image) else None
        return last

    def logged(self, after: int, upto: int) -> list[Row]:
        """Return the rows a `Changelog` target gets for the versions `(after, upto]`."""
        return [(change.op, change.version, change.key, change.value) for change in self.between(after, upto)]


# ------------------------------------------------------------------ common parts of its models
class Announcing(Protocol):
    """A stored form that names the next MERGE."""

    @property
    def consumed(self) -> int:
        """Return the version whose rows the target holds."""

    @property
    def merging(self) -> Mapping[str, Any] | None:
        """Return the announced MERGE."""


class TableModel:
    """A model whose source is a table with versions; its subclass defines the promises of a stored state."""

    MODES: ClassVar[tuple[str, ...]] = (UPSERT, UPSERT, APPEND, CHANGELOG)
    KNOBS: ClassVar[frozenset[str]] = frozenset({"rescaled", "stacked"})
    FIXED_WIDTH_MODES: ClassVar[frozenset[str]] = frozenset()
    chunk_rows: int | None = None

    def __init__(self, given: Scenario, *, sparse: bool) -> None:
        """Make the source; `sparse`: see `VersionedTable`."""
        self.mode, self.filtered, self.proves_key = given.mode, given.filters, given.proves_key
        self.table = VersionedTable(
            given.seed,
            rows=given.rows,
            append_only=given.mode == APPEND,
            sparse=sparse,
            filtered=self.filtered,
            grows=given.grows_at_end,
        )

    # -------------------------------------------------------------- the source
    def change_source(self) -> str:
        """See `Model`."""
        return self.table.commit()

    def poll(self, wall_ms: int) -> Event:
        """See `Model`."""
        return SourcePolled(Head(self.table.version, wall_ms))

    def lost(self, error: BackfillError) -> bool:
        """Return false: a table loses nothing here."""
        return False

    def quarantined(self, progress: Progress) -> Promise:
        """Return nothing: a table has no bad records."""
        return Promise(Counter())

    def mixed(self) -> Progress:
        """Raise an error: there is only one position."""
        raise NotImplementedError

    # -------------------------------------------------------------- work
    def txn_of(self, work: Work) -> int | None:
        """See `Model`."""
        return work.txn_version if isinstance(work, ApplyChanges) and self.mode == UPSERT else None

    @staticmethod
    def announced(stored: Announcing, work: Work, txn: int) -> int:
        """Check a MERGE against the state that announced it; return the version to which it brings the target."""
        assert isinstance(work, ApplyChanges)
        demand(stored.merging is not None, "a MERGE was not announced")
        assert stored.merging is not None
        demand(stored.merging["txn"] == work.txn_version == txn, "a MERGE ran under another number")
        demand((stored.consumed, stored.merging["upto"]) == (work.after, work.upto), "not the announced MERGE")
        return work.upto
