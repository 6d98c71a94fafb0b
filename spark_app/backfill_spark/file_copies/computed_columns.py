"""Computes the computed columns of whole files, without the copied ones, into a separate file for each row group."""

from __future__ import annotations

import logging
import threading
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
from backfill_spark.file_copies.dictionaries.distinct_values import Dictionaries, Distinct, OutputFile, SharedValues
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

KNOWN_MAX = 32
"""Maximum partitions whose values are kept for later files, the newest ones."""

Partition = tuple[tuple[str, str | None], ...]

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


@dataclass(frozen=True, slots=True)
class _Definition:
    """How columns are computed."""

    inputs: frozenset[str]
    """Physical names of the columns in files from which they are computed."""

    text: tuple[str, ...]
    """Schema of the source, and expressions of the columns."""


@dataclass(frozen=True, slots=True)
class _ComputedValues:
    """Values, and the file of the columns that were computed from them, which may be gone."""

    values: SharedValues
    computed: Footer


@dataclass(frozen=True, slots=True)
class _Known:
    """Values of earlier files, with columns that are still computed so."""

    definition: _Definition
    by_partition: Mapping[Partition, _ComputedValues]


class ComputedColumns:
    """Computes output columns of a transform, for one source and one target. Thread-safe."""

    def __init__(self, spark: SparkSession, transform: Transform, source: SupportsFiles, sink: SupportsCopies) -> None:
        """Store the session, the transform, the source and the target; reads nothing yet."""
        self._spark, self._transform, self._source, self._sink = spark, transform, source, sink
        self._known, self._lock = _Known(_Definition(frozenset(), ()), {}), threading.Lock()

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
            now = self._definition(columns) if files else _Definition(frozenset(), ())
            opened = {at: self._reader.of(file.footer, now.inputs) for at, file in enumerate(files)}
            found = {at: values for at, values in opened.items() if values is not None}
            columns_of = self._by_values(files, found, now, columns, folder, check)
            tasks = [
                partial(self._joined, values, columns_of.get(at), f"{COLUMNS}/{at}", folder)
                for at, values in found.items()
            ]
            done = at_once(tasks, folder.threads)
        except JAVA_ERRORS as error:
            # A value without a row may fail. If a row fails, or the storage, the computation for each row fails, too.
            logging.getLogger(__name__).info("columns are computed for each row: %s", first_line(error))
            return {}
        return {at: joined for at, joined in zip(found, done, strict=True) if joined is not None}

    def _by_values(
        self,
        files: Sequence[FileToCompute],
        found: Mapping[int, Distinct],
        now: _Definition,
        columns: Collection[str],
        folder: PartFolder,
        check: Callable[[], None],
    ) -> dict[int, Footer]:
        """Compute columns for the values of files, which are read; return the columns of each file's values, by its index.

        Files of one partition share their values, because an expression may read partition columns.
        """
        with self._lock:
            known = self._known if self._known.definition == now else _Known(now, {})
        computed: dict[int, Footer] = {}
        by_partition: dict[Partition, list[int]] = {}
        for at, of_file in found.items():
            partition = tuple(sorted(files[at].file.partition.items()))
            before = known.by_partition.get(partition)
            if before is not None and before.values.take(of_file):
                computed[at] = before.computed
            else:
                by_partition.setdefault(partition, []).append(at)
        shared = [
            (partition, values, [members[at] for at in values.members])
            for partition, members in by_partition.items()
            for values in self._reader.shared([found[at] for at in members])
        ]
        for number, (_, values, _) in enumerate(shared):
            values.write(f"{folder.root}/{VALUES}/{number}.parquet", folder.output)
        footers = folder.footers(VALUES) if shared else {}
        rows = [
            _file_of_values(files[members[0]], f"{folder.root}/{VALUES}/{number}.parquet", footers[f"{number}.parquet"])
            for number, (_, _, members) in enumerate(shared)
        ]
        parts = self._by_row(rows, columns, folder, check, below=COMPUTED, options=PLAIN)
        newer = dict[Partition, _ComputedValues]()
        for (partition, values, members), of_values in zip(shared, parts, strict=True):
            if of_values is not None:
                (part,) = of_values
                values.read(part)
                computed |= dict.fromkeys(members, part)
                if values.is_small:
                    newer[partition] = _ComputedValues(values, part)
        with self._lock:
            self._known = _Known(now, dict(list({**known.by_partition, **newer}.items())[-KNOWN_MAX:]))
        return computed

    def _joined(self, values: Distinct, computed: Footer | None, below: str, folder: PartFolder) -> list[Footer] | None:
        names = (
            None
            if computed is None
            else self._reader.write_columns(values, computed, f"{folder.root}/{below}", folder.output)
        )
        if names is None:
            return None
        footers = folder.footers(below)
        return [footers[name] for name in names]

    @cached_property
    def _reader(self) -> Dictionaries:
        return Dictionaries(self._spark)

    def _definition(self, columns: Collection[str]) -> _Definition:
        """Return how columns are computed now; a followed source, or another writer of the target, may change it."""
        facts = self._source.table_facts()
        rows, _, _ = self._source.split_rows([], WHOLE_FILE)
        computed = self._transform.project(no_rows(self._spark, rows.schema))
        inputs = frozenset(facts.by_name[name].physical for name in columns_read(computed) - set(facts.partitions))
        stored = self._sink.stored_columns(computed, columns)
        return _Definition(inputs, (rows.schema.json(), *map(str, stored)))

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


def _file_of_values(file: FileToCompute, path: str, footer: Footer) -> FileToCompute:
    """Return a file that has the values of some files, as one of them."""
    alone = replace(file.file, path=quote(path, safe="/:"), size_bytes=footer.size_bytes, statistics=None, vector=None)
    return FileToCompute(alone, footer, WHOLE_FILE)


def _numbered(number: Column, members: Sequence[int]) -> Column:
    """Return the index of a row's file among all files, from its index among the files of one read."""
    if members == list(range(len(members))):
        return number
    return F.element_at(F.array(*map(F.lit, members)), number.cast("int") + 1)
