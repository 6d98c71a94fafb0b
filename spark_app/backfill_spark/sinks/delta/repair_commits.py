"""Commits of a repair: a fence of the job, then one commit that replaces files; any other commit to files ends the repair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from backfill_core.errors import ForeignCommit, TargetChangedError
from backfill_core.job.owner import PREFIX
from backfill_core.protocol.work import RemovedFile, StagedFile
from backfill_spark.ports.committer import SealedCommit, StoredState
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.foreign_commits import others_since
from backfill_spark.sinks.delta.table import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DeltaRepairCommits:
    """See `ports.sink.RepairCommits`."""

    def __init__(self, spark: SparkSession, path: str, job_hash: str) -> None:
        """Store the table's path and the hash of the job's id."""
        self._spark, self._path = spark, path
        self._app_id, self._domain = f"backfill-{job_hash}", f"{PREFIX}{job_hash}"

    def properties(self) -> Mapping[str, str]:
        """See `ports.sink.RepairCommits`."""
        table = read_table(self._spark, self._path)
        return {} if table is None else table.properties

    def fence(self, txn_version: int, state: str, *, opened: StoredState) -> None:
        """See `ports.sink.RepairCommits`."""
        fenced = self._committer().fence(txn_version, state, opened=opened)
        between = fenced.version - 1
        if between > opened.table_version:
            others = others_since(self._spark, self._path, between, self._app_id, after=opened.table_version)
            if others:
                raise self._changed(others, between)

    def replace(
        self, txn_version: int, files: Sequence[StagedFile], state: str, *, removed: Sequence[RemovedFile]
    ) -> SealedCommit:
        """See `ports.sink.RepairCommits`."""
        with self._without_advice():
            # This committer rejects every commit to files after the newest one of the job, which is the fence.
            return self._committer(alone=True).seal(txn_version, files, state, removed=removed)

    def _committer(self, *, alone: bool = False) -> DeltaCommitter:
        return DeltaCommitter(self._spark, self._path, app_id=self._app_id, domain=self._domain, alone=alone)

    @contextmanager
    def _without_advice(self) -> Iterator[None]:
        try:
            yield
        except TargetChangedError as error:
            raise self._changed(error.commits, error.newest) from error

    def _changed(self, commits: tuple[ForeignCommit, ...], newest: int) -> TargetChangedError:
        listed = ", ".join(map(str, commits[:3])) or "its log was cleaned"
        return TargetChangedError(
            f"another writer changed files of {self._path} during the repair: {listed}. Nothing was repaired.",
            hint="Run the repair again; keep other writers away from the target until it has ended.",
            commits=commits,
            newest=newest,
        )
