"""Removes a Delta table: its files first, and its log last, so that a killed removal can be repeated."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_core.protocol.removal import LOG, TargetEvidence
from backfill_spark.delta.log import commit_files, commit_text, lines_of, table_now
from backfill_spark.delta.properties import is_on
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.object_store.s3_requests import S3Folder
from backfill_spark.ports.sink import TargetSize
from backfill_spark.sinks.delta.failures import explain_target
from backfill_spark.sinks.delta.foreign_commits import foreign

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPEND_ONLY = "delta.appendOnly"
DOING = "removing the target"


@dataclass(frozen=True)
class DeltaTableRemoval:
    """See `ports.sink.TargetRemoval`."""

    spark: SparkSession
    path: str

    def evidence(self, application: str, other_jobs: tuple[str, ...]) -> TargetEvidence:
        """See `ports.sink.TargetRemoval`."""
        try:
            table = table_now(self.spark, self.path)
            commits = {version: lines_of(commit_text(self.spark, self.path, version)) for version in self._versions()}
            entries = tuple(entry.getPath().getName() for entry in self._listed())
        except JAVA_ERRORS as error:
            raise explain_target(error, path=self.path, doing=DOING) from error
        others = (foreign(version, lines, application) for version, lines in commits.items() if version > 0)
        return TargetEvidence(
            path=self.path,
            oldest=min(commits, default=None),
            others=tuple(commit for commit in others if commit is not None),
            other_jobs=other_jobs,
            entries=entries,
            append_only=table is not None and is_on(table.properties, APPEND_ONLY),
        )

    def size(self) -> TargetSize:
        """See `ports.sink.TargetRemoval`."""
        try:
            summary = self._files.getContentSummary(self._at(self.path))
        except JAVA_ERRORS as error:
            raise explain_target(error, path=self.path, doing=DOING) from error
        return TargetSize(int(summary.getFileCount()), int(summary.getLength()))

    def remove(self) -> None:
        """See `ports.sink.TargetRemoval`."""
        try:
            log = self._at(f"{self.path}/{LOG}")
            for entry in self._listed():
                if entry.getPath().getName() != LOG:
                    self._files.delete(entry.getPath(), True)
            self._abort_uploads()
            self._files.delete(log, True)
            self._files.delete(self._at(self.path), False)
        except JAVA_ERRORS as error:
            raise explain_target(error, path=self.path, doing=DOING) from error

    def _abort_uploads(self) -> None:
        """Abort unfinished uploads of killed drivers, which are no files but cost space; a store may refuse to list them."""
        with suppress(*JAVA_ERRORS):
            folder = S3Folder.of(self.spark, self.path)
            if folder is not None:
                folder.abort_uploads("", lambda _: True)

    def _versions(self) -> list[int]:
        return list(commit_files(self.spark, self.path))

    def _listed(self) -> list[Any]:
        return list(self._files.listStatus(self._at(self.path)))

    @property
    def _files(self) -> Any:
        return self._at(self.path).getFileSystem(hadoop_conf(self.spark))

    def _at(self, path: str) -> Any:
        return java(self.spark).org.apache.hadoop.fs.Path(path)
