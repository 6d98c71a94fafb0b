"""A Delta table as a target: made when missing, checked before the first write, filled by staged files and MERGE.

Staged files are plain Parquet: what Delta would enforce or convert on its way is guarded here, value by value
(`NOT NULL`, the key), or refused by `checks` before anything is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
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
from backfill_core.log_shipping.schema_changes import Target
from backfill_core.log_shipping.target_files import TargetFiles
from backfill_core.protocol.work import StagedFile
from backfill_core.transfer.facts import TableFacts
from backfill_spark.delta.log import LOG_ERRORS, LoggedTable
from backfill_spark.delta.spark_internals import named_files
from backfill_spark.delta.stored_values import NOT_NULL_HINT, StoredValues
from backfill_spark.delta.table_facts import physical_type
from backfill_spark.jvm.errors import JAVA_ERRORS, first_line, whole_text
from backfill_spark.jvm.failures import while_staging
from backfill_spark.jvm.gateway import java
from backfill_spark.rows.columns import by_folder, nullable, quoted, unused
from backfill_spark.rows.write_modes import WriteMode
from backfill_spark.shipping.layout import carried_properties, check_followed
from backfill_spark.shipping.target_log import TargetLog
from backfill_spark.sinks.delta import checks, dictionaries, new_table
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.create import check_known, create_table, made_with, name_table, planned_table
from backfill_spark.sinks.delta.failures import BEGIN_ANEW, explain_job, explain_making, explain_target, may_be_others
from backfill_spark.sinks.delta.folder import TargetFolder, qualified
from backfill_spark.sinks.delta.row_changes import drop_rows, merge_rows
from backfill_spark.sinks.delta.staging import PART, StagingFolder, part_of
from backfill_spark.sinks.delta.table import TargetTable, read_table

DOMAIN_FEATURE = "domainMetadata"
MADE_MAX = 3
"""Times that a table is made or looked for, when others make it too."""


class DeltaSink:
    """One target for one job. Safe to stage from several threads; one MERGE at a time."""

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
        job_id: str,
        alone: bool = False,
    ) -> None:
        """Take the target's part of the spec; nothing is read or written yet."""
        self._spark = spark
        self._jvm = java(spark)
        self.path = path.rstrip("/")
        self._name = table
        self._mode = write_mode
        self._key = key
        self._partition_by = partition_by
        self._cluster_by = cluster_by
        self._properties = dict(properties or {})
        self._existing_rows = existing_rows
        self.job_hash = hashlib.sha256(job_id.encode()).hexdigest()[:12]
        self._staging = StagingFolder(spark, self.path, self.job_hash)
        self._folder = TargetFolder(spark, self.path, staging=self._staging.name)
        self._dictionaries = dictionaries.Dictionaries()
        self._known: TargetTable | None = None
        self._alone, self._log = alone, TargetLog(spark, self.path)
        self._source: LoggedTable | None = None

    # ------------------------------------------------------------------ checks
    def committer(self, *, app_id: str, domain: str) -> DeltaCommitter:
        """See `ports.sink.Sink`."""
        return DeltaCommitter(self._spark, self.path, app_id=app_id, domain=domain, alone=self._alone)

    def exists(self) -> bool:
        """Is there a Delta table?"""
        return self._look() is not None

    def check(self, schema: StructType, *, source_path: str | None, has_state: bool) -> None:
        """Refuse a target that cannot be filled, before anything is written.

        Raises:
            TargetIsSourceError, KeyInvalidError, PermissionDeniedError, TargetNotEmptyError,
            TargetSchemaMismatchError, UnsupportedTargetFeatureError: see each.
        """
        if source_path is not None:
            checks.check_apart(qualified(self._spark, source_path), qualified(self._spark, self.path))
        upserts = self._mode.merges
        if upserts:
            checks.check_key(schema, self._key)
        self._folder.check_writable()
        wanted = self._wanted(schema)
        checks.check_layout(
            wanted, partition_by=self._partition_by, cluster_by=self._cluster_by, follows=self._source is not None
        )
        table = self._look()
        if table is None:
            what = "spec.target.delta.properties"
            checks.check_properties(what, self._properties, upserts=upserts)
            if upserts:
                checks.check_merge(what, wanted.names, made_with(self._properties, deletion_vectors=True))
            check_known(self._spark, self._properties)
            new_table.check_new(
                wanted, partition_by=self._partition_by, cluster_by=self._cluster_by, properties=self._properties
            )
            self._folder.check_foreign_files()
            return
        checks.check_table(table, upserts=upserts)
        if self._source is not None:
            check_followed(table.path, table.partitions, table.properties, self._source)
        if upserts:
            checks.check_merge(table.path, table.schema.names, table.properties)
        checks.check_schema(wanted, table.schema)
        if not has_state and self._existing_rows == "Refuse" and self._has_rows():
            raise TargetNotEmptyError(
                f"{self.path} has rows and no state of this job.",
                hint="Use an empty target"
                + ("." if upserts else ", or set spec.target.delta.existingRows: Keep to add to what is there."),
            )

    def _has_rows(self) -> bool:
        return self._spark.read.format("delta").load(self.path).limit(1).count() > 0

    def _wanted(self, schema: StructType) -> StructType:
        return self._mode.target_schema(schema)

    # ------------------------------------------------------------------ making
    def prepare(self, schema: StructType) -> None:
        """Make the table when it is missing, and look at it as it is now.

        Raises:
            InvalidSpecError: Delta refuses the table.
            UnsupportedTargetFeatureError, TargetSchemaMismatchError: another writer made another one just now.
            PermissionDeniedError, StorageFullError, TransientError: the storage refused.
        """
        self._known = self._look()
        if self._known is None:
            self._known = self._made(schema)
        elif self._name is not None and not self._spark.catalog.tableExists(self._name):
            # Killed between the two, a table has its first commit and no name.
            name_table(self._spark, self.path, self._name)

    def _made(self, schema: StructType) -> TargetTable:
        """Make the table, or find the one that another driver makes at the same moment: each may undo the other's begin."""
        wanted = self._wanted(schema)
        failure: Exception | None = None
        for _ in range(MADE_MAX):
            try:
                self._folder.clear()
                create_table(
                    self._spark,
                    self.path,
                    self._name,
                    wanted,
                    partition_by=self._partition_by,
                    cluster_by=self._cluster_by,
                    properties=self._properties,
                    deletion_vectors=self._mode.merges,
                    source=self._source,
                )
            except JAVA_ERRORS as error:
                failure = error
            found = self._look()
            if found is not None:
                checks.check_table(found, upserts=self._mode.merges)
                checks.check_schema(wanted, found.schema)
                return found
            if failure is not None and not may_be_others(failure):
                break
        if failure is None:
            raise TargetGoneError(f"the target {self.path} was dropped as soon as it was made.", hint=BEGIN_ANEW)
        raise explain_making(failure, path=self.path) from failure

    def _look(self) -> TargetTable | None:
        try:
            return read_table(self._spark, self.path)
        except LOG_ERRORS as error:
            raise explain_target(error, path=self.path, doing="the look at the target") from error

    @property
    def _table(self) -> TargetTable:
        if self._known is None:
            self._known = self._look()
        assert self._known is not None
        return self._known

    def table_facts(self, schema: StructType) -> TableFacts:
        """See `SupportsCopies`."""
        return self._planned(schema).facts(self._key if self._mode.merges else (), ships=self._alone)

    def planned(self, schema: StructType) -> PlannedTarget:
        """See `DescribesTarget`."""
        return self._planned(schema).described(() if self.exists() else self._cluster_by)

    def _planned(self, schema: StructType) -> TargetTable:
        table = self._known or self._look()
        if table is not None:
            return table
        made = made_with(self._properties, deletion_vectors=self._mode.merges)
        return planned_table(self.path, self._wanted(schema), self._partition_by, made)

    def follow(self, layout: LoggedTable) -> None:
        """See `SupportsShipping`."""
        self._source = layout
        self._partition_by = layout.partitions
        self._properties = {**carried_properties(layout), **self._properties}

    def columns(self) -> Target:
        """See `SupportsShipping`."""
        return (self._look() or self._table).columns()  # other writers may have changed them

    def with_columns(self, schema: str) -> DeltaSink:
        """See `SupportsShipping`."""
        other = copy(self)
        other._known = self._table.with_columns(schema)  # noqa: SLF001 - a copy of this one
        return other

    def target_files(self) -> TargetFiles:
        """See `SupportsShipping`."""
        try:
            return self._log.newest()
        except LOG_ERRORS as error:
            raise explain_target(error, path=self.path, doing="the look at the files of the target") from error

    def folder_of(self, attempt: int, work_id: int, segment: int | None = None) -> str:
        """See `SupportsCopies`."""
        return self._staging.of_work(attempt, work_id, segment).removeprefix(f"{self.path}/")

    # ------------------------------------------------------------------ staging
    @property
    def staging(self) -> str:
        """Folder of everything this job ever stages."""
        return self._staging.path

    def stage(self, rows: DataFrame, *, attempt: int, work_id: int) -> list[str]:
        """Write rows as Parquet files that no reader sees; return their absolute paths.

        One Spark job. Columns are the target's, under their physical names where it maps them; those that `rows`
        does not have are null. The job fails at a null where the target or its key takes none: `explain_failure`.
        """
        return self._write(rows, [], self._staging.of_work(attempt, work_id))

    def stage_of(self, rows: DataFrame, folder: str, *, attempt: int, work_id: int) -> list[str]:
        """See `SupportsShipping`."""
        return self._write(rows, [], f"{self._staging.of_work(attempt, work_id)}/{folder}")

    def stage_segments(self, rows: DataFrame, *, label: str, attempt: int, work_id: int) -> dict[int, list[str]]:
        """Write as `stage`, the rows of each value of column `label` into files of their own; return these by value.

        One Spark job without a sort: a task holds a file of each part open (`session.py`). A part is a folder below
        that of the work, above those of the target's partitions, and under no name that one of these has.
        """
        name = unused(PART, [self._table.physical(field) for field in self._table.schema])
        paths = self._write(rows, [F.col(quoted(label)).alias(name)], self._staging.of_work(attempt, work_id))
        found: dict[int, list[str]] = {}
        for path in paths:
            found.setdefault(part_of(path, attempt, work_id), []).append(path)
        return found

    def _write(self, rows: DataFrame, above: list[Column], folder: str) -> list[str]:
        """Write the columns of the target, in folders by `above` (its aliases) and by the target's partitions."""
        table = self._table
        chosen = rows.select(*above, *self.stored_columns(rows))
        folders = chosen.columns[: len(above)] + [table.physical(table.schema[name]) for name in table.partitions]
        spared = self._dictionaries.next_write()
        chosen = by_folder(chosen, folders)
        # The names of folders are values: of a timestamp in the zone that the log means, whatever the session's is.
        writer = chosen.write.mode("overwrite").option("timeZone", "UTC").options(**dictionaries.options(spared or ()))
        with while_staging(folder):  # nothing of the target is read here
            (writer.partitionBy(*folders) if folders else writer).parquet(folder)
            files = self._staging.files(folder)
            if files and spared is None:
                self._dictionaries.learn(*dictionaries.read_chunks(self._spark, self._staging.uri(files[0])))
        return files

    def stored_columns(self, rows: DataFrame, only: Collection[str] | None = None) -> list[Column]:
        """See `SupportsCopies`."""
        values, names = self._values, {one.lower(): one for one in rows.columns}
        fields = [field for field in self._table.schema if only is None or field.name in only]
        return [self._column(values, field, names.get(field.name.lower())) for field in fields]

    def _column(self, values: StoredValues, field: StructField, name: str | None) -> Column:
        column = values.guarded(field, F.lit(None) if name is None else values.stored(field, F.col(quoted(name))))
        column = values.in_folders(field, column)
        physical = physical_type(field.dataType) if self._table.mapped else nullable(field.dataType)
        return column.cast(physical).alias(self._table.physical(field))

    def as_stored(self, rows: DataFrame) -> DataFrame:
        """Return rows as the target keeps them: an empty text in a partition column is null, but in a replica. Lazy."""
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
        """Refuse staged files that are gone or changed: a commit that names them would lose their rows."""
        try:
            self._staging.check(files)
        except JAVA_ERRORS as error:
            raise explain_target(error, path=self.path, doing="the look at the staged files") from error
        except StagedFilesGoneError:
            if self.exists():
                raise
            raise TargetGoneError(f"the target {self.path} was dropped while it was filled.", hint=BEGIN_ANEW) from None

    def staged_by(self, attempt: int, work_id: int) -> list[str]:
        """See `ports.sink.Quarantine`."""
        return self._staging.files(self._staging.of_work(attempt, work_id))

    def discard(self, paths: Sequence[str]) -> None:
        """Remove staged files; those that are gone already are fine."""
        self._staging.discard(paths)

    def discard_work(self, attempt: int, work_id: int) -> None:
        """Remove what one piece of work staged."""
        self._staging.discard_work(attempt, work_id)

    def remove_orphans(self, before_attempt: int) -> int:
        """Remove files that earlier attempts staged and never committed; return how many folders went."""
        return self._staging.remove_orphans(before_attempt, lambda: named_files(self._spark, self.path))

    # ------------------------------------------------------------------ merging
    def merge(self, net: DataFrame, *, app_id: str, txn_version: int) -> None:
        """Bring net changes (target columns and `__backfill_delete`) into the table, under a transaction version.

        The version is in the sequence of the seals: a newer attempt's seal makes Delta refuse this commit. Deletion
        vectors keep it from rewriting untouched rows.
        """
        merge_rows(self._spark, self._table, net, key=self._key, app_id=app_id, txn_version=txn_version)

    def drop_rows(self, *, app_id: str, txn_version: int) -> None:
        """See `ports.sink.SupportsStartOver`."""
        drop_rows(self._spark, self._table, app_id=app_id, txn_version=txn_version)

    def at(self, version: int) -> DataFrame:
        """Return the rows of the target as of one of its versions; lazy."""
        return self._spark.read.format("delta").option("versionAsOf", version).load(self.path)

    # ------------------------------------------------------------------ releasing
    def drop_feature(self) -> None:
        """See `ports.sink.KeepsFeatures`."""
        # Row tracking and clustering need it too: then Delta refuses, and the table is as good as before.
        with suppress(PySparkException):
            self._spark.sql(f"ALTER TABLE delta.{quoted(self.path)} DROP FEATURE {DOMAIN_FEATURE}")

    def features(self) -> tuple[str, ...]:
        """See `ports.sink.KeepsFeatures`."""
        detail = self._spark.sql(f"DESCRIBE DETAIL delta.{quoted(self.path)}").first()
        assert detail is not None
        return tuple(sorted(detail["tableFeatures"] or ()))

    # ------------------------------------------------------------------ failures
    def explain_failure(self, error: Exception) -> BackfillError | None:
        """Say in our words why a row does not fit the target, or None when that was not the matter."""
        text = whole_text(error)
        if "DELTA_NOT_NULL_CONSTRAINT_VIOLATED" in text:
            return TargetSchemaMismatchError(
                f"the transform yields a null where the target takes none: {first_line(error)}", hint=NOT_NULL_HINT
            )
        if StoredValues.raised(text):
            return self._values.explain(text)
        return explain_job(self._spark, error, path=self.path)
