"""A Delta table as a target: created if missing, checked before the first write, filled by staged files and MERGE.

Staged files are plain Parquet. So the sink enforces constraints itself, value by value (`NOT NULL`, the key), and `checks`
rejects tables with other constraints before anything is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from backfill_api.status.plan import PlannedTarget
from backfill_core.errors import (
    BackfillError,
    StagedFilesGoneError,
    TargetGoneError,
    TargetNotEmptyError,
    TargetSchemaMismatchError,
)
from backfill_core.file_copies.facts import TableFacts
from backfill_core.log_shipping.schema_changes import Target
from backfill_core.log_shipping.target_files import TargetFiles
from backfill_core.positions.change_parts import KeyPart
from backfill_core.protocol.work import StagedFile
from backfill_spark.delta.log import LOG_ERRORS, LoggedTable
from backfill_spark.delta.spark_internals import named_files
from backfill_spark.delta.stored_values import NOT_NULL_HINT, StoredValues
from backfill_spark.delta.table_facts import physical_type
from backfill_spark.delta.types import nullable, quoted
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line, whole_text
from backfill_spark.jvm.failures import while_staging
from backfill_spark.log_shipping.layout import carried_properties, check_followed
from backfill_spark.log_shipping.target_log import TargetLog
from backfill_spark.rows.columns import by_folder, unused
from backfill_spark.rows.write_modes import WriteMode
from backfill_spark.sinks.delta import checks, dictionaries, new_table
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.create import check_known, create_table, ensure_name, made_with, planned_table
from backfill_spark.sinks.delta.failures import START_AGAIN, explain_job, explain_making, explain_target, may_be_others
from backfill_spark.sinks.delta.folder import TargetFolder, qualified
from backfill_spark.sinks.delta.row_changes import drop_rows, merge_rows
from backfill_spark.sinks.delta.staging import PART, StagingFolder, part_of
from backfill_spark.sinks.delta.table import TargetTable, read_table

DOMAIN_FEATURE = "domainMetadata"
MADE_MAX = 3
"""Largest number of attempts to create or find a table that another driver creates too."""


class DeltaSink:
    """One target for one job. Staging is thread-safe; only one MERGE may run at a time."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        *,
        table: str | None = None,
        write_mode: WriteMode,
        key: tuple[str, ...],
        partition_by: tuple[str, ...] = (),
        cluster_by: tuple[str, ...] = (),
        properties: Mapping[str, str] | None = None,
        existing_rows: str = "Refuse",
        filtered_rows: str = "Rewritten",
        job_id: str,
        alone: bool = False,
    ) -> None:
        """Store the target's part of the spec; reads and writes nothing yet."""
        self._spark = spark
        self.path = path.rstrip("/")
        self._name, self._mode, self._key = table, write_mode, key
        self._partition_by, self._cluster_by = partition_by, cluster_by
        self._properties = dict(properties or {})
        self._existing_rows, self._hides_rows = existing_rows, filtered_rows == "Hidden"
        self.job_hash = hashlib.sha256(job_id.encode()).hexdigest()[:12]
        self._staging = StagingFolder(spark, self.path, self.job_hash)
        self._folder = TargetFolder(spark, self.path, staging=self._staging.name)
        self._dictionaries, self._alone, self._log = dictionaries.Dictionaries(), alone, TargetLog(spark, self.path)
        self._cached: TargetTable | None = None
        self._source: LoggedTable | None = None

    # ------------------------------------------------------------------ checks
    def committer(self, *, app_id: str, domain: str) -> DeltaCommitter:
        """See `ports.sink.Sink`."""
        return DeltaCommitter(self._spark, self.path, app_id=app_id, domain=domain, alone=self._alone)

    def exists(self) -> bool:
        """Return True if the target is an existing Delta table."""
        return self._read() is not None

    def check(self, schema: StructType, *, source_path: str | None, has_state: bool) -> None:
        """Reject a target that cannot be filled, before anything is written.

        Raises:
            TargetIsSourceError, KeyInvalidError, PermissionDeniedError, TargetNotEmptyError,
            TargetSchemaMismatchError, UnsupportedTargetFeatureError: see these classes.
        """
        if source_path is not None:
            checks.check_apart(qualified(self._spark, source_path), qualified(self._spark, self.path))
        upserts = self._mode.merges
        if upserts:
            checks.check_key(schema, self._key)
        self._folder.check_writable()
        columns = self._mode.target_schema(schema)
        checks.check_layout(
            columns, partition_by=self._partition_by, cluster_by=self._cluster_by, follows=self._source is not None
        )
        table = self._read()
        if self._hides_rows:
            checks.check_hides(table or self._planned(schema))
        if table is None:
            what = "spec.target.delta.properties"
            checks.check_properties(what, self._properties, upserts=upserts)
            if upserts:
                checks.check_merge(what, columns.names, made_with(self._properties, deletion_vectors=True))
            check_known(self._spark, self._properties)
            new_table.check_new(
                columns, partition_by=self._partition_by, cluster_by=self._cluster_by, properties=self._properties
            )
            self._folder.check_foreign_files()
            return
        checks.check_table(table, upserts=upserts)
        if self._source is not None:
            check_followed(table.path, table.partitions, table.properties, self._source)
        if upserts:
            checks.check_merge(table.path, table.schema.names, table.properties)
        checks.check_schema(columns, table.schema)
        self._check_rows(begins=not has_state)

    def _check_rows(self, *, begins: bool) -> None:
        """Reject rows that a job which begins must not find."""
        if begins and self._existing_rows == "Refuse" and self._has_rows():
            more = ", or set spec.target.delta.existingRows: Keep to keep the existing rows"
            hint = f"Use an empty target{'' if self._mode.merges else more}."
            raise TargetNotEmptyError(f"{self.path} has rows, but no state of this job.", hint=hint)

    def _has_rows(self) -> bool:
        return self._spark.read.format("delta").load(self.path).limit(1).count() > 0

    # ------------------------------------------------------------------ creation
    def prepare(self, schema: StructType) -> None:
        """Create the table if it is missing, and read its newest version.

        Raises:
            InvalidSpecError: Delta rejects the table, or the catalog its name.
            UnsupportedTargetFeatureError, TargetSchemaMismatchError: another writer has just created a different table.
            PermissionDeniedError, StorageFullError, TransientError: the storage failed.
        """
        self._cached = self._read()
        if self._cached is None:
            self._cached = self._created(schema)
        if self._name is not None:
            # A driver that was killed between the two steps has created the table, but not its name.
            ensure_name(self._spark, self.path, self._name)

    def _created(self, schema: StructType) -> TargetTable:
        """Create the table, or return one that another driver creates at the same time; both may remove the other's log."""
        columns = self._mode.target_schema(schema)
        failure: Exception | None = None
        for _ in range(MADE_MAX):
            try:
                self._folder.clear()
                create_table(
                    self._spark,
                    self.path,
                    self._name,
                    columns,
                    partition_by=self._partition_by,
                    cluster_by=self._cluster_by,
                    properties=self._properties,
                    deletion_vectors=self._mode.merges or self._hides_rows,
                    source=self._source,
                )
            except JAVA_ERRORS as error:
                failure = error
            table = self._read()
            if table is not None:
                checks.check_table(table, upserts=self._mode.merges)
                checks.check_schema(columns, table.schema)
                return table
            if failure is not None and not may_be_others(failure):
                break
        if failure is None:
            raise TargetGoneError(f"the target {self.path} was dropped directly after its creation.", hint=START_AGAIN)
        raise explain_making(failure, path=self.path) from failure

    def _read(self) -> TargetTable | None:
        try:
            return read_table(self._spark, self.path)
        except LOG_ERRORS as error:
            raise explain_target(error, path=self.path, doing="reading the target") from error

    @property
    def _table(self) -> TargetTable:
        if self._cached is None:
            self._cached = self._read()
        assert self._cached is not None
        return self._cached

    def table_facts(self, schema: StructType) -> TableFacts:
        """See `SupportsCopies`."""
        return self._planned(schema).facts(self._key if self._mode.merges else (), ships=self._alone)

    def planned(self, schema: StructType) -> PlannedTarget:
        """See `DescribesTarget`."""
        return self._planned(schema).described(() if self.exists() else self._cluster_by)

    def _planned(self, schema: StructType) -> TargetTable:
        table = self._cached or self._read()
        if table is not None:
            return table
        properties = made_with(self._properties, deletion_vectors=self._mode.merges or self._hides_rows)
        return planned_table(self.path, self._mode.target_schema(schema), self._partition_by, properties)

    def follow(self, layout: LoggedTable) -> None:
        """See `SupportsShipping`."""
        self._source = layout
        self._partition_by = layout.partitions
        self._properties = {**carried_properties(layout), **self._properties}

    def columns(self) -> Target:
        """See `SupportsShipping`."""
        return (self._read() or self._table).columns()  # other writers may have changed them

    def with_columns(self, schema: str) -> DeltaSink:
        """See `SupportsShipping`."""
        other = copy(self)
        other._cached = self._table.with_columns(schema)  # noqa: SLF001 - a copy of this one
        return other

    def target_files(self, source_paths: Callable[[], Iterable[str]]) -> TargetFiles:
        """See `SupportsShipping`."""
        try:
            return self._log.newest(source_paths)
        except LOG_ERRORS as error:
            raise explain_target(error, path=self.path, doing="reading the files of the target") from error

    def folder_of(self, attempt: int, work_id: int, segment: int | None = None) -> str:
        """See `SupportsCopies`."""
        return self._staging.of_work(attempt, work_id, segment).removeprefix(f"{self.path}/")

    # ------------------------------------------------------------------ staging
    @property
    def staging(self) -> str:
        """Folder of all staged files of this job."""
        return self._staging.path

    def stage(self, rows: DataFrame, *, attempt: int, work_id: int) -> list[str]:
        """Write rows as Parquet files that no reader sees; return their absolute paths.

        One Spark job. Columns are the target's, with physical names if it has column mapping; columns that `rows` lacks are null.
        The job fails at a null that the target or its key does not allow: `explain_failure`.
        """
        return self._write(rows, [], self._staging.of_work(attempt, work_id))

    def stage_of(self, rows: DataFrame, folder: str, *, attempt: int, work_id: int) -> list[str]:
        """See `SupportsShipping`."""
        return self._write(rows, [], f"{self._staging.of_work(attempt, work_id)}/{folder}")

    def stage_segments(self, rows: DataFrame, *, label: str, attempt: int, work_id: int) -> dict[int, list[str]]:
        """Write rows like `stage`, into separate files for each value of column `label`; return the files by value.

        One Spark job without a sort: a task keeps one file per part open (`session.py`). Each part is a folder between that of
        the work and those of the target's partitions, and its name differs from their columns.
        """
        name = unused(PART, [self._table.physical(field) for field in self._table.schema])
        paths = self._write(rows, [F.col(quoted(label)).alias(name)], self._staging.of_work(attempt, work_id))
        parts: dict[int, list[str]] = {}
        for path in paths:
            parts.setdefault(part_of(path, attempt, work_id), []).append(path)
        return parts

    def _write(self, rows: DataFrame, above: list[Column], folder: str) -> list[str]:
        """Write the columns of the target into folders by the columns `above`, and by the target's partitions below them."""
        table = self._table
        chosen = rows.select(*above, *self.stored_columns(rows))
        folders = chosen.columns[: len(above)] + [table.physical(table.schema[name]) for name in table.partitions]
        spared = self._dictionaries.next_write()
        chosen = by_folder(chosen, folders)
        # Folder names are values: timestamps must be in UTC like in the log, not in the session's time zone.
        writer = chosen.write.mode("overwrite").option("timeZone", "UTC").options(**dictionaries.options(spared or ()))
        with while_staging(folder):  # reads no file of the target
            (writer.partitionBy(*folders) if folders else writer).parquet(folder)
            files = self._staging.files(folder)
            if files and spared is None:
                self._dictionaries.learn(*dictionaries.read_chunks(self._spark, self._staging.uri(files[0])))
        return files

    def stored_columns(self, rows: DataFrame, only: Collection[str] | None = None) -> list[Column]:
        """See `SupportsCopies`."""
        values, names = self._values, {name.lower(): name for name in rows.columns}
        fields = [field for field in self._table.schema if only is None or field.name in only]
        return [self._column(values, field, names.get(field.name.lower())) for field in fields]

    def _column(self, values: StoredValues, field: StructField, name: str | None) -> Column:
        column = values.guarded(field, F.lit(None) if name is None else values.stored(field, F.col(quoted(name))))
        column = values.in_folders(field, column)
        physical = physical_type(field.dataType) if self._table.mapped else nullable(field.dataType)
        return column.cast(physical).alias(self._table.physical(field))

    def as_stored(self, rows: DataFrame) -> DataFrame:
        """Return rows as the target stores them: empty strings in partition columns become null, except in replicas. Lazy."""
        values, fields = self._values, {field.name.lower(): field for field in self._table.schema}
        changed = {
            name: values.stored(fields[name.lower()], F.col(quoted(name)))
            for name in rows.columns
            if name.lower() in fields and values.is_partition_text(fields[name.lower()])
        }
        if not changed:
            return rows
        return rows.select(*(changed.get(name, F.col(quoted(name))).alias(name) for name in rows.columns))

    @property
    def _values(self) -> StoredValues:
        table, key = self._table, self._key if self._mode.merges else ()
        return StoredValues(table.schema, table.partitions, key, keeps_empty_texts=self._alone)

    def check_staged(self, files: Sequence[StagedFile]) -> None:
        """Reject staged files that are gone or changed, because their commit would lose rows."""
        try:
            self._staging.check(files)
        except JAVA_ERRORS as error:
            raise explain_target(error, path=self.path, doing="checking the staged files") from error
        except StagedFilesGoneError:
            if self.exists():
                raise
            raise TargetGoneError(
                f"the target {self.path} was dropped while it was filled.", hint=START_AGAIN
            ) from None

    def newest_attempt(self) -> int:
        """See `ports.sink.KeepsAttempts`."""
        return self._staging.newest_attempt()

    def staged_by(self, attempt: int, work_id: int) -> list[str]:
        """See `ports.sink.Quarantine`."""
        return self._staging.files(self._staging.of_work(attempt, work_id))

    def discard(self, paths: Sequence[str]) -> None:
        """Remove staged files; missing files are ignored."""
        self._staging.discard(paths)

    def discard_work(self, attempt: int, work_id: int) -> None:
        """Remove the staged files of one piece of work."""
        self._staging.discard_work(attempt, work_id)

    def remove_orphans(self, before_attempt: int) -> int:
        """Remove files that earlier attempts staged and never committed; return the number of removed folders."""
        return self._staging.remove_orphans(before_attempt, lambda: named_files(self._spark, self.path))

    # ------------------------------------------------------------------ merging
    def merge(self, net: DataFrame, *, app_id: str, txn_version: int, part: KeyPart | None = None) -> None:
        """Merge net changes (target columns and `__backfill_delete`) into the table, under a transaction version.

        The version belongs to the sequence of the seals: after a newer attempt's seal, Delta rejects this commit. With deletion
        vectors, it does not rewrite unchanged rows.
        """
        merge_rows(self._spark, self._table, net, key=self._key, app_id=app_id, txn_version=txn_version, part=part)

    def drop_rows(self, *, app_id: str, txn_version: int) -> None:
        """See `ports.sink.SupportsStartOver`."""
        drop_rows(self._spark, self._table, app_id=app_id, txn_version=txn_version)

    def at(self, version: int) -> DataFrame:
        """Return the rows of one version of the target; lazy."""
        return self._spark.read.format("delta").option("versionAsOf", version).load(self.path)

    # ------------------------------------------------------------------ releasing
    def drop_feature(self) -> None:
        """See `ports.sink.KeepsFeatures`."""
        # Row tracking and clustering need the feature too: then Delta rejects the statement, and the table is unchanged.
        with suppress(PySparkException):
            self._spark.sql(f"ALTER TABLE delta.{quoted(self.path)} DROP FEATURE {DOMAIN_FEATURE}")

    def features(self) -> tuple[str, ...]:
        """See `ports.sink.KeepsFeatures`."""
        detail = self._spark.sql(f"DESCRIBE DETAIL delta.{quoted(self.path)}").first()
        assert detail is not None
        return tuple(sorted(detail["tableFeatures"] or ()))

    # ------------------------------------------------------------------ failures
    def explain_failure(self, error: Exception) -> BackfillError | None:
        """Translate the error of a row that does not fit the target; `None` for errors that the target did not cause."""
        text = whole_text(error)
        if "DELTA_NOT_NULL_CONSTRAINT_VIOLATED" in text:
            return TargetSchemaMismatchError(
                f"the transform yields a null, which the target does not allow: {first_line(error)}", hint=NOT_NULL_HINT
            )
        if StoredValues.raised(text):
            return self._values.explain(text)
        return explain_job(self._spark, error, path=self.path)
