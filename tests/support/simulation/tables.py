"""The tables of the simulated world: an upstream with a history, and a target that refuses old transactions.

Rows are `(key, value)`; a `Changelog` target holds `(op, version, key, value)`. A file of the upstream has a
number of physical rows `of`, of which only some are alive (deletion vectors), and a part of it is cut by hash
residue, as Spark does it: so slices have their rows only in the mean, and a few rows can stand for a large file.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from zlib import crc32

from backfill_core.errors import FencedError, ForeignCommit
from backfill_core.pacing.sizing import pieces
from backfill_core.protocol.messages import Piece

UPSERT, APPEND, CHANGELOG = "Upsert", "Append", "Changelog"
INSERT, UPDATE, DELETE = "insert", "update", "delete"

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One row of the change feed: the image after it, `value` None for a removed key."""

    version: int
    op: str
    key: int
    value: int | None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of one version: its live rows, and how many it has with the deleted ones."""

    rows: tuple[Row, ...]
    of: int


def residue(row: Row, of: int) -> int:
    """Return where in its file a row is cut; deterministic over processes, like xxhash64."""
    return crc32(repr(row).encode()) % of


class Upstream:
    """A table with a history; `commit` adds a version, nothing changes one."""

    def __init__(self, seed: int, *, rows: int, append_only: bool, sparse: bool, filtered: bool) -> None:
        """Make version 0 with so many rows; `sparse` gives each file 20,000 to 200,000 physical rows."""
        self._rng = Random(seed)
        self._seed = seed
        self._append_only, self._sparse, self._filtered = append_only, sparse, filtered
        self._stamp = itertools.count(1)
        self._keys = itertools.count(rows)
        self._versions: list[dict[int, int]] = [{key: next(self._stamp) for key in range(rows)}]
        self.changes: list[tuple[Change, ...]] = [()]

    @property
    def version(self) -> int:
        """Return the newest version."""
        return len(self._versions) - 1

    def commit(self) -> None:
        """Commit something: inserts, updates, deletes, a changed key, or an OPTIMIZE that changes no row."""
        rng, state = self._rng, dict(self._versions[-1])
        made: list[Change] = []
        deeds = [INSERT] if self._append_only else [INSERT, UPDATE, UPDATE, DELETE, "key"]
        for deed in rng.choices(deeds, k=rng.choice([0, 1, 1, 2, 5])):
            made += self._change(deed, state)
        self._versions.append(state)
        self.changes.append(tuple(made))

    def _change(self, deed: str, state: dict[int, int]) -> list[Change]:
        version, stamp = len(self._versions), next(self._stamp)
        if deed == INSERT or not state:
            key = next(self._keys)
            state[key] = stamp
            return [Change(version, INSERT, key, stamp)]
        key = self._rng.choice(sorted(state))
        if deed == UPDATE:
            state[key] = stamp
            return [Change(version, UPDATE, key, stamp)]
        removed = state.pop(key)
        gone = Change(version, DELETE, key, removed)
        if deed == DELETE:
            return [gone]
        other = next(self._keys)
        state[other] = removed
        return [gone, Change(version, INSERT, other, removed)]

    # ------------------------------------------------------------------ reading
    def layout(self, version: int) -> tuple[SourceFile, ...]:
        """Return the files of a version, in path order; the same at every look."""
        rng, rows = Random(self._seed * 1_000_003 + version), sorted(self._versions[version].items())
        files: list[SourceFile] = []
        while rows:
            count = rng.choice([0, 1, 2, 3, 5, 8, 13])
            taken, rows = tuple(rows[:count]), rows[count:]
            dead = rng.randrange(20_000, 200_000) if self._sparse else rng.choice([0, 0, 1, 4])
            files.append(SourceFile(taken, len(taken) + dead))
        return tuple(files)

    def passes(self, value: int | None) -> bool:
        """Does a row pass the transform's filter?"""
        return value is not None and (not self._filtered or value % 3 != 0)

    def read(self, version: int, parts: Iterable[Piece]) -> list[Row]:
        """Return the transformed rows of some pieces of a version."""
        files = self.layout(version)
        return [
            row
            for piece in parts
            for row in files[piece.file].rows
            if piece.start <= residue(row, files[piece.file].of) < piece.stop and self.passes(row[1])
        ]

    def covered(self, version: int, spans: Iterable[tuple[int, int]]) -> list[Row]:
        """Return the transformed rows of some intervals of a version's line."""
        prefix = [0, *itertools.accumulate(file.of for file in self.layout(version))]
        return self.read(version, (piece for span in spans for piece in pieces(prefix, *span)))

    def view(self, version: int) -> Counter[Row]:
        """Return the transformed rows of a version."""
        return Counter(row for row in self._versions[version].items() if self.passes(row[1]))

    def between(self, after: int, upto: int) -> list[Change]:
        """Return the changes of the versions `(after, upto]`, in order."""
        return [change for version in range(after + 1, upto + 1) for change in self.changes[version]]

    def net(self, after: int, upto: int) -> dict[int, int | None]:
        """Return the last image of each key that changed in `(after, upto]`; None removes it."""
        last: dict[int, int | None] = {}
        for change in self.between(after, upto):
            image = None if change.op == DELETE else change.value
            last[change.key] = image if self.passes(image) else None
        return last

    def logged(self, after: int, upto: int) -> list[Row]:
        """Return the rows a `Changelog` target gets for the versions `(after, upto]`."""
        return [(change.op, change.version, change.key, change.value) for change in self.between(after, upto)]


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of the target; a MERGE has no state of its own."""

    version: int
    kind: str
    txn: int
    rows: Counter[Row]
    state: str | None


class Target:
    """A table whose commits are atomic and whose transaction versions only grow."""

    def __init__(self) -> None:
        """Begin with an empty table, as `prepare` leaves it."""
        self.commits: list[Commit] = [Commit(0, "create", -1, Counter(), None)]

    @property
    def newest(self) -> Commit:
        """Return the newest version."""
        return self.commits[-1]

    @property
    def txn(self) -> int | None:
        """Return the newest transaction version of the job."""
        return max((one.txn for one in self.commits if one.txn >= 0), default=None)

    def _add(self, kind: str, txn: int, rows: Counter[Row], state: str | None) -> Commit:
        self.commits.append(Commit(len(self.commits), kind, txn, rows, state))
        return self.newest

    def seal(self, txn: int, rows: Sequence[Row], state: str) -> Commit:
        """Commit rows and state together.

        Raises:
            FencedError: this or a newer transaction version is in the table already.
        """
        if self.txn is not None and txn <= self.txn:
            raise FencedError(f"transaction {txn} is not above {self.txn}")
        return self._add("seal", txn, self.newest.rows + Counter(rows), state)

    def merge(self, txn: int, net: dict[int, int | None]) -> Commit | None:
        """Upsert and delete by key; a transaction that is known is skipped, as Delta does it."""
        if self.txn is not None and txn <= self.txn:
            return None
        kept = Counter({row: count for row, count in self.newest.rows.items() if row[0] not in net})
        kept.update((key, value) for key, value in net.items() if value is not None)
        return self._add("merge", txn, kept, self.newest.state)

    def rewrite(self) -> None:
        """Let somebody else change a row and change it back: the rows are the same, and a receipt does not know."""
        self._add("foreign", -1, self.newest.rows, self.newest.state)

    def others_after(self, version: int) -> tuple[ForeignCommit, ...]:
        """Return what others committed after a version."""
        later = self.commits[version + 1 :]
        return tuple(ForeignCommit(one.version, "UPDATE", "somebody") for one in later if one.kind == "foreign")

    def spoil(self, row: Row) -> None:
        """Let somebody else insert a row."""
        self._add("foreign", -1, self.newest.rows + Counter([row]), self.newest.state)
