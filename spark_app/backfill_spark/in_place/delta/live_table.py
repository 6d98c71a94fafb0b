"""A live table, opened at its newest version with the expressions of its columns, and checked before anything is read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from backfill_core.errors import InvalidTransformError, SourceNotFoundError
from backfill_core.file_copies.copy_modes import PARTLY_COMPUTED_ROWS_MIN, Copying, of_file, of_table
from backfill_core.file_copies.facts import Computed, FileFacts, Taken, TransformFacts
from backfill_core.file_copies.unknown_columns import kept_of_files
from backfill_core.in_place.files import FillScope, LiveFile
from backfill_core.in_place.fillable import FillExpressions, TableToFill, check_fillable, quoted_name
from backfill_spark.delta.log import files_at
from backfill_spark.delta.properties import physical_name
from backfill_spark.delta.source_file import LoggedFile, SourceFile
from backfill_spark.file_copies.computed_columns import ComputedColumns
from backfill_spark.file_copies.copied_files import PlannedCopy
from backfill_spark.file_copies.copier import FileTransfer
from backfill_spark.file_copies.file_values import FilterColumns
from backfill_spark.file_copies.planner import JobCopyModes
from backfill_spark.in_place.delta.actions import live_file
from backfill_spark.in_place.delta.commits import InPlaceCommitter
from backfill_spark.rows.columns import no_rows
from backfill_spark.rows.row_wise import Fault, columns_read, find_fault
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.sinks.delta import checks
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sinks.delta.table import TargetTable, read_table
from backfill_spark.sources.delta.source import DeltaTableSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NESTED: Final = (StructType, ArrayType, MapType, VariantType)


@dataclass(frozen=True, slots=True)
class FillRequest:
    """Columns to fill of one table."""

    path: str
    job_id: str
    values: Mapping[str, str]
    """SQL expression of each column."""

    where: str | None = None
    """Condition of the rows to fill; `None`: rows in which the column is null."""

    key: tuple[str, ...] = ()

    @property
    def app_id(self) -> str:
        """Name of the job in the table's transactions."""
        return f"backfill-{self._hash(self.job_id, 12)}"

    @property
    def tag(self) -> str:
        """Tag of filled files."""
        text = FillExpressions(self.values, {}, self.where).tag
        return self._hash(f"{self.job_id}\n{text}", 16)

    def _hash(self, text: str, digits: int) -> str:
        return hashlib.sha256(text.encode()).hexdigest()[:digits]


