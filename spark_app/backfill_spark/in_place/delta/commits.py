"""Commits that replace files of a live table; each follows directly after a version whose foreign commits were checked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from backfill_core.errors import TransientError
from backfill_core.in_place.conflicts import ForeignChanges, Replacement, rebased
from backfill_core.protocol.work import StagedFile
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.delta.log import action_of, commit_text, lines_of
from backfill_spark.in_place.delta.actions import foreign_version, replacing
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.failures import explain_commit, explain_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIES_MAX: Final = 50
"""Maximum of tries of one commit; other writers came first at each one."""

EPOCH_BITS: Final = 32


class InPlaceCommitter(DeltaCommitter):
    """Commits of one job to a live table: no state, so that the protocol stays as other writers need it; only transaction ids and tags."""

    def __init__(self, spark: SparkSession, path: str, *, app_id: str, tag: str) -> None:
        """Store the table's path, and the values of the job's transactions and tags."""
        super().__init__(spark, path, app_id=app_id, domain="")
        self._tag = tag

    def begin_attempt(self) -> int:
        """Make the first, empty commit of an attempt, which older attempts cannot follow; return the attempt's number.

        Raises:
            FencedError: another driver of the job began at the same time.
            BackfillError: the commit failed.
        """
        newest = self.read_state().txn_version
        attempt = 1 if newest is None else (newest >> EPOCH_BITS) + 1
        self._commit(self._begun(attempt << EPOCH_BITS), (), "")
        return attempt

    def with_lines(self, files: Sequence[StagedFile]) -> tuple[StagedFile, ...]:
        """Return measured files with their complete `add` actions."""
        try:
            state = self._begin(None).getTransactionState(self._engine)
            lines = self._added.lines(files, self._cached_layout(), state)
        except JAVA_ERRORS as error:
            raise explain_commit(error, self._path) from error
        pairs = zip(files, lines, strict=True)
        return tuple(
            StagedFile(file.path, file.size_bytes, file.rows, CommitLine(line), mode=file.mode)
            for file, line in pairs
            if line is not None
        )

    def replace(self, txn_version: int, files: Sequence[Replacement], *, after: int) -> tuple[int, ForeignChanges]:
        """Replace files that no foreign commit removed; return the version of the commit, and the foreign changes before it.

        Args:
            txn_version: Transaction version of the commit. If it exists already, because its answer was lost, it is found in the log.
            files: Staged files with a `FilledCopy`.
            after: Version of the listing, or of the job's last commit.

        Raises:
            FencedError: a newer attempt of the job has committed.
            TransientError: other writers came first at every try, or the storage failed.
            BackfillError: the commit failed.
        """
        failure: TransientError | None = None
        tried = -1
        for _ in range(TRIES_MAX):
            newest = self.read_state().table_version
            landed, foreign = self._foreign(after, newest, txn_version)
            if landed is not None:
                return landed, foreign
            if failure is not None and newest == tried:
                raise failure  # there is no newer version, so the storage failed
            kept = rebased(files, foreign).kept
            if not kept:
                return newest, foreign
            txn = self._begun(txn_version, retries=0)
            if int(txn.getReadTableVersion()) != newest:
                continue
            actions = replacing(kept, self._tag, now_ms=time.time_ns() // 1_000_000)
            try:
                return self._commit(txn, actions, "").version, foreign
            except TransientError as error:
                failure, tried = error, newest
        raise failure or TransientError(f"other writers of {self._path} came first {TRIES_MAX} times.")

    def _foreign(self, after: int, upto: int, txn_version: int) -> tuple[int | None, ForeignChanges]:
        """Return the version of the commit with this transaction, `None` if there is none, and the foreign changes before it."""
        foreign = ForeignChanges()
        for version in range(after + 1, upto + 1):
            try:
                text = commit_text(self._spark, self._path, version)
            except JAVA_ERRORS as error:
                raise explain_target(error, path=self._path, doing=f"reading version {version}") from error
            txns = [action["txn"] for action in map(action_of, lines_of(text)) if "txn" in action]
            if any(txn.get("appId") == self.app_id and txn.get("version") == txn_version for txn in txns):
                return version, foreign
            foreign = foreign_version(foreign, version, text)
        return None, foreign
