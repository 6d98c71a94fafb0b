"""Computes the computed columns of whole files, without the copied ones, into a separate file for each row group."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_core.file_copies.computed_parts import FILES_MAX, LABEL, WHOLE_FILE, Groups, in_order, rounds
from backfill_spark.delta.types import quoted
from backfill_spark.file_copies.dictionaries.distinct_values import Dictionaries, Distinct, OutputFile
from backfill_spark.file_copies.footers import Footer
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line
from backfill_spark.jvm.failures import while_staging
from backfill_spark.jvm.workers import at_once
from backfill_spark.rows.columns import no_rows, unused
from backfill_spark.rows.row_wise import columns_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.delta.source_file import SourceFile
    from backfill_spark.ports.sink import SupportsCopies
    from backfill_spark.ports.source import SupportsFiles
    from backfill_spark.rows.transform import Transform

VALUES, COMPUTED, COLUMNS = "values", "computed", "columns"
"""Folders below that of the parts: dictionaries, the columns that were computed from them, and these columns for all rows."""

PLAIN = {"parquet.enable.dictionary": "false"}
"""Writer options of values that become a dictionary."""


@dataclass(frozen=True, slots=True)
class FileToCompute:
    """A file of the source."""

    file: SourceFile
    footer: Footer
    split_bytes: int
    """Size of splits of which each has at most one row group."""

    @property
    def groups(self) -> Groups:
        """Number of rows of each row group."""
        return self.footer.groups


@dataclass(frozen=True, slots=True)
class PartFolder:
    """Folder for the parts of some files; it holds nothing else, and the caller removes it."""

    root: str
    """Path or URI of the folder."""

    written: Callable[[str], list[Footer]]
    """Returns the Parquet files in a folder below, except encrypted ones."""

    output: OutputFile

    threads: int
    """Number of files that are written at once without Spark."""

    def footers(self, below: str) -> dict[str, Footer]:
        """Return the Parquet files in a folder below, by their names."""
        return {PurePosixPath(footer.path).name: footer for footer in self.written(below)}


class ComputedColumns:
    """Computes output columns of a transform, for one source and one target. Thread-safe."""

    def __init__(self, spark: SparkSession, transform: Transform, source: SupportsFiles, sink: SupportsCopies) -> None:
        """Store the session, the transform, the source and the target; reads nothing yet."""
        self._spark, self._transform, self._source, self._sink = spark, transform, source, sink

    def parts(
        self, files: Sequence[FileToCompute], columns: Collection[str], folder: PartFolder, *, check: Callable[[], None]
    ) -> list[list[Footer] | None]:
        """Write columns of files, one part per row group; return the parts of each file, `None` if one is missing.

        If the columns of a file depend on one column that it stores by dictionaries, they are computed for the distinct values.

        Args:
            files: Files whose row groups `can_be_joined`.
            columns: Names of output columns.
            folder: Folder of the parts.
            check: Called before each job; an exception that it raises ends the work.

        Raises:
            StagedFilesGoneError: a part disappeared before it was used.
            Spark's error for a row that cannot be computed.
        """
        by_value = self._by_value(files, columns, folder, check)
        rest = [at for at in range(len(files)) if at not in by_value]
        by_row = self._by_row([files[at] for at in rest], columns, folder, check)
        computed = {**by_value, **dict(zip(rest, by_row, strict=True))}
        return [computed[at] for at in range(len(files))]

    def _by_row(
        self,
        files: Sequence[FileToCompute],
        columns: Collection[str],
        folder: PartFolder,
        check: Callable[[], None],
        *,
        below: str = "rows",
        options: Mapping[str, str] = {},
    ) -> list[list[Footer] | None]:
        """Compute columns for each row of files; see `parts`.

        One Spark job computes files with up to `PARTS_MAX` row groups in total. Each of its tasks has the rows of one row group in
        their order, and writes one part. The first column of a part is its label, the same for all its rows.
        """
        by_file: list[list[Footer] | None] = [None] * len(files)
        for number, chosen in enumerate(rounds([file.groups for file in files])):
            check()
            self._write([files[at] for at in chosen], columns, f"{folder.root}/{below}/{number}", options)
            written = folder.written(f"{below}/{number}")
            labelled = [(label, part) for part in written if (label := part.label) is not None]
            for index, at in enumerate(chosen):
                order = in_order([label for label, _ in labelled], index, files[at].groups)
                by_file[at] = None if order is None else [labelled[place][1] for place in order]
        return by_file

    def _by_value(
        self, files: Sequence[FileToCompute], columns: Collection[str], folder: PartFolder, check: Callable[[], None]
    ) -> dict[int, list[Footer]]:
        """Compute columns of the files that store their input by dictionaries; return the parts of each, by its index."""
        try:
            inputs = self._inputs() if files else frozenset()
            opened = {at: self._reader.of(file.footer, inputs) for at, file in enumerate(files)}
            found = {at: values for at, values in opened.items() if values is not None}
            small = {at: self._values(files[at], values, f"{VALUES}/{at}", folder) for at, values in found.items()}
            flat = [file for of_file in small.values() for file in of_file]
            computed = iter(self._by_row(flat, columns, folder, check, below=COMPUTED, options=PLAIN))
            parts = {at: [part for _ in of_file for part in next(computed) or ()] for at, of_file in small.items()}
            tasks = [
                partial(self._joined, values, parts[at], f"{COLUMNS}/{at}", folder) for at, values in found.items()
            ]
            done = at_once(tasks, folder.threads)
        except JAVA_ERRORS as error:
            # A value without a row may fail. If a row fails, or the storage, the computation for each row fails, too.
            logging.getLogger(__name__).info("columns are computed for each row: %s", first_line(error))
            return {}
        return {at: joined for at, joined in zip(found, done, strict=True) if joined is not None}

    def _values(self, file: FileToCompute, values: Distinct, below: str, folder: PartFolder) -> list[FileToCompute]:
        """Write the dictionaries of a file as files of the source's table."""
        names = self._reader.write_values(values, f"{folder.root}/{below}", folder.output)
        footers = folder.footers(below)
        return [
            FileToCompute(
                replace(
                    file.file, path=quote(f"{folder.root}/{below}/{name}", safe="/:"),
                    size_bytes=footers[name].size_bytes, statistics=None, vector=None,
                ),
                footers[name], WHOLE_FILE,
            )
            for name in names
        ]  # fmt: skip

    def _joined(self, values: Distinct, parts: Sequence[Footer], below: str, folder: PartFolder) -> list[Footer] | None:
        names = self._reader.write_columns(values, parts, f"{folder.root}/{below}", folder.output)
        if names is None:
            return None
        footers = folder.footers(below)
        return [footers[name] for name in names]

    @cached_property
    def _reader(self) -> Dictionaries:
        return Dictionaries(self._spark)

    def _inputs(self) -> frozenset[str]:
        """Return the physical names of the columns in files from which columns are computed, for the present columns of the source."""
        facts = self._source.table_facts()
        rows, _, _ = self._source.split_rows([], WHOLE_FILE)
        names = columns_read(self._transform.project(no_rows(self._spark, rows.schema)))
        return frozenset(facts.by_name[name].physical for name in names - set(facts.partitions))

    def _write(
        self, files: Sequence[FileToCompute], columns: Collection[str], folder: str, options: Mapping[str, str]
    ) -> None:
        rows, name = self._rows(files)
        computed = self._transform.project(rows, name)
        stored = self._sink.stored_columns(computed, columns)
        label = F.col(quoted(name)).alias(unused(LABEL, computed.select(*stored).columns))
        writer = computed.select(label, *stored).write.mode("overwrite").options(**options)
        with while_staging(folder):
            writer.option("maxRecordsPerFile", 0).parquet(folder)

    def _rows(self, files: Sequence[FileToCompute]) -> tuple[DataFrame, str]:
        """Return all rows of files, and the name of a column with the label of their split; one read for each size of splits."""
        by_size: dict[int, list[int]] = {}
        for at, file in enumerate(files):
            by_size.setdefault(file.split_bytes, []).append(at)
        frames, name = list[DataFrame](), LABEL
        for size, members in by_size.items():
            rows, number, first = self._source.split_rows([files[at].file.with_all_rows for at in members], size)
            name = unused(LABEL, rows.columns)
            frames.append(rows.select("*", (first * FILES_MAX + _numbered(number, members)).alias(name)))
        return reduce(DataFrame.unionAll, frames), name


def _numbered(number: Column, members: Sequence[int]) -> Column:
    """Return the index of a row's file among all files, from its index among the files of one read."""
    if members == list(range(len(members))):
        return number
    return F.element_at(F.array(*map(F.lit, members)), number.cast("int") + 1)