class LiveTable:
    """The newest version of a table at the time of the opening; a change of columns needs another opening."""

    def __init__(self, spark: SparkSession, request: FillRequest) -> None:
        """Check the table and the expressions, add missing columns, and open the table.

        Raises:
            SourceNotFoundError: the path has no table.
            InvalidTransformError: an expression is not row-wise or not deterministic, or a column cannot be filled.
            UnsupportedTargetFeatureError: the table cannot be filled in place.
            TargetSchemaMismatchError: an expression has another type than its column.
        """
        self.spark, self.request = spark, request
        _checked(spark, request)
        self.sink = DeltaSink(spark, request.path, write_mode=APPEND, key=(), job_id=request.job_id, alone=True)
        self.committer = InPlaceCommitter(spark, request.path, app_id=request.app_id, tag=request.tag)
        self.source = DeltaTableSource(spark, request.path, key=())
        pinned = self.source.pin(None)
        self.schema, self.version = pinned.schema, pinned.version
        expressions = FillExpressions(request.values, {}, request.where)
        self.transform = Transform(expressions.outputs(tuple(self.schema.names)))
        output = self.transform.output_schema(spark, self.schema)
        checks.check_schema(output, self.schema)
        self.sink.prepare(output)
        self.modes = self._modes(output)
        self.copier = FileTransfer(
            spark,
            source=request.path,
            target=request.path,
            measure=self.committer.statistics,
            computed=ComputedColumns(spark, self.transform, self.source, self.sink),
        )
        self.scope = FillScope(request.tag, tuple(request.values), fills_nulls=request.where is None)
        self.files: dict[str, LoggedFile] = {}
        """Files of all listings, by path."""

    def _modes(self, output: StructType) -> JobCopyModes:
        copied = self.transform.taken(self.spark, self.schema)
        failing = self.transform.may_fail(self.spark, self.schema)
        outputs: dict[str, Taken | Computed] = {
            name: Computed(name, failing[name]) if column is None else Taken(column) for name, column in copied.items()
        }
        facts = TransformFacts(outputs)
        source, target = self.source.table_facts(), self.sink.table_facts(output)
        return JobCopyModes(self.source, facts, source, target, of_table(facts, source, target), FilterColumns())

    def check_sample(self) -> None:
        """Compute a few rows twice, and reject expressions whose values differ.

        Raises:
            InvalidTransformError: a value differs, or a row cannot be computed.
        """
        self.transform.check_sample(self.source.at(self.version))

    # ------------------------------------------------------------------ files
    def listed(self) -> tuple[int, list[LiveFile]]:
        """Return the newest version and its files.

        Raises:
            BackfillError: the log cannot be read.
        """
        version = int(self.source.head().position)
        columns = {name: index for index, name in enumerate(self.scope.columns)}
        physical = [physical_name(self.schema[name]) for name in columns]
        files = files_at(self.spark, self.request.path, version, nulls_of=physical)
        self.files |= {file.path: file for file in files}
        return version, [live_file(file, columns) for file in files]

    def planned(self, file: SourceFile) -> PlannedCopy | None:
        """Return the copy of a file; `None` if it must be decoded.

        Small files are copied too, although decoding would cost less: only a copy can take a deletion vector that a writer adds.
        """
        modes = self.modes
        rows, nulls = file.counts([column.physical for column in modes.table.columns])
        facts = FileFacts(
            None if rows is None else max(rows, PARTLY_COMPUTED_ROWS_MIN),
            nulls,
            file.partition,
            {},
            file.vector is not None,
            file.is_elsewhere,
        )
        mode = of_file(modes.best, modes.transform, modes.table, modes.target, facts)
        if rows is None or not isinstance(mode, Copying):
            return None
        return PlannedCopy(file, mode, file.partition, rows, kept_of_files(modes.table, modes.transform))


def _checked(spark: SparkSession, request: FillRequest) -> None:
    table = read_table(spark, request.path)
    if table is None:
        raise SourceNotFoundError(f"{request.path} is not a Delta table.", hint="Correct spec.source.delta.path.")
    empty = no_rows(spark, table.schema)
    if request.where is not None:
        _refuse(find_fault(empty, (request.where,), filters=True), "setWhere", request.where)
    reads: dict[str, frozenset[str]] = {}
    for name, text in request.values.items():
        _refuse(find_fault(empty, (text,), filters=False), f"set.{name}", text)
        reads[name] = columns_read(empty.selectExpr(f"({text}) IS NULL AS x"))
    detail = spark.sql(f"DESCRIBE DETAIL delta.{quoted_name(request.path)}").first()
    assert detail is not None
    facts = TableToFill(
        request.path,
        tuple(table.schema.names),
        table.partitions,
        tuple(detail["clusteringColumns"] or ()),
        table.features,
        table.properties,
        request.key,
    )
    check_fillable(facts, FillExpressions(request.values, reads, request.where))
    checks.check_table(table, upserts=False)
    _add_columns(spark, request, table)


def _refuse(fault: Fault | None, field: str, text: str) -> None:
    if fault is not None:
        raise InvalidTransformError(f"spec.transform.{field} = {text!r}{fault.message}", hint=fault.hint)


def _add_columns(spark: SparkSession, request: FillRequest, table: TargetTable) -> None:
    """Add the columns that the table lacks, nullable, in one commit of metadata."""
    empty = no_rows(spark, table.schema)
    added = []
    for name, text in request.values.items():
        if name in table.schema.names:
            continue
        data_type = empty.selectExpr(f"({text}) AS x").schema["x"].dataType
        if isinstance(data_type, NESTED):
            raise InvalidTransformError(
                f"spec.transform.set.{name} has the type {data_type.simpleString()}, and the table has no such column.",
                hint="Add the column with ALTER TABLE … ADD COLUMNS first.",
            )
        added.append(f"{quoted_name(name)} {data_type.simpleString()}")
    if added:
        spark.sql(f"ALTER TABLE delta.{quoted_name(request.path)} ADD COLUMNS ({', '.join(added)})")
