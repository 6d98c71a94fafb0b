"""Commits of a job that replaces a part of its target: the published files come, and the files of the scope go (ADR 0048)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from backfill_core.errors import AwayError, ForeignCommit, RowOutsideScopeError, TransientError
from backfill_core.file_copies.scope import Place, conflict
from backfill_core.in_place.fillable import in_parentheses
from backfill_core.protocol.publication import ManifestPart, ManifestWrite
from backfill_core.protocol.work import StagedFile
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.delta.types import quoted
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.ports.committer import SealedCommit
from backfill_spark.sinks.delta.failures import explain_target
from backfill_spark.sinks.delta.publishing import PublishingCommitter, complete_files
from backfill_spark.sinks.delta.scope.files import ScopeListing, TargetScope, removals
from backfill_spark.sinks.delta.staged_table import write_staged_table
from backfill_spark.sinks.delta.staging import StagingFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIES_MAX = 30
"""Tries of the publishing commit in a row, each directly after a commit of another writer outside of the scope."""

OUTSIDE_HINT = "Filter the rows with spec.transform.where, or widen the scope. Then release the job and run it again: nothing of it is visible."


class ScopedCommitter(PublishingCommitter):
    """A committer whose publication replaces the rows of a scope; other writers may commit outside of it at any time."""

    def __init__(
        self,
        spark: SparkSession,
        staging: StagingFolder,
        *,
        path: str,
        app_id: str,
        domain: str,
        scope: Callable[[], TargetScope],
        key: tuple[str, ...],
    ) -> None:
        """Take the arguments of `PublishingCommitter`.

        Args:
            spark: The session.
            staging: Folder of the staged files.
            path: Path of the target.
            app_id: Application id of the job.
            domain: Metadata domain of the job's state.
            scope: Reads the target and returns its scope.
            key: Key columns of the target, which identify a row in messages.
        """
        super().__init__(spark, staging, path=path, app_id=app_id, domain=domain, alone=False)
        self._read_scope, self._key = scope, key
        self._listing: ScopeListing | None = None

    @cached_property
    def _scope(self) -> TargetScope:
        return self._read_scope()

    def commits_of_others(self, after: int, upto: int, *, shared: bool = False) -> tuple[ForeignCommit, ...]:
        """Return the foreign commits inside the scope; between commits of a job that shares its target, none.

        Those end the job at its next commit of rows (`seal_staged`), so they need no warning.
        """
        return () if shared else self._scope.listing(after).after(upto, self.app_id).conflicts

    def seal_staged(
        self,
        txn_version: int,
        files: Sequence[StagedFile],
        state: str,
        write: ManifestWrite,
        *,
        scope_pin: int | None = None,
    ) -> SealedCommit:
        """See `ports.committer.HidesRows`."""
        assert scope_pin is not None
        newest = self.read_state().table_version
        self._checked(newest, scope_pin)
        lines = self._lines(files)
        self._check_inside(files, lines, newest, txn_version)
        self._write_part(write, files, lines)
        return self.seal(txn_version, (), state)

    def publish(
        self,
        txn_version: int,
        state: str,
        parts: Sequence[ManifestPart],
        *,
        shared: bool = False,
        scope_pin: int | None = None,
    ) -> SealedCommit:
        """See `ports.committer.HidesRows`."""
        assert shared
        assert scope_pin is not None
        files = complete_files(self._manifest, self._staging, parts, path=self._path)
        # A first reading of the log, so that little time passes between the next one and the commit.
        self._checked(self.read_state().table_version, scope_pin)
        for _ in range(TRIES_MAX - 1):
            try:
                return self._replace(txn_version, state, files, scope_pin)
            except AwayError:
                raise
            except TransientError:
                continue  # another writer came first; its commit is checked now
        return self._replace(txn_version, state, files, scope_pin)

    def _replace(self, txn_version: int, state: str, files: Sequence[StagedFile], scope_pin: int) -> SealedCommit:
        # Without retries, Kernel commits directly after the version that is checked, or fails.
        txn = self._begun(txn_version, retries=0)
        listing = self._checked(int(txn.getReadTableVersion()), scope_pin)
        removed = removals(listing.removed(), path=self._path, now_ms=time.time_ns() // 1_000_000)
        return self._commit(txn, (*files, *removed), state)

    def _checked(self, newest: int, scope_pin: int) -> ScopeListing:
        """Return the files of the scope in a version; reject rows of the scope that others changed since the pin."""
        listing = self._listing or self._scope.listing(scope_pin)
        self._listing = listing = listing.after(newest, self.app_id)
        if listing.conflicts:
            raise conflict(self._scope.named, self._path, listing.conflicts, newest)
        return listing

    def _check_inside(
        self, files: Sequence[StagedFile], lines: Sequence[str | None], version: int, txn_version: int
    ) -> None:
        """Reject a staged row outside of the scope; rows are read only of files whose bounds do not prove all of them inside."""
        doubtful = [
            replace(file, handle=CommitLine(line))
            for file, line in zip(files, lines, strict=True)
            if line is not None and self._scope.place(json.loads(line)["add"]) is not Place.INSIDE
        ]
        if not doubtful:
            return
        path, scope = f"{self._manifest.path}/o{txn_version}", self._scope
        try:
            write_staged_table(self._spark, self._path, version, doubtful, path)
            rows = self._spark.read.format("delta").load(path)
            shown = dict.fromkeys((*self._key, *scope.names))
            outside = (
                rows.where(f"NOT coalesce({in_parentheses(scope.text)}, false)").select(*map(quoted, shown)).first()
            )
        except (*JAVA_ERRORS, PySparkException) as error:
            raise explain_target(error, path=self._path, doing="reading staged rows") from error
        if outside is not None:
            row = ", ".join(f"{name} = {value}" for name, value in outside.asDict().items())
            raise RowOutsideScopeError(
                f"{scope.named}: the transform yields a row outside of it: {row}.", hint=OUTSIDE_HINT
            )
