"""Files of a target that a repair replaces, matched with the files of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

from backfill_core.file_copies.copy_modes import Excluded
from backfill_core.log_shipping.replaced_files import ExpectedCopy, replaced_copies, replaced_in_replica
from backfill_core.log_shipping.target_files import TargetFile, TargetStep
from backfill_spark.delta.deletion_vectors import vector_of
from backfill_spark.delta.log import listing_at
from backfill_spark.delta.source_file import SourceFile, without_statistics
from backfill_spark.delta.spark_internals import SparkDeltaLog, delta_actions
from backfill_spark.file_copies.copied_files import PlannedCopy
from backfill_spark.file_copies.hidden_rows import failing_rows
from backfill_spark.file_copies.planner import JobCopyModes
from backfill_spark.jvm.gateway import java
from backfill_spark.log_shipping.file_actions import file_added

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from backfill_spark.delta.listing.logged_files import LoggedFiles
    from backfill_spark.opening.tables import Tables
    from backfill_spark.ports.compared import ComparedFiles
    from backfill_spark.receipts.comparison import TableComparison


class FilesOfTarget:
    """The files of one version of a target."""

    def __init__(self, spark: SparkSession, path: str, version: int) -> None:
        """List the files."""
        self._spark, self._path, self._version = spark, path, version
        self.files = list(_target_files(listing_at(spark, path, version, nulls_of=())))

    def named(self, uris: frozenset[str]) -> list[TargetFile]:
        """Return the files with these URIs, as Spark names the files of rows."""
        by_path = {file.path: file for file in self.files}
        return [by_path[path] for path in _paths(self._spark, self._path, by_path, uris)]

    def rows(self, files: list[TargetFile]) -> DataFrame:
        """Return the rows of files that a reader sees; lazy."""
        log = SparkDeltaLog(self._spark, self._path)
        return log.frame(delta_actions(self._spark, [file.action for file in files]), log.at(self._version))

    def uris(self, files: list[TargetFile]) -> frozenset[str]:
        """Return the URIs of files with rows, as Spark names the files of rows; reads the files."""
        rows = self.rows(files)
        places = rows.select(rows.metadataColumn("_metadata")["file_path"].alias("file")).distinct()
        return frozenset(row["file"] for row in places.collect())


def _paths(spark: SparkSession, table: str, logged: Iterable[str], uris: frozenset[str]) -> list[str]:
    """Return the paths, as the log of a table spells them, of the files with these URIs, as Spark names the files of rows."""
    if not uris:
        return []
    uri, path = java(spark).java.net.URI, java(spark).org.apache.hadoop.fs.Path
    folder = SparkDeltaLog(spark, table).path
    # Each place takes calls into Java, so only those of files with one of these names are made: a table may have a million files.
    names = {_name(file) for file in uris}
    by_place = {path(folder, path(uri(below))).toString(): below for below in logged if _name(below) in names}
    return [by_place[path(uri(name)).toString()] for name in sorted(uris)]


def _name(path: str) -> str:
    return unquote(path).rsplit("/", 1)[-1]


def replaced(
    tables: Tables,
    compared: TableComparison,
    target: FilesOfTarget,
    damaged: frozenset[str],
    *,
    ships: bool,
    differing: frozenset[str] = frozenset(),
) -> TargetStep:
    """Return the files to copy again and the files to remove.

    Args:
        tables: Source and target.
        compared: The comparison; the source's files are those of its position.
        target: Files of the target.
        damaged: Paths of target files that differ from their source file.
        ships: True if every file of the target is made from a file of the source.
        differing: Files of the source with rows that differ in the target, as URIs; only if the target's files are made from them.
    """
    if compared.source.files is None or not (ships or damaged):
        return TargetStep((), (), (), (), ())
    modes, files = JobCopyModes.of(tables), compared.source.files
    hidden = _hidden(tables, modes, files)
    paths = (str(entry["path"]) for entry in files.entries())
    wrong = {*_paths(tables.spark, tables.source.path, paths, differing)}

    def expected() -> Iterator[ExpectedCopy]:
        """Yield one copy after the other: all of them would fill the memory."""
        for entry in files.entries():
            file = SourceFile.of(entry)
            rows = hidden.get(file.path)
            if not isinstance(modes.planned(file), Excluded) and (rows is None or rows != file.counts(())[0]):
                added, differs = file_added({**entry, "dataChange": True}), file.path in wrong
                yield ExpectedCopy(added, modes.partition(file), rows, has_differing_rows=differs)

    decide: Callable[..., TargetStep] = replaced_in_replica if ships else replaced_copies
    return decide(expected(), target.files, damaged)


def _hidden(tables: Tables, modes: JobCopyModes, files: ComparedFiles) -> dict[str, int]:
    """Return the number of rows that the copy of each file hides, for files whose filter the log does not decide. One Spark job."""
    where, source = tables.transform.where, modes.source
    planned = map(modes.planned, map(SourceFile.of, files.entries())) if where is not None else ()
    unfiltered = [copy for copy in planned if isinstance(copy, PlannedCopy) and copy.is_unfiltered]
    if not unfiltered or source is None or where is None:
        return {}
    failing = failing_rows(tables.spark, source, where, [copy.file for copy in unfiltered])
    return {
        copy.file.path: copy.file.deleted + (0 if rows is None else rows.rows)
        for copy, rows in zip(unfiltered, failing, strict=True)
    }


def _target_files(files: LoggedFiles) -> Iterator[TargetFile]:
    numbers = zip(files.rows, files.deleted, files.partitions, strict=True)
    for add, (count, deleted, partition) in zip(files.entries(), numbers, strict=True):
        rows = None if count is None else count - deleted
        yield TargetFile(add["path"], vector_of(add), without_statistics(add), add["size"], partition, rows)
