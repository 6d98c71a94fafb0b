"""Staged files on their way into a commit: what is measured of them, and the actions that name them.

A file that was written has the statistics of its footer. A file that was copied brings its own action, with the statistics and
the deletion vector of the log that it was copied from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_core.protocol.work import RemovedFile, StagedFile
from backfill_spark.delta.statistics.footer_statistics import OURS, CopiedFile, FooterStatistics
from backfill_spark.delta.table_layout import Layout
from backfill_spark.jvm.bulk_calls import java_lines
from backfill_spark.jvm.gateway import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class CommitLine:
    """The handle of a staged file that brings its own `add` action, or of a removed one with its `remove`."""

    text: str
    """The action as a line of a commit: JSON without a line feed; its path is relative to the target's folder."""


class Beside:
    """The handle of a staged file that no action names by itself: a deletion vector's, which that of its data file names."""


BESIDE = Beside()


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of one staged file."""

    size_bytes: int
    rows: int
    """Deleted ones included."""

    text: str | None
    """As the log has them: JSON; None: none."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """The handle of a staged file whose action is still to be made."""

    status: Any
    """Java `DataFileStatus` with statistics from the file's footer."""

    partition: tuple[tuple[str, str | None], ...]


class AddedFiles:
    """Measures staged files, and makes actions of them; from any thread."""

    def __init__(self, spark: SparkSession, path: str, kernel: Any, engine: Any, conf: Any) -> None:
        """Take the table's path, and Java's: Kernel's package, its engine, and the Hadoop configuration."""
        self._spark, self._jvm = spark, java(spark)
        self._kernel, self._engine = kernel, engine
        # Each name of a class is a question to Java, whenever it is said.
        self._file_path, self._some = self._jvm.org.apache.hadoop.fs.Path, self._jvm.java.util.Optional.of
        self._fs = self._file_path(path).getFileSystem(conf)
        self._files = kernel.defaults.engine.hadoopio.HadoopFileIO(conf)
        self._statistics = FooterStatistics(kernel, self._jvm)

    def measured(self, path: str, layout: Layout) -> StagedFile:
        """Return a staged file with its size, its rows and its statistics; the partition is that of its folders."""
        status, uri, size_bytes, found = self._read(path, layout, OURS)
        made = self._kernel.utils.DataFileStatus(uri, size_bytes, status.getModificationTime(), self._some(found))
        rows = int(found.getNumRecords())
        return StagedFile(path, size_bytes, rows, _Measured(made, layout.partition_of(path)))

    def statistics(self, path: str, layout: Layout, copied: CopiedFile) -> Statistics:
        """Return the statistics of a staged file whose column chunks others wrote."""
        _, _, size_bytes, found = self._read(path, layout, copied)
        text = (found.withoutTightBounds() if copied.wide else found).serializeAsJson(layout.physical_schema)
        return Statistics(size_bytes, int(found.getNumRecords()), str(text))

    def _read(self, path: str, layout: Layout, copied: CopiedFile) -> tuple[Any, str, int, Any]:
        """Return Hadoop's status of a file, its URI, its size in bytes, and Kernel's statistics."""
        status = self._fs.getFileStatus(self._file_path(path))
        uri, size_bytes = str(status.getPath().toString()), int(status.getLen())
        return status, uri, size_bytes, self._statistics.read(self._files.newInputFile(uri, size_bytes), layout, copied)

    def actions(self, files: Sequence[StagedFile | RemovedFile], layout: Layout, state: Any) -> Any:
        """Return the `add` actions of files as a `java.util.List`; `state` is that of Kernel's transaction."""
        by_partition: dict[tuple[tuple[str, str | None], ...], list[Any]] = {}
        lines: list[str] = []
        for file in files:
            if isinstance(file.handle, CommitLine):
                lines.append(file.handle.text)
            elif not isinstance(file.handle, Beside):
                assert isinstance(file.handle, _Measured)
                by_partition.setdefault(file.handle.partition, []).append(file.handle.status)
        actions = self.of_lines(lines)
        to_iterator = self._kernel.internal.util.Utils.toCloseableIterator
        for partition, statuses in by_partition.items():
            context = layout.write_context(partition)
            group = self._jvm.java.util.ArrayList()
            for status in statuses:
                group.add(status)
            made = self._kernel.Transaction.generateAppendActions(
                self._engine, state, to_iterator(group.iterator()), context
            )
            while made.hasNext():
                actions.add(made.next())
        return actions

    def of_lines(self, lines: Sequence[str]) -> Any:
        """Return lines of a commit as a `java.util.List` of actions, in a few calls into the JVM, however many there are."""
        rows = self._jvm.java.util.ArrayList()
        if lines:
            internal = self._kernel.internal
            texts = java_lines(self._spark, lines).toList()
            column = internal.util.VectorUtils.buildColumnVector(texts, self._kernel.types.StringType.STRING)
            full = internal.actions.SingleAction.FULL_SCHEMA
            parsed = self._engine.getJsonHandler().parseJson(column, full, self._jvm.java.util.Optional.empty())
            rows.addAll(parsed.getRows().toInMemoryList())
        return rows
