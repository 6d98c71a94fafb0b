"""A list in a file, which is written in commits: each replaces the file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backfill_core.errors import (
    BackfillError,
    FencedError,
    ForeignCommit,
    InvalidSpecError,
    StateMovedError,
    TargetNotEmptyError,
)
from backfill_core.job.owner import Claim
from backfill_core.protocol.actions import Durable
from backfill_core.protocol.work import RemovedFile, StagedFile
from backfill_spark.ports.committer import SealedCommit, StoredState
from backfill_spark.ports.sink import SinkPlugin

from .contract import ListTarget

EMPTY: dict[str, Any] = {"states": {}, "txns": {}, "commits": [], "columns": ""}


def read(path: str) -> dict[str, Any]:
    """Return the content of the file: the commits with their rows, the states and the transactions."""
    file = Path(path)
    return json.loads(file.read_text()) if file.exists() else EMPTY


def _write(path: str, held: dict[str, Any]) -> None:
    new = Path(f"{path}.new")
    new.write_text(json.dumps(held))
    os.replace(new, path)


class ListCommitter:
    """Satisfies `Committer`; a commit adds all of its rows or none."""

    def __init__(self, path: str, app_id: str, domain: str) -> None:
        """Take the path of the file."""
        self.app_id = app_id
        self._path, self._domain = path, domain

    def read_state(self) -> StoredState:
        """See `Committer`."""
        held = read(self._path)
        return StoredState(held["states"].get(self._domain), len(held["commits"]) - 1, held["txns"].get(self.app_id))

    def domains(self) -> tuple[str, ...]:
        """See `Committer`."""
        return tuple(read(self._path)["states"])

    def check(self) -> None:
        """Accept every list: rows can be added to any."""

    def measure(self, paths: Sequence[str]) -> tuple[StagedFile, ...]:
        """See `Committer`."""
        staged = (
            StagedFile(path, Path(path).stat().st_size, len(json.loads(Path(path).read_text()))) for path in paths
        )
        return tuple(file for file in staged if file.rows)

    def fence(self, txn_version: int, state: str, *, opened: StoredState, claim: Claim | None = None) -> SealedCommit:
        """See `Committer`."""
        if self.read_state().txn_version != opened.txn_version:
            raise StateMovedError("another attempt committed.", hint="Start again.")
        return self.seal(txn_version, (), state)

    def seal(
        self,
        txn_version: int,
        files: Sequence[StagedFile],
        state: str,
        *,
        compared: int | None = None,
        removed: Sequence[RemovedFile] = (),
    ) -> SealedCommit:
        """See `Committer`."""
        held = read(self._path)
        if held["txns"].get(self.app_id, -1) >= txn_version:
            raise FencedError("a newer attempt has committed.")
        rows = [row for file in files for row in json.loads(Path(file.path).read_text())]
        states, txns = {**held["states"], self._domain: state}, {**held["txns"], self.app_id: txn_version}
        commits = [*held["commits"], rows]
        _write(self._path, {**held, "states": states, "txns": txns, "commits": commits})
        return SealedCommit(len(commits) - 1)

    def replace_state(self, before: Durable, state: str) -> SealedCommit:
        """Raise an error: a list is only added to, so no MERGE runs concurrently with a commit."""
        raise InvalidSpecError(f"{self._path} is only added to.", hint="Use a target that merges.")

    def release(self, txn_version: int, stored: StoredState) -> SealedCommit:
        """See `Committer`."""
        held = read(self._path)
        states = {name: state for name, state in held["states"].items() if name != self._domain}
        _write(self._path, {**held, "states": states, "commits": [*held["commits"], []]})
        return SealedCommit(len(held["commits"]))

    def commits_of_others(self, after: int, upto: int, *, shared: bool = False) -> tuple[ForeignCommit, ...]:
        """Return an empty tuple, because no other program writes to the list."""
        return ()

    def run_hooks(self) -> None:
        """Do nothing: a commit leaves no work."""


class ListSink:
    """The list of one job."""

    def __init__(self, spark, path: str, job_id: str) -> None:
        """Take the path of the file."""
        self._spark = spark
        self.path = path
        self.job_hash = hashlib.sha256(job_id.encode()).hexdigest()[:12]

    def committer(self, *, app_id: str, domain: str) -> ListCommitter:
        """See `Sink`."""
        return ListCommitter(self.path, app_id, domain)

    def exists(self) -> bool:
        """See `Sink`."""
        return Path(self.path).exists()

    def check(self, schema, *, source_path: str | None, has_state: bool) -> None:
        """See `Sink`."""
        if not has_state and any(read(self.path)["commits"]):
            raise TargetNotEmptyError(f"{self.path} has rows and no state of this job.", hint="Use an empty list.")

    def prepare(self, schema) -> None:
        """See `Sink`."""
        if not self.exists():
            columns = ", ".join(f"{column.name} {column.dataType.simpleString()}" for column in schema)
            _write(self.path, {**EMPTY, "columns": columns, "commits": [[]]})

    def stage(self, rows, *, attempt: int, work_id: int) -> list[str]:
        """See `Sink`."""
        file = Path(f"{self.path}.staged.{attempt}.{work_id}")
        file.write_text(json.dumps([[*row] for row in rows.collect()]))
        return [str(file)]

    def as_stored(self, rows):
        """See `Sink`."""
        return rows

    def check_staged(self, files: Sequence[StagedFile]) -> None:
        """Accept all files: `seal` cannot read a missing one."""

    def discard(self, paths: Sequence[str]) -> None:
        """See `Sink`."""
        for path in paths:
            Path(path).unlink(missing_ok=True)

    def discard_work(self, attempt: int, work_id: int) -> None:
        """See `Sink`."""
        self.discard([f"{self.path}.staged.{attempt}.{work_id}"])

    def remove_orphans(self, before_attempt: int) -> int:
        """See `Sink`."""
        staged = list(Path(self.path).parent.glob(f"{Path(self.path).name}.staged.*"))
        old = [str(file) for file in staged if int(file.name.split(".")[-2]) < before_attempt]
        self.discard(old)
        return len(old)

    def at(self, version: int):
        """See `Sink`."""
        held = read(self.path)
        rows = [tuple(row) for commit in held["commits"][: version + 1] for row in commit]
        return self._spark.createDataFrame(rows, held["columns"])

    def explain_failure(self, error: Exception) -> BackfillError | None:
        """Return `None`: it has no specific failures."""


def _open(spark, backfill):
    target = backfill.spec.target.params
    assert isinstance(target, ListTarget)
    return ListSink(spark, target.path, backfill.job_id)


SINK = SinkPlugin(name="List", open=_open, code=lambda: ListSink)
