"""The target of the simulated world, which rejects old transactions, and the ways to write to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.simulation.law import demand

from backfill_core.errors import FencedError, ForeignCommit, TargetChangedError
from backfill_core.protocol.actions import Durable
from backfill_core.protocol.publication import ManifestPart, ManifestWrite
from backfill_core.protocol.work import StagedFile

UPSERT, APPEND, CHANGELOG = "Upsert", "Append", "Changelog"

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of the target; a MERGE has no state."""

    version: int
    kind: str
    txn: int
    rows: Counter[Row]
    state: str | None
    files: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """Rows by path, from seals; a MERGE replaces all of them."""


class Target:
    """A table whose commits are atomic and whose transaction versions only grow."""

    def __init__(self) -> None:
        """Begin with an empty table, as `prepare` leaves it."""
        self.commits: list[Commit] = [Commit(0, "create", -1, Counter(), None)]
        self.txn: int | None = None
        """Newest transaction version of the job."""
        self.manifests: dict[int, tuple[StagedFile, ...]] = {}
        """Files of each part of a manifest, by its number; a reader sees none of them."""

    @property
    def newest(self) -> Commit:
        """Return the newest version."""
        return self.commits[-1]

    def _add(
        self,
        kind: str,
        txn: int,
        rows: Counter[Row],
        state: str | None,
        files: Mapping[str, Sequence[Row]] | None = None,
    ) -> Commit:
        self.commits.append(Commit(len(self.commits), kind, txn, rows, state, files or {}))
        if txn >= 0:
            self.txn = txn if self.txn is None else max(self.txn, txn)
        return self.newest

    def seal(self, txn: int, added: Mapping[str, Sequence[Row]], state: str, removed: Collection[str] = ()) -> Commit:
        """Commit added files, removed files and state together.

        Raises:
            FencedError: this or a newer transaction version is already in the table.
        """
        if self.txn is not None and txn <= self.txn:
            raise FencedError(f"transaction {txn} is not above {self.txn}")
        rows, files = Counter(self.newest.rows), dict(self.newest.files)
        demand(files.keys() >= set(removed), "a commit takes files out that the target has not")
        for path in removed:
            rows -= Counter(files.pop(path))
        for path, held in added.items():
            rows.update(held)
            files[path] = held
        return self._add("seal", txn, rows, state, files)

    def write_manifest(self, write: ManifestWrite, files: Sequence[StagedFile]) -> None:
        """Write a part with the files of a commit and those of the parts that it replaces."""
        joined = [file for part in write.joins for file in self.staged((part,))]
        self.manifests[write.part.txn] = (*joined, *files)

    def staged(self, parts: Sequence[ManifestPart]) -> list[StagedFile]:
        """Return the files that parts name; they must be those of which a state holds the digest."""
        demand(all(part.matches(self.manifests[part.txn]) for part in parts), "a manifest lists other files")
        return [file for part in parts for file in self.manifests[part.txn]]

    def replace_state(self, before: Durable, state: str) -> Commit:
        """Commit only a state, in the place of another.

        Raises:
            FencedError: the other state is no longer the newest one.
            TargetChangedError: a MERGE of the job came after it.
        """
        if self.newest.state != before.state:
            raise FencedError("the state is another one")
        if self.txn != before.txn_version:
            raise TargetChangedError(f"transaction {self.txn} came after it")
        return self._add("state", -1, self.newest.rows, state, self.newest.files)

    def merge(self, txn: int, net: Mapping[Any, Any]) -> Commit | None:
        """Upsert and delete by key; a committed transaction is skipped, as in Delta."""
        if self.txn is not None and txn <= self.txn:
            return None
        kept = Counter({row: count for row, count in self.newest.rows.items() if row[0] not in net})
        kept.update((key, value) for key, value in net.items() if value is not None)
        return self._add("merge", txn, kept, self.newest.state)

    def drop_rows(self, txn: int) -> bool:
        """Remove every row under a transaction, once; the state stays until the next seal.

        A table without rows gets no commit, as with Delta. Return whether the transaction was a new one.
        """
        new = self.txn is None or txn > self.txn
        if new and self.newest.rows:
            self._add("drop", txn, Counter(), self.newest.state)
        return new

    def rewrite(self) -> None:
        """Let another writer change a row and change it back: the rows are the same, but no receipt can know that."""
        self._add("foreign", -1, self.newest.rows, self.newest.state, self.newest.files)

    def others_after(self, version: int) -> tuple[ForeignCommit, ...]:
        """Return the foreign commits after a version."""
        later = self.commits[version + 1 :]
        return tuple(ForeignCommit(commit.version, "UPDATE", "another") for commit in later if commit.kind == "foreign")

    def spoil(self, row: Row) -> None:
        """Let another writer insert a row."""
        self._add("foreign", -1, self.newest.rows + Counter([row]), self.newest.state, self.newest.files)
