"""A Delta table as a target: made when missing, checked before the first write, filled by staged files and MERGE.

Staged files lie in a plain folder of the table: VACUUM removes there what no commit names, and keeps the rest.
Under a leading underscore it would never look, and files replaced by OPTIMIZE would leak for ever.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from backfill_core.errors import (
    KeyInvalidError,
    PermissionDeniedError,
    TargetIsSourceError,
    TargetNotEmptyError,
    TargetSchemaMismatchError,
    UnsupportedTargetFeatureError,
)
from backfill_spark.changes import DELETE
from backfill_spark.sinks.delta.create import create_table, with_changelog_columns
from backfill_spark.sources.delta.log import nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSED_METADATA = {
    "delta.identity.start": "identity columns",
    "delta.generationExpression": "generated columns",
    "delta.invariants": "column invariants",
}
STAGED_FOLDER = re.compile(r"/a(\d+)/s\d+(?:/|$)")


class DeltaSink:
    """One target for one job. Safe to stage from several threads; one MERGE at a time."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        *,
        write_mode: str,
        key: tuple[str, ...],
        partition_by: tuple[str, ...] = (),
        cluster_by: tuple[str, ...] = (),
        properties: Mapping[str, str] | None = None,
        existing_rows: str = "Refuse",
        job_id: str,
    ) -> None:
        """Take what the spec says of the target; nothing is read or written yet."""
        self._spark = spark
        self._jvm: Any = spark._jvm
        self.path = path.rstrip("/")
        self._write_mode = write_mode
        self._key = key
        self._partition_by = partition_by
        self._cluster_by = cluster_by
        self._properties = dict(properties or {})
        self._existing_rows = existing_rows
        self.job_hash = hashlib.sha256(job_id.encode()).hexdigest()[:12]
        conf = spark._jsc.hadoopConfiguration()  # type: ignore[union-attr]
        self._fs = self._jvm.org.apache.hadoop.fs.Path(self.path).getFileSystem(conf)
        self._schema: StructType | None = None
        self._partitions: tuple[str, ...] = ()
        self._physical: dict[str, str] = {}

    # ------------------------------------------------------------------ checks
    def exists(self) -> bool:
        """Is there a Delta table?"""
        return bool(self._jvm.io.delta.tables.DeltaTable.isDeltaTable(self._spark._jsparkSession, self.path))

    def check(self, schema: StructType, *, source_path: str, has_state: bool) -> None:
        """Refuse a target that cannot be filled, before anything is written.

        Raises:
            TargetIsSourceError, KeyInvalidError, PermissionDeniedError, TargetNotEmptyError,
            TargetSchemaMismatchError, UnsupportedTargetFeatureError: see each.
        """
        if self._qualified(self.path) == self._qualified(source_path):
            raise TargetIsSourceError(
                f"source and target are the same table, {self.path}.", cure="Change spec.target.delta.path."
            )
        self._check_key(schema)
        self._check_writable()
        wanted = with_changelog_columns(schema) if self._write_mode == "Changelog" else schema
        for column in (*self._partition_by, *self._cluster_by):
            if column not in wanted.names:
                raise TargetSchemaMismatchError(
                    f"spec.target.delta names {column!r}, which the transform does not yield.",
                    cure=nearest(column, wanted.names),
                )
        if not self.exists():
            self._check_foreign_files()
            return
        table = self._spark.read.format("delta").load(self.path)
        self._check_features()
        self._check_schema(wanted, table.schema)
        if not has_state and self._existing_rows == "Refuse" and table.limit(1).count():
            raise TargetNotEmptyError(
                f"{self.path} has rows and no state of this job.",
                cure="Use an empty target, or set spec.target.delta.existingRows: Keep to add to what is there.",
            )

    def _check_key(self, schema: StructType) -> None:
        if self._write_mode != "Upsert":
            return
        if not self._key:
            raise KeyInvalidError("an Upsert target needs a key.", cure="Set spec.source.delta.key.")
        for column in self._key:
            if column not in schema.names:
                raise KeyInvalidError(
                    f"the key column {column!r} is not in what the transform yields.",
                    cure=nearest(column, schema.names),
                )
            if isinstance(schema[column].dataType, MapType | ArrayType | StructType | VariantType):
                raise KeyInvalidError(f"the key column {column!r} is nested.", cure="Use plain columns as key.")

    def _check_writable(self) -> None:
        path = self._jvm.org.apache.hadoop.fs.Path(self.path)
        while path.getParent() is not None and not self._fs.exists(path):
            path = path.getParent()
        action = self._jvm.org.apache.hadoop.fs.permission.FsAction.WRITE
        try:
            self._fs.access(path, action)
        except Exception as error:
            raise PermissionDeniedError(
                f"{path.toString()} is not writable for this user.",
                cure="Grant write access, or choose another target.",
            ) from error

    def _check_foreign_files(self) -> None:
        path = self._jvm.org.apache.hadoop.fs.Path(self.path)
        if self._fs.exists(path) and len(self._fs.listStatus(path)) > 0:
            raise TargetNotEmptyError(
                f"{self.path} holds files and is no Delta table.", cure="Choose an empty or missing folder."
            )

    def _check_features(self) -> None:
        snapshot = self._delta_snapshot()
        metadata = snapshot.metadata()
        mode = metadata.configuration().get("delta.columnMapping.mode")
        if mode.isDefined() and mode.get() == "id":
            raise self._unsupported("column mapping by id")
        constraints = [name for name in self._configuration(metadata) if name.startswith("delta.constraints.")]
        if constraints:
            raise self._unsupported(f"the check constraint {constraints[0].removeprefix('delta.constraints.')}")
        for field in StructType.fromJson(_parse(snapshot.schema().json())):
            for name, words in REFUSED_METADATA.items():
                if name in field.metadata:
                    raise self._unsupported(f"{words} ({field.name})")

    def _unsupported(self, feature: str) -> UnsupportedTargetFeatureError:
        return UnsupportedTargetFeatureError(
            f"{self.path} has {feature}, which a seal cannot honour.", cure="Use a target without it."
        )

    def _check_schema(self, wanted: StructType, table: StructType) -> None:
        theirs = {field.name: field for field in table}
        for field in wanted:
            if field.name not in theirs:
                raise TargetSchemaMismatchError(
                    f"the target has no column {field.name!r}.", cure=nearest(field.name, table.names)
                )
            if _plain(theirs[field.name].dataType) != _plain(field.dataType):
                raise TargetSchemaMismatchError(
                    f"column {field.name!r} is {theirs[field.name].dataType.simpleString()} in the target, "
                    f"the transform yields {field.dataType.simpleString()}.",
                    cure="Cast it in spec.transform.select.",
                )
        for field in table:
            if field.name not in wanted.names and not field.nullable:
                raise TargetSchemaMismatchError(
                    f"column {field.name!r} of the target must not be null, and the transform does not yield it.",
                    cure="Add it to spec.transform.select.",
                )

    def _qualified(self, path: str) -> str:
        hadoop = self._jvm.org.apache.hadoop.fs.Path(path)
        return str(self._fs.makeQualified(hadoop).toString()).rstrip("/")

    # ------------------------------------------------------------------ making
    def prepare(self, schema: StructType) -> None:
        """Make the table when it is missing, and let an existing one hold our state."""
        if not self.exists():
            wanted = with_changelog_columns(schema) if self._write_mode == "Changelog" else schema
            create_table(
                self._spark,
                self.path,
                wanted,
                partition_by=self._partition_by,
                cluster_by=self._cluster_by,
                properties=self._properties,
                deletion_vectors=self._write_mode == "Upsert",
            )
        snapshot = self._delta_snapshot()
        self._schema = StructType.fromJson(_parse(snapshot.schema().json()))
        self._partitions = tuple(_strings(snapshot.metadata().partitionColumns()))
        mode = snapshot.metadata().configuration().get("delta.columnMapping.mode")
        if mode.isDefined() and mode.get() == "name":
            self._physical = {field.name: field.metadata["delta.columnMapping.physicalName"] for field in self._schema}

    def _delta_snapshot(self) -> Any:
        none = self._jvm.scala.Option.empty()
        log = self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._spark._jsparkSession, self.path)
        return log.update(False, none, none)

    def _configuration(self, metadata: Any) -> list[str]:
        keys = metadata.configuration().keys().iterator()
        found = []
        while keys.hasNext():
            found.append(str(keys.next()))
        return found

    # ------------------------------------------------------------------ staging
    @property
    def staging(self) -> str:
        """Folder of everything this job ever stages."""
        return f"{self.path}/backfill-{self.job_hash}"

    def stage(self, rows: DataFrame, *, attempt: int, work_id: int) -> list[str]:
        """Write rows as Parquet files that no reader sees; return their absolute paths.

        One Spark job. Columns are the target's, under their physical names where it maps them.
        """
        assert self._schema is not None
        folder = f"{self.staging}/a{attempt}/s{work_id}"
        columns = [self._column(field.name, field.dataType, rows) for field in self._schema]
        writer = rows.select(*columns).write.mode("overwrite")
        if self._partitions:
            writer = writer.partitionBy(*(self._physical.get(name, name) for name in self._partitions))
        writer.parquet(folder)
        return self._list(folder)

    def _column(self, name: str, data_type: DataType, rows: DataFrame) -> Column:
        there = {one.lower(): one for one in rows.columns}
        column = F.col(f"`{there[name.lower()]}`") if name.lower() in there else F.lit(None)
        physical = _physical_type(data_type) if self._physical else data_type
        return column.cast(physical).alias(self._physical.get(name, name))

    def _list(self, folder: str) -> list[str]:
        found: list[str] = []
        files = self._fs.listFiles(self._jvm.org.apache.hadoop.fs.Path(folder), True)
        while files.hasNext():
            path = str(files.next().getPath().toUri().getPath())
            name = path.rsplit("/", 1)[-1]
            if name.endswith(".parquet") and not name.startswith(("_", ".")):
                found.append(path)
        return sorted(found)

    def discard(self, paths: Sequence[str]) -> None:
        """Remove staged files; those that are gone already are fine."""
        for path in paths:
            self._fs.delete(self._jvm.org.apache.hadoop.fs.Path(path), False)

    def discard_work(self, attempt: int, work_id: int) -> None:
        """Remove what one piece of work staged."""
        self._fs.delete(self._jvm.org.apache.hadoop.fs.Path(f"{self.staging}/a{attempt}/s{work_id}"), True)

    def remove_orphans(self, before_attempt: int) -> int:
        """Remove what earlier attempts staged and never sealed; return how many folders went.

        A folder with any file that the table's current state names (as data, or as removed and not yet
        vacuumed) stays whole: work is sealed whole.
        """
        root = self._jvm.org.apache.hadoop.fs.Path(self.staging)
        if not self._fs.exists(root):
            return 0
        old = [
            status.getPath()
            for status in self._fs.listStatus(root)
            if status.getPath().getName()[:1] == "a" and int(status.getPath().getName()[1:]) < before_attempt
        ]
        if not old:
            return 0
        named = self._named_folders()
        removed = 0
        for attempt in old:
            for work in self._fs.listStatus(attempt):
                name = f"{attempt.getName()}/{work.getPath().getName()}"
                if name not in named:
                    self._fs.delete(work.getPath(), True)
                    removed += 1
            if len(self._fs.listStatus(attempt)) == 0:
                self._fs.delete(attempt, False)
        return removed

    def _named_folders(self) -> set[str]:
        snapshot = self._delta_snapshot()
        prefix = f"backfill-{self.job_hash}/"
        frames = [DataFrame(one.toDF(), self._spark) for one in (snapshot.allFiles(), snapshot.tombstones())]
        names: set[str] = set()
        for frame in frames:
            inside = frame.where(F.col("path").contains(prefix))
            parts = F.regexp_extract("path", rf"{prefix}(a\d+/s\d+)/", 1).alias("work")
            names |= {row["work"] for row in inside.select(parts).distinct().collect()}
        return names

    # ------------------------------------------------------------------ merging
    def merge(self, net: DataFrame, *, app_id: str, txn_version: int) -> None:
        """Bring net changes (target columns and `_delete`) into the table, under a transaction version.

        The version is in the same sequence as the seals', so a newer attempt's seal makes Delta refuse this
        commit, during it and after it. One MERGE; deletion vectors keep it from rewriting untouched rows.
        """
        assert self._schema is not None
        # Settings of a MERGE are a session's, and other threads write too: hence a session of its own.
        session = self._spark.newSession()
        session.conf.set("spark.databricks.delta.write.txnAppId", app_id)
        session.conf.set("spark.databricks.delta.write.txnVersion", str(txn_version))
        session.conf.set("spark.databricks.delta.merge.materializeSource", "none")
        table = self._jvm.io.delta.tables.DeltaTable.forPath(session._jsparkSession, self.path).alias("t")
        on = " AND ".join(f"t.`{column}` = s.`{column}`" for column in self._key)
        names = [field.name for field in self._schema if field.name in net.columns]
        values = self._jvm.java.util.HashMap()
        for name in names:
            values.put(f"`{name}`", f"s.`{name}`")
        source = DataFrame(
            self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(
                session._jsparkSession, net._jdf.queryExecution().analyzed()
            ),
            session,
        )
        (
            table.merge(source._jdf.alias("s"), on)
            .whenMatched(f"s.`{DELETE}`")
            .delete()
            .whenMatched()
            .updateExpr(values)
            .whenNotMatched(f"NOT s.`{DELETE}`")
            .insertExpr(values)
            .execute()
        )

    def at(self, version: int) -> DataFrame:
        """Return the rows of the target as of one of its versions; lazy."""
        return self._spark.read.format("delta").option("versionAsOf", version).load(self.path)


def _plain(data_type: DataType) -> str:
    """Return a type as it is written, without nullability, which differs for no reason that matters here."""
    return data_type.simpleString().lower()


def _physical_type(data_type: DataType) -> DataType:
    """Return a type with the physical names of its nested fields."""
    if isinstance(data_type, StructType):
        result = StructType()
        for field in data_type:
            name = field.metadata.get("delta.columnMapping.physicalName", field.name)
            result.add(name, _physical_type(field.dataType), True)
        return result
    if isinstance(data_type, ArrayType):
        return ArrayType(_physical_type(data_type.elementType), True)
    if isinstance(data_type, MapType):
        return MapType(_physical_type(data_type.keyType), _physical_type(data_type.valueType), True)
    return data_type


def _strings(sequence: Any) -> list[str]:
    return [str(sequence.apply(index)) for index in range(sequence.size())]


def _parse(text: str) -> Any:
    import json

    return json.loads(text)
