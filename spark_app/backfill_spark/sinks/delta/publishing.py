"""Commits of a job whose rows become visible together: commits of a manifest, and the one that publishes its files (ADR 0041)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

from backfill_core.errors import StagedFilesGoneError, TargetChangedError
from backfill_core.protocol.publication import ManifestPart, ManifestWrite
from backfill_core.protocol.work import StagedFile
from backfill_spark.delta.spark_internals import named_files
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.ports.committer import SealedCommit
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.failures import explain_commit, explain_target
from backfill_spark.sinks.delta.manifest import LOST_HINT, ManifestFolder
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sinks.delta.staged_table import write_staged_table
from backfill_spark.sinks.delta.staging import StagingFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOREIGN_HINT = "Remove these rows and stop the other writer, then run the job again: it continues with the publication."


class PublishingCommitter(DeltaCommitter):
    """A committer that can also hide files, and make them visible together; see `ports.committer.SupportsPublication`."""

    def __init__(
        self, spark: SparkSession, staging: StagingFolder, *, path: str, app_id: str, domain: str, alone: bool
    ) -> None:
        """Take the folder of staged files, and the arguments of `DeltaCommitter`."""
        super().__init__(spark, path, app_id=app_id, domain=domain, alone=alone)
        self._staging, self._manifest = staging, ManifestFolder(spark, staging.path)

    def seal_staged(
        self,
        txn_version: int,
        files: Sequence[StagedFile],
        state: str,
        write: ManifestWrite,
        *,
        scope_pin: int | None = None,
    ) -> SealedCommit:
        """See `ports.committer.SupportsPublication`."""
        assert scope_pin is None  # `scope.committer` is for jobs with a scope
        self._write_part(write, files, self._lines(files))
        return self.seal(txn_version, (), state)

    def _lines(self, files: Sequence[StagedFile]) -> list[str | None]:
        """Return the `add` action of each file."""
        layout = self._cached_layout()
        try:
            transaction_state = self._begin(None).getTransactionState(self._engine)
            return self._added.lines(files, layout, transaction_state)
        except JAVA_ERRORS as error:
            raise explain_commit(error, self._path) from error

    def _write_part(self, write: ManifestWrite, files: Sequence[StagedFile], lines: Sequence[str | None]) -> None:
        self._manifest.write(write, list(zip(files, lines, strict=True)))

    def publish(
        self,
        txn_version: int,
        state: str,
        parts: Sequence[ManifestPart],
        *,
        shared: bool = False,
        scope_pin: int | None = None,
    ) -> SealedCommit:
        """See `ports.committer.SupportsPublication`."""
        assert scope_pin is None
        files = complete_files(self._manifest, self._staging, parts, path=self._path)
        # Without retries, Kernel commits directly after the version that is checked, or fails.
        txn = self._begun(txn_version, retries=0)
        if self._alone:
            self._check_alone(int(txn.getReadTableVersion()))
        snapshot = None if shared else self._newest()
        if snapshot is not None and self._has_rows(snapshot):
            raise TargetChangedError(
                f"{self._path} has rows of another writer, and this job's rows are not visible yet.", hint=FOREIGN_HINT
            )
        return self._commit(txn, files, state)


def complete_files(
    manifest: ManifestFolder, staging: StagingFolder, parts: Sequence[ManifestPart], *, path: str
) -> tuple[StagedFile, ...]:
    """Return the files of a manifest in the target at `path`.

    Raises:
        TargetChangedError: a part of the manifest, or a file, is gone or changed.
        BackfillError: the storage failed.
    """
    files = manifest.read(parts)
    try:
        staging.check(files)
        return files
    except StagedFilesGoneError as error:
        # Their rows count as done in the state, so no attempt of this job stages them again.
        raise TargetChangedError(f"before they were published, {error.message}", hint=LOST_HINT) from error
    except JAVA_ERRORS as error:
        raise explain_target(error, path=path, doing="checking the staged files") from error


class PublishingSink(DeltaSink):
    """A Delta target whose rows become visible together; see `ports.sink.SupportsPublication`."""

    def committer(self, *, app_id: str, domain: str) -> PublishingCommitter:
        """See `ports.sink.Sink`."""
        staging = self._staging
        return PublishingCommitter(
            self._spark, staging, path=self.path, app_id=app_id, domain=domain, alone=self._alone
        )

    @property
    def _manifest(self) -> ManifestFolder:
        return ManifestFolder(self._spark, self._staging.path)

    def remove_orphans_except(self, before_attempt: int, parts: Sequence[ManifestPart]) -> int:
        """See `ports.sink.SupportsPublication`."""
        kept = [file.path for file in self._manifest.read(parts)]
        return self._staging.remove_orphans(before_attempt, lambda: named_files(self._spark, self.path), kept=kept)

    def staged_table(self, parts: Sequence[ManifestPart], version: int) -> tuple[PublishingSink, int]:
        """See `ports.sink.SupportsPublication`."""
        files = complete_files(self._manifest, self._staging, parts, path=self.path)
        path = f"{self._manifest.path}/t{parts[-1].txn if parts else 0}"
        write_staged_table(self._spark, self.path, version, files, path)
        staged = copy(self)
        staged.path = path
        return staged, 0

    def drop_manifest(self) -> None:
        """See `ports.sink.SupportsPublication`."""
        self._manifest.drop()
