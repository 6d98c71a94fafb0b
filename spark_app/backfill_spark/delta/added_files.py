"""Prepares staged files for a commit: measures them, and creates their actions.

A written file gets the statistics of its footer. A copied file has a complete action, with the statistics and
the deletion vector from the source's log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_core.protocol.work import RemovedFile, StagedFile
from backfill_spark.delta.statistics.footer_statistics import OURS, CopiedFile, FooterStatistics
from backfill_spark.delta.table_layout import Layout
from backfill_spark.jvm.bulk_calls import java_lines
from backfill_spark.jvm.gateway import items, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class CommitLine:
    """The handle of a staged file with a complete `add` action, or of a removed file with its `remove` action."""

    text: str
    """The action as a line of a commit: JSON without a line feed; its path is relative to the target's folder."""


class Beside:
    """The handle of a staged file of a deletion vector: it has no separate action, because the action of its data file names it."""


BESIDE = Beside()


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of one staged file."""

    size_bytes: int
    rows: int
    """Number of rows, deleted ones included."""

    text: str | None
    """Statistics as JSON for the log; `None` if there are none."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """The handle of a staged file whose action is not created yet."""

    status: Any
    """A Java `DataFileStatus` with statistics from the file's footer."""

    partition: tuple[tuple[str, str | None], ...]


class AddedFiles:
    """Measures staged files, and creates their actions; safe from any thread."""

    def __init__(self, spark: SparkSession, path: str, kernel: Any, engine: Any, conf: Any) -> None:
        """Take the table's path and three Java objects: Kernel's package, its engine and the Hadoop configuration."""
        self._spark, self._jvm = spark, java(spark)
        self._kernel, self._engine = kernel, engine
        # Cached, because each use of a class name calls Java.
        self._file_path, self._some = self._jvm.org.apache.hadoop.fs.Path, self._jvm.java.util.Optional.of
        self._fs = self._file_path(path).getFileSystem(conf)
        self._files = kernel.defaults.engine.hadoopio.HadoopFileIO(conf)
        self._statistics = FooterStatistics(kernel, self._jvm)

    def measured(self, path: str, layout: Layout) -> StagedFile:
        """Return a staged file with its size, its rows and its statistics; its folders define the partition."""
        status, uri, size_bytes, read = self._read(path, layout, OURS)
        described = self._kernel.utils.DataFileStatus(uri, size_bytes, status.getModificationTime(), self._some(read))
        rows = int(read.getNumRecords())
        return StagedFile(path, size_bytes, rows, _Measured(described, layout.partition_of(path)))

    def statistics(self, path: str, layout: Layout, copied: CopiedFile) -> Statistics:
        """Return the statistics of a staged file whose column chunks were copied from another file."""
        _, _, size_bytes, read = self._read(path, layout, copied)
        text = (read.withoutTightBounds() if copied.wide else read).serializeAsJson(layout.physical_schema)
        return Statistics(size_bytes, int(read.getNumRecords()), str(text))

    def _read(self, path: str, layout: Layout, copied: CopiedFile) -> tuple[Any, str, int, Any]:
        """Return Hadoop's status of a file, its URI, its size in bytes, and Kernel's statistics."""
        status = self._fs.getFileStatus(self._file_path(path))
        uri, size_bytes = str(status.getPath().toString()), int(status.getLen())
        return status, uri, size_bytes, self._statistics.read(self._files.newInputFile(uri, size_bytes), layout, copied)

    def actions(self, files: Sequence[StagedFile | RemovedFile], layout: Layout, state: Any) -> Any:
        """Return the actions of files as a `java.util.List`; `state` is the state of Kernel's transaction."""
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
            generated = self._kernel.Transaction.generateAppendActions(
                self._engine, state, to_iterator(group.iterator()), context
            )
            while generated.hasNext():
                actions.add(generated.next())
        return actions

    def lines(self, files: Sequence[StagedFile], layout: Layout, state: Any) -> list[str | None]:
        """Return the action of each file as a line of a commit; `None` for a file without an action. `state`: as `actions`."""
        as_json = self._kernel.defaults.internal.json.JsonUtils.rowToJson
        lines: list[str | None] = []
        for file in files:
            match file.handle:
                case CommitLine(text=text):
                    lines.append(text)
                case Beside():
                    lines.append(None)
                case _:
                    (row,) = items(self.actions((file,), layout, state))
                    lines.append(str(as_json(row)))
        return lines

    def of_lines(self, lines: Sequence[str]) -> Any:
        """Return lines of a commit as a `java.util.List` of actions, with a constant number of calls into the JVM."""
        rows = self._jvm.java.util.ArrayList()
        if lines:
            internal = self._kernel.internal
            java_list = java_lines(self._spark, lines).toList()
            column = internal.util.VectorUtils.buildColumnVector(java_list, self._kernel.types.StringType.STRING)
            full = internal.actions.SingleAction.FULL_SCHEMA
            parsed = self._engine.getJsonHandler().parseJson(column, full, self._jvm.java.util.Optional.empty())
            rows.addAll(parsed.getRows().toInMemoryList())
        return rows
