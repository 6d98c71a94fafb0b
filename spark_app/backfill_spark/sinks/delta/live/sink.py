"""A Delta table that is source and target: checked before anything is written, and listed while other writers use it (ADR 0054)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from backfill_core.errors import ColumnsFollowedError, InvalidTransformError, SourceNotFoundError
from backfill_core.in_place.column_claims import ColumnClaims
from backfill_core.in_place.files import FillScope, FillState, LiveFile
from backfill_core.in_place.fillable import FillExpressions, TableToFill, check_fillable, quoted_name
from backfill_spark.delta.log import LOG_ERRORS, files_at, newest_version
from backfill_spark.delta.properties import physical_name
from backfill_spark.in_place.delta.actions import action_now, live_file
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.rows.columns import no_rows
from backfill_spark.rows.row_wise import columns_read
from backfill_spark.sinks.delta import checks
from backfill_spark.sinks.delta.failures import explain_making, explain_target
from backfill_spark.sinks.delta.live.committer import LiveCommitter
from backfill_spark.sinks.delta.live.writers import WritersFiles, WritersStart
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sinks.delta.table import TargetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NESTED = (StructType, ArrayType, MapType, VariantType)


class LiveSink(DeltaSink):
    """A table whose columns a job fills; see `ports.sink.LiveTarget`."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        *,
        values: Mapping[str, str],
        where: str | None,
        writers: WritersStart,
        **target: Any,
    ) -> None:
        """Take the expressions by column, the condition, the start of other writers, and the arguments of `DeltaSink`."""
        super().__init__(spark, path, **target)
        self._expressions = FillExpressions(values, {}, where)
        self._scope = FillScope(self._expressions.tag, tuple(values), fills_nulls=where is None)
        self._writers = WritersFiles(spark, self.path, writers)

    def committer(self, *, app_id: str, domain: str) -> LiveCommitter:
        """See `ports.sink.Sink`."""
        del domain
        claims = ColumnClaims(self.job_hash, self._scope.columns)
        return LiveCommitter(
            self._spark, self.path, app_id=app_id, claims=claims, scope=self._scope, discard=self.discard
        )

    def drop_feature(self) -> None:
        """Drop nothing: the job needed no feature."""

    # ------------------------------------------------------------------ checks
    def check(self, schema: StructType, *, source_path: str | None, has_state: bool) -> None:
        """Reject a table or a column that cannot be filled; rows exist, and the source is the same table.

        Raises:
            SourceNotFoundError: the path has no table.
            InvalidTransformError, UnsupportedTargetFeatureError, TargetSchemaMismatchError: see `check_fillable` and `checks`.
        """
        del source_path, has_state
        self._folder.check_writable()
        table = self._live_table
        check_fillable(self._facts(table), self._read_by(table))
        checks.check_table(table, upserts=False)
        checks.check_schema(StructType([field for field in schema if field.name in table.schema.names]), table.schema)
        for field in self._missing(schema):
            if isinstance(field.dataType, NESTED):
                raise InvalidTransformError(
                    f"spec.transform.set.{field.name} has the type {field.dataType.simpleString()}, and the table has no such column.",
                    hint="Add the column with ALTER TABLE … ADD COLUMNS first.",
                )

    @property
    def _live_table(self) -> TargetTable:
        table = self._read()
        if table is None:
            raise SourceNotFoundError(f"{self.path} is not a Delta table.", hint="Correct spec.source.delta.path.")
        return table

    def _facts(self, table: TargetTable) -> TableToFill:
        try:
            detail = self._spark.sql(f"DESCRIBE DETAIL delta.{quoted_name(self.path)}").first()
        except PySparkException as error:
            raise explain_target(error, path=self.path, doing="reading the table") from error
        assert detail is not None
        clustering = tuple(detail["clusteringColumns"] or ())
        names = tuple(table.schema.names)
        return TableToFill(self.path, names, table.partitions, clustering, table.features, table.properties, self._key)

    def _read_by(self, table: TargetTable) -> FillExpressions:
        empty, given = no_rows(self._spark, table.schema), self._expressions
        reads = {name: columns_read(empty.selectExpr(f"({text}) IS NULL AS x")) for name, text in given.values.items()}
        return FillExpressions(given.values, reads, given.where)

    def _missing(self, schema: StructType) -> StructType:
        """Return the columns to fill that the table lacks; an earlier attempt may have added them."""
        known = {name.lower() for name in self._live_table.schema.names}
        return StructType([field for field in schema if field.name.lower() not in known])

    # ------------------------------------------------------------------ preparation
    def prepare(self, schema: StructType) -> None:
        """Add the columns that the table lacks, nullable, in one commit of metadata.

        Raises:
            ColumnsFollowedError: columns were added; open the table again.
            UnsupportedTargetFeatureError, PermissionDeniedError, TransientError: Delta rejects the columns, or the storage failed.
        """
        missing = self._missing(schema)
        if missing.fields:
            added = ", ".join(f"{quoted_name(field.name)} {field.dataType.simpleString()}" for field in missing)
            try:
                self._spark.sql(f"ALTER TABLE delta.{quoted_name(self.path)} ADD COLUMNS ({added})")
            except JAVA_ERRORS as error:
                raise explain_making(error, path=self.path) from error
            raise ColumnsFollowedError(f"the columns {', '.join(missing.names)} were added to {self.path}.")
        self._cached = self._live_table

    def _planned(self, schema: StructType) -> TargetTable:
        table = super()._planned(schema)
        missing = [field for field in schema if field.name not in table.schema.names]
        return table.with_columns(StructType([*table.schema.fields, *missing]).json()) if missing else table

    # ------------------------------------------------------------------ files
    def live_files(self) -> tuple[int, list[LiveFile], int | None]:
        """See `ports.sink.LiveTarget`."""
        try:
            version = int(newest_version(self._spark, self.path).position)
        except LOG_ERRORS as error:
            raise explain_target(error, path=self.path, doing="reading the table") from error
        since, appended = self._writers.upto(version)
        return version, self._files_at(version, appended), since

    def _files_at(self, version: int, appended: Mapping[str, int]) -> list[LiveFile]:
        columns = {name: index for index, name in enumerate(self._scope.columns)}
        physical = [physical_name(self._table.schema[name]) for name in columns]
        try:
            files = files_at(self._spark, self.path, version, nulls_of=physical)
        except LOG_ERRORS as error:
            raise explain_target(error, path=self.path, doing="reading the files of the table") from error
        return [live_file(file, columns, appended) for file in files]

    def files_to_fill(self, version: int) -> list[str]:
        """See `ports.sink.LiveTarget`."""
        return self._actions(version, {FillState.OF_WRITERS})

    def filled_files(self, version: int) -> list[str]:
        """See `ports.sink.LiveTarget`."""
        return self._actions(version, {FillState.OF_WRITERS, FillState.TO_DO})

    def _actions(self, version: int, left_out: set[FillState]) -> list[str]:
        since, appended = self._writers.upto(version)
        scope = replace(self._scope, writers_since=since)
        return [action_now(file) for file in self._files_at(version, appended) if scope.state(file) not in left_out]
