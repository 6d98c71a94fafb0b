"""Log of a Delta table in which a fence is an entry that this project writes itself: Kernel refuses the feature (ADR 0039)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from backfill_core.errors import (
    AwayError,
    PermissionDeniedError,
    StorageFullError,
    TransientError,
    UnsupportedSourceFeatureError,
    UnsupportedTargetFeatureError,
)
from backfill_core.source_fence.fence import LogEntry, TableHead
from backfill_core.source_fence.table_protocol import TableProtocol
from backfill_spark.delta.log import LOG_ERRORS, action_of, commit_text, head_actions, lines_of
from backfill_spark.delta.properties import retention_seconds
from backfill_spark.delta.spark_internals import put_commit
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.failures import Trouble, describe_error, trouble_of
from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.log_stores import refusals
from backfill_spark.jvm.log_stores.conditional_writes import check_conditional_writes
from backfill_spark.sources.delta.failures import explain_look

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITE_HINT = "Grant this user write access to the _delta_log folder of the source."


@dataclass(frozen=True)
class DeltaFencedLog:
    """See `ports.source.FencedLog`."""

    spark: SparkSession
    path: str
    _checked: set[str] = field(default_factory=set, compare=False, repr=False)
    """Paths that passed the check; the logs of other tables, made by `at`, share it."""

    def check(self) -> None:
        """See `ports.source.FencedLog`."""
        if self.path in self._checked:
            return
        folder = f"{self.path}/_delta_log"
        files = java(self.spark).org.apache.hadoop.fs.Path(folder).getFileSystem(hadoop_conf(self.spark))
        with self._written():
            try:
                check_conditional_writes(self.spark, files, folder)
            except UnsupportedTargetFeatureError as unsafe:
                raise UnsupportedSourceFeatureError(unsafe.message, hint=unsafe.hint) from unsafe
        self._checked.add(self.path)

    def head(self) -> TableHead:
        """See `ports.source.FencedLog`."""
        try:
            newest = head_actions(self.spark, self.path)
        except LOG_ERRORS as error:
            raise explain_look(error, self.spark, path=self.path) from error
        protocol = TableProtocol.of(newest.protocol)
        return TableHead(self.path, newest.version, newest.timestamp_ms, newest.metadata, protocol)

    def time_of(self, version: int) -> int | None:
        """See `ports.source.FencedLog`."""
        with suppress(*JAVA_ERRORS):
            for line in lines_of(commit_text(self.spark, self.path, version)):
                info = action_of(line).get("commitInfo", {})
                if (time_ms := info.get("inCommitTimestamp", info.get("timestamp"))) is not None:
                    return int(time_ms)
        return None

    def retention_s(self, name: str, value: str | None) -> int:
        """See `ports.source.FencedLog`."""
        return retention_seconds(name, value)

    def at(self, path: str) -> DeltaFencedLog:
        """See `ports.source.FencedLog`."""
        return replace(self, path=path)

    def put(self, entry: LogEntry) -> None:
        """See `ports.source.FencedLog`."""
        with self._written():
            put_commit(self.spark, self.path, entry.version, entry.lines)

    @contextmanager
    def _written(self) -> Iterator[None]:
        """Translate exceptions of a write to the log."""
        try:
            yield
        except JAVA_ERRORS as error:
            message = f"the log of {self.path} cannot be written: {describe_error(error)}."
            match trouble_of(error):
                case Trouble.DENIED:
                    raise PermissionDeniedError(message, hint=refusals.hint_of(error, WRITE_HINT)) from error
                case Trouble.FULL:
                    raise StorageFullError(message, hint="Free some space; no data is lost.") from error
                case Trouble.AWAY:
                    raise AwayError(message, hint="Run the command again: it reads what the log contains.") from error
                case _:
                    raise TransientError(
                        message, hint="Run the command again: it reads what the log contains."
                    ) from error
