"""A Delta table that is source and target: checked before anything is written, and listed while other writers use it (ADR 0054)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from backfill_core.errors import (
    BackfillError,
    ColumnsFollowedError,
    InvalidSpecError,
    InvalidTransformError,
    SourceNotFoundError,
    TransientError,
    UnsupportedTargetFeatureError,
)
from backfill_core.in_place.column_claims import ColumnClaims
from backfill_core.in_place.files import FillScope, FillState, LiveFile
from backfill_core.in_place.fillable import FillExpressions, TableToFill, check_fillable, in_parentheses, quoted_name
from backfill_core.in_place.writer_conflicts import RECENT_MS
from backfill_spark.delta.log import LOG_ERRORS, commit_files, commit_text, files_at, newest_version
from backfill_spark.delta.properties import physical_name
from backfill_spark.delta.source_file import LoggedFile
from backfill_spark.delta.table_facts import physical_type
from backfill_spark.in_place.delta.actions import action_now, is_redefinition, live_file, original_of
from backfill_spark.in_place.delta.replaced_files import existing, file_names
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a, whole_text
from backfill_spark.jvm.failures import Trouble, describe_error, is_about, trouble_of
from backfill_spark.ports.sink import FilledFiles
from backfill_spark.rows.columns import no_rows
from backfill_spark.rows.row_wise import columns_read
from backfill_spark.sinks.delta import checks
from backfill_spark.sinks.delta.failures import explain_making, explain_target
from backfill_spark.sinks.delta.live.committer import LiveCommitter, is_foreign_rewrite
from backfill_spark.sinks.delta.live.writers import WritersFiles, WritersStart
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sinks.delta.table import TargetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_UPDATE = "Use UPDATE or MERGE, with which Delta enforces it, or remove it from the table."
RECENT_COMMITS_MAX = 60
CLUSTERING = "clustering"
"""Table feature of tables with clustering columns."""

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
        data_change: bool,
        **target: Any,
    ) -> None:
        """Take expressions by column, their condition, the start of other writers, the mark of commits, and arguments of `DeltaSink`."""
        super().__init__(spark, path, **target)
        self._expressions = FillExpressions(values, {}, where)
        self._writers = WritersFiles(spark, self.path, writers)
        self._scope: FillScope | None = None
        self._data_change = data_change
        self._added = StructType()
        """Columns that the table lacked when it was checked."""

        self._laid_out_at = -1
        """Newest version whose columns are known to be those of the attempt."""

    def committer(self, *, app_id: str, domain: str) -> LiveCommitter:
        """See `ports.sink.Sink`."""
        del domain
        claims = ColumnClaims(self.job_hash, tuple(self._expressions.values))
        return LiveCommitter(
            self._spark,
            self.path,
            app_id=app_id,
            claims=claims,
            scope=self._fill_scope,
            discard=self.discard,
            data_change=self._data_change,
        )

    def _fill_scope(self) -> FillScope:
        if self._scope is None:
            schema = self._table.schema
            added = (field for field in self._added if field.name not in schema.names)
            used = self._read_by(StructType([*schema, *added])).used & set(schema.names)
            places = {
                name: f"{physical_name(schema[name])} {physical_type(schema[name].dataType).json()}" for name in used
            }
            given = self._expressions
            self._scope = FillScope(given.tag(places), tuple(given.values), fills_nulls=given.where is None)
        return self._scope

    def drop_feature(self) -> None:
        """Drop nothing: the job needed no feature."""

    # ------------------------------------------------------------------ checks
    def check(self, schema: StructType, *, source_path: str | None, has_state: bool) -> None:
        """Reject a table or a column that cannot be filled; rows exist, and the source is the same table.

        Raises:
            SourceNotFoundError: the path has no table.
            InvalidTransformError, UnsupportedTargetFeatureError, TargetSchemaMismatchError: see `check_fillable` and `checks`.
        """
        del source_path
        self._folder.check_writable()
        table = self._live_table
        missing = self._added = self._missing(schema)
        check_fillable(
            replace(self._facts(table), began=has_state), self._read_by(StructType([*table.schema, *missing]))
        )
        try:
            checks.check_table(table, upserts=False)
        except UnsupportedTargetFeatureError as error:
            raise UnsupportedTargetFeatureError(error.message, hint=BY_UPDATE) from error
        checks.check_schema(StructType([field for field in schema if field.name in table.schema.names]), table.schema)
        for field in missing:
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

    def _clustering(self, table: TargetTable) -> tuple[str, ...]:
        # DESCRIBE DETAIL counts all files in a Spark job, and a table without the feature has no clustering columns.
        if CLUSTERING not in table.features:
            return ()
        try:
            detail = self._spark.sql(f"DESCRIBE DETAIL delta.{quoted_name(self.path)}").first()
        except PySparkException as error:
            raise explain_target(error, path=self.path, doing="reading the table") from error
        assert detail is not None
        return tuple(detail["clusteringColumns"] or ())

    def _facts(self, table: TargetTable) -> TableToFill:
        names = tuple(table.schema.names)
        return TableToFill(
            self.path,
            names,
            table.partitions,
            self._clustering(table),
            table.features,
            table.properties,
            self._key,
            self._data_change,
        )

    def _read_by(self, schema: StructType) -> FillExpressions:
        empty, given = no_rows(self._spark, schema), self._expressions

        def columns(text: str) -> frozenset[str]:
            return columns_read(empty.selectExpr(f"{in_parentheses(text)} IS NULL AS x"))

        reads = {name: columns(text) for name, text in given.values.items()}
        return replace(given, reads=reads, where_reads=columns(given.where) if given.where else frozenset())

    def _missing(self, schema: StructType) -> StructType:
        """Return the columns to fill that the table lacks; an earlier attempt may have added them."""
        known = {name.lower() for name in self._live_table.schema.names}
        return StructType([field for field in schema if field.name.lower() not in known])

    def explain_failure(self, error: Exception) -> BackfillError | None:
        """See `DeltaSink`; a file that a writer removed since it was listed is no damage, and a new list lacks it."""
        if trouble_of(error) is Trouble.GONE and is_about(error, self.path) and not self._names_any(whole_text(error)):
            return TransientError(f"another writer removed a file since it was listed: {describe_error(error)}")
        return super().explain_failure(error)

    def _names_any(self, text: str) -> bool:
        """Return True if a text contains the name of a file of the newest version, or of its deletion vector."""
        try:
            files = files_at(self._spark, self.path, self._newest_version(), nulls_of=())
        except (*LOG_ERRORS, BackfillError):
            return True
        return any(name in text for file in files for name in file_names(file))

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
                explained = explain_making(error, path=self.path)
                if isinstance(explained, InvalidSpecError):
                    raise InvalidTransformError(
                        f"spec.transform.set: Delta cannot add {added} to {self.path}: {describe_error(error)}",
                        hint="Add the column with ALTER TABLE first, or choose another name or type for it.",
                    ) from error
                raise explained from error
            raise ColumnsFollowedError(f"the columns {', '.join(missing.names)} were added to {self.path}.")
        self._cached = self._live_table

    def _planned(self, schema: StructType) -> TargetTable:
        table = super()._planned(schema)
        missing = [field for field in schema if field.name not in table.schema.names]
        return table.with_columns(StructType([*table.schema.fields, *missing]).json()) if missing else table

    # ------------------------------------------------------------------ files
    def live_files(self, opened: int) -> tuple[int, list[LiveFile], FillScope]:
        """See `ports.sink.LiveTarget`."""
        version = self._newest_version()
        self._check_laid_out(max(opened, self._laid_out_at), version)
        scope, appended = self._scope_at(version)
        return version, self._files_at(version, appended), scope

    def _newest_version(self) -> int:
        try:
            return int(newest_version(self._spark, self.path).position)
        except LOG_ERRORS as error:
            raise explain_target(error, path=self.path, doing="reading the table") from error

    def recent_rewrites(self, version: int) -> int:
        """See `ports.sink.LiveTarget`; commits of jobs that fill columns do not count."""
        since_ms = time.time_ns() // 1_000_000 - RECENT_MS
        try:
            commits = commit_files(self._spark, self.path)
            recent = [number for number, file in commits.items() if int(file.getModificationTime()) >= since_ms]
            texts = [
                commit_text(self._spark, self.path, number)
                for number in recent[-RECENT_COMMITS_MAX:]
                if number <= version
            ]
        except JAVA_ERRORS as error:
            raise explain_target(error, path=self.path, doing="reading the newest commits") from error
        return sum(map(is_foreign_rewrite, texts))

    def _check_laid_out(self, after: int, version: int) -> None:
        """Compare the columns of a version with those of the attempt: a listing has no foreign commits before it."""
        for number in range(after + 1, version + 1):
            try:
                redefined = is_redefinition(commit_text(self._spark, self.path, number))
            except JAVA_ERRORS as error:
                if not is_a(error, "FileNotFoundException"):
                    raise explain_target(error, path=self.path, doing=f"reading version {number}") from error
                redefined = True  # the log was cleaned
            if redefined:
                raise ColumnsFollowedError(f"version {number} of {self.path} may have other columns or features.")
        self._laid_out_at = version

    def _scope_at(self, version: int) -> tuple[FillScope, Mapping[str, int]]:
        """Return the rows to fill, and the versions that added files with new rows only, by path."""
        since, appended = self._writers.upto(version)
        return replace(self._fill_scope(), writers_since=since), appended

    def _files_at(self, version: int, appended: Mapping[str, int]) -> list[LiveFile]:
        try:
            files = files_at(self._spark, self.path, version, nulls_of=())
        except LOG_ERRORS as error:
            raise explain_target(error, path=self.path, doing="reading the files of the table") from error
        columns = self._physical_names()
        return [live_file(file, columns, appended) for file in files]

    def _physical_names(self) -> dict[str, str]:
        """Return the physical name of each column to fill, also of one that the table does not have yet."""
        schema = self._table.schema
        return {
            name: physical_name(schema[name]) if name in schema.names else name for name in self._expressions.values
        }

    def left_to_fill(self, version: int, files: Sequence[LoggedFile]) -> list[int]:
        """See `ports.sink.LiveTarget`."""
        scope, appended = self._scope_at(version)
        columns = self._physical_names()
        states = (scope.state(live_file(file, columns, appended)) for file in files)
        return [number for number, state in enumerate(states) if state is FillState.TO_DO]

    def files_to_fill(self, version: int) -> FilledFiles:
        """See `ports.sink.LiveTarget`."""
        return self._compared(version, {FillState.OF_WRITERS})

    def filled_files(self, version: int) -> FilledFiles:
        """See `ports.sink.LiveTarget`."""
        return self._compared(version, {FillState.OF_WRITERS, FillState.TO_DO})

    def _compared(self, version: int, left_out: set[FillState]) -> FilledFiles:
        scope, appended = self._scope_at(version)
        files = [file for file in self._files_at(version, appended) if scope.state(file) not in left_out]
        originals = [original_of(file, scope) for file in files]
        try:
            left = existing(self._spark, self.path, (original[0] for original in originals if original is not None))
        except JAVA_ERRORS as error:
            raise explain_target(error, path=self.path, doing="listing the files that were replaced") from error
        after = tuple(map(action_now, files))
        before = (
            original[1] if original is not None and original[0] in left else action
            for original, action in zip(originals, after, strict=True)
        )
        return FilledFiles(after, tuple(before))
