"""Access to Delta's internals in Spark (`org.apache.spark.sql.delta`), which are not a stable API; bitmaps are in `vectors`. Kernel has other modules.

Snapshots and lists of files are Java objects; callers only pass them back to this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_core.errors import SessionUnfitError
from backfill_core.log_shipping.actions import UNIQUE_DIGITS
from backfill_core.protocol.events import Head
from backfill_spark.delta.catalog_entry import statement_session
from backfill_spark.delta.properties import check_names_no_place, kept_seconds
from backfill_spark.delta.schemas import check_schema_text
from backfill_spark.jvm.bulk_calls import java_function, java_lines
from backfill_spark.jvm.errors import JAVA_ERRORS, is_a, whole_text
from backfill_spark.jvm.failures import Trouble, log_conditions, trouble_of
from backfill_spark.jvm.gateway import PINNED_THREADS, activated, belongs_to, hadoop_conf, java, java_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.delta.source_file import SourceFile

T = TypeVar("T")

DEFAULTS = "spark.databricks.delta.properties.defaults."
"""Prefix of session settings that become properties of new tables."""


class SparkDeltaLog:
    """Delta's own log of one table. Delta caches it between the jobs of a session, so it may only have an old version."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        """Open the log; Delta may run Spark jobs to rebuild the state of the newest version."""
        self._spark, self._jvm = spark, java(spark)
        self._none = self._jvm.scala.Option.empty()
        self._log = self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(java_session(spark), path)

    @property
    def path(self) -> Any:
        """The table's folder as a Hadoop `Path`."""
        return self._log.dataPath()

    def newest(self, *, version: int, table_id: str) -> Any:
        """Return the snapshot of `version` or a newer one; runs a Spark job only if Delta has cached neither."""
        snapshot = self._log.unsafeVolatileSnapshot()
        if snapshot.version() < version or snapshot.metadata().id() != table_id:
            snapshot = self.updated()
        return snapshot

    def updated(self) -> Any:
        """Return the newest snapshot; a Spark job."""
        return self._log.update(False, self._none, self._none)

    def at(self, version: int) -> Any:
        """Return the snapshot of a version."""
        return self._log.getSnapshotAt(version, self._none, self._none, False)

    def head(self) -> Head:
        """Return the newest version and its commit time; a Spark job."""
        snapshot = self.updated()
        check_schema_text(str(snapshot.metadata().schemaString()))
        properties = self.properties(snapshot)
        check_names_no_place(properties)
        kept_s = kept_seconds(properties.get)
        return Head(int(snapshot.version()), int(snapshot.timestamp()), str(snapshot.metadata().id()), kept_s)

    def added(self, version: int) -> list[str]:
        """Return the `add` action of each file of a version, as a line of a commit, in no order; a Spark job."""
        files = DataFrame(self.at(version).allFiles().toDF(), self._spark)
        # Delta drops `dataChange` when it rebuilds a state; Kernel returns the value of the commit.
        files = files.withColumn("dataChange", F.lit(True))
        rows = files.select(F.to_json(F.struct(F.struct("*").alias("add"))).alias("line")).collect()
        return [str(row["line"]) for row in rows]

    def described(self, version: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the `metaData` and the `protocol` action of a version."""
        snapshot = self.at(version)
        metadata, protocol = (json.loads(str(action.json())) for action in (snapshot.metadata(), snapshot.protocol()))
        return metadata["metaData"], protocol["protocol"]

    def transaction(self, app_id: str) -> int | None:
        """Return the version of an application's newest transaction; a Spark job."""
        version = self.updated().transactions().get(app_id)
        return int(version.get()) if version.isDefined() else None

    def checkpoint(self) -> None:
        """Write a checkpoint of the newest version; Spark jobs."""
        self._log.checkpoint(self.updated(), self._none)

    def clean(self) -> None:
        """Delete expired files of the log if the table's properties allow that; it needs a checkpoint."""
        self._log.doLogCleanup(self.updated(), self._none)

    def properties(self, snapshot: Any) -> dict[str, str]:
        """Return the table properties of a snapshot."""
        pairs = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(snapshot.metadata().configuration())
        return {str(name): str(value) for name, value in dict(pairs).items()}

    def partitions(self, snapshot: Any) -> tuple[str, ...]:
        """Return the partition columns of a snapshot by their logical names."""
        return tuple(
            str(name)
            for name in self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(snapshot.metadata().partitionColumns())
        )

    def frame(self, files: Any, snapshot: Any) -> DataFrame:
        """Return the rows of a `java.util.List` of files with the schema of a snapshot; lazy.

        Delta creates the frame in the active session of this thread, whose settings then apply to partition values and to all
        results from the rows.

        Raises:
            SessionUnfitError: another session is active.
        """
        listed = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(files).toSeq()
        return self._ours(self._log.createDataFrame(snapshot, listed, False, self._none))

    def _ours(self, made: Any) -> DataFrame:
        _check_session(self._spark, made)
        return DataFrame(made, self._spark)

    def changes(self, first: int, last: int) -> DataFrame:
        """Return the change feed of versions, both included, with the metadata of the last one; lazy.

        Delta's public reader uses the metadata of the newest version, which may have other partition columns.
        """
        reader = getattr(getattr(self._jvm.org.apache.spark.sql.delta.commands.cdc, "CDCReader$"), "MODULE$")
        metadata = self._jvm.scala.Option.apply(self.at(last))
        session = java_session(self._spark)
        return self._ours(
            reader.changesToBatchDF(self._log, first, last, session, self._none, metadata, False, self._none)
        )

    def numbered_rows(self, files: Sequence[SourceFile], snapshot: Any) -> tuple[DataFrame, Column, Column]:
        """Return the rows of files that their vectors do not hide, with the schema of a snapshot, in file order; lazy.

        The two columns are each row's file (its index in `files`) and its row index in the file, from 0; hidden rows count.
        """
        rows = self.frame(self._numbered(files), self._with_places(snapshot))
        place = rows.metadataColumn("_metadata")
        return rows, F.unix_millis(place["file_modification_time"]), place["row_index"]

    def split_rows(
        self, files: Sequence[SourceFile], snapshot: Any, split_bytes: int
    ) -> tuple[DataFrame, Column, Column]:
        """Return the rows of files like `numbered_rows`, one split of one file in each task; lazy.

        The two columns are each row's file (its index in `files`) and the offset of the first byte of its split.
        """
        # The settings of the session that makes a frame decide its splits. As a split costs its own size more, no task has two.
        session = statement_session(self._spark)
        session.conf.set("spark.sql.files.maxPartitionBytes", str(split_bytes))
        session.conf.set("spark.sql.files.openCostInBytes", str(split_bytes))
        session.conf.unset("spark.sql.files.maxPartitionNum")
        with activated(session, afterwards=self._spark):
            listed = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(self._numbered(files)).toSeq()
            made = self._log.createDataFrame(snapshot, listed, False, self._none)
        _check_session(session, made)
        plan = made.queryExecution().analyzed()
        rows = DataFrame(
            self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(java_session(self._spark), plan), self._spark
        )
        place = rows.metadataColumn("_metadata")
        return rows, F.unix_millis(place["file_modification_time"]), place["file_block_start"]

    def _numbered(self, files: Sequence[SourceFile]) -> Any:
        """Return a `java.util.List` of actions of files whose modification time is their index."""
        # Spark exposes only the path and the modification time of an action.
        actions = [
            {"path": file.path, "partitionValues": dict(file.partition), "size": file.size_bytes, "modificationTime": index,
             "dataChange": True, "deletionVector": None if file.vector is None else dict(file.vector.fields)}
            for index, file in enumerate(files)
        ]  # fmt: skip
        return delta_actions(self._spark, [json.dumps({"add": action}) for action in actions])

    def _with_places(self, snapshot: Any) -> Any:
        """Return the snapshot with the protocol of a table with deletion vectors; only for those does Delta return row indexes."""
        delta, packages = self._jvm.org.apache.spark.sql.delta, self._jvm.java.util
        vectors = getattr(getattr(delta, "DeletionVectorsTableFeature$"), "MODULE$")
        needed = packages.ArrayList()
        needed.add(delta.actions.Protocol.forTableFeature(vectors))
        protocol = snapshot.protocol().merge(self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(needed).toSeq())
        merged = self._jvm.scala.Option.apply(protocol)
        return delta.DummySnapshot(self._log.logPath(), self._log, snapshot.metadata(), self._none, merged)

    def row_counts(self, files: Sequence[Any], snapshot: Any) -> list[int]:
        """Count the rows of each file, deleted ones included; a Spark job."""
        listed = self._jvm.java.util.ArrayList()
        for file in files:
            listed.add(file)
        rows = self.frame(listed, snapshot)
        # `metadataColumn`, because the name `_metadata` would resolve to a table column of that name.
        places = rows.select(rows.metadataColumn("_metadata")["file_path"].alias("file"))
        uri, path = self._jvm.java.net.URI, self._jvm.org.apache.hadoop.fs.Path
        counted = places.groupBy("file").agg(F.count("*").alias("live")).collect()
        live = {path(uri(row["file"])).toString(): int(row["live"]) for row in counted}
        counts: list[int] = []
        for file in files:
            vector = file.deletionVector()
            # A file without live rows has no group.
            visible = live.get(path(self.path, path(uri(file.path()))).toString(), 0)
            counts.append(visible + (0 if vector is None else int(vector.cardinality())))
        return counts


def _check_session(spark: SparkSession, made: Any) -> None:
    if not belongs_to(spark, made):
        raise SessionUnfitError(
            "Delta reads files in another Spark session than the job's, because Python threads share Java threads.",
            hint=PINNED_THREADS,
        )


def read_by_either(
    spark: SparkSession, path: str, by_kernel: Callable[[], T], by_spark: Callable[[SparkDeltaLog], T]
) -> T:
    """Read a log with Kernel, or with Spark if Kernel cannot read it: Kernel fails at a blank line in a commit, which Spark skips.

    Raises:
        JAVA_ERRORS: neither can read the log; the error of Spark or else of Kernel.
    """
    try:
        return by_kernel()
    except JAVA_ERRORS as error:
        if trouble_of(error) is not Trouble.DAMAGED:
            raise
        try:
            return by_spark(SparkDeltaLog(spark, path))
        except JAVA_ERRORS as other:
            # Spark's error names the file.
            raise (other if trouble_of(other) is Trouble.DAMAGED else error) from None


def log_damage(spark: SparkSession, path: str, error: Exception) -> Exception | None:
    """Return the error that prevents Delta from rebuilding a table; `None` if Delta can, or if `error` has another cause.

    The exception for a damaged log names a version but no table, so this check runs for each table of a job.
    """
    conditions = log_conditions(error)
    if not conditions:
        return None
    version = re.search(r"version: (\d+)", whole_text(error))
    try:
        log = SparkDeltaLog(spark, path)
        # Delta counts these over the whole state, and does not use the checksum file.
        (log.updated() if version is None else log.at(int(version[1]))).numOfRemoves()
    except JAVA_ERRORS as damage:
        return damage if conditions & log_conditions(damage) else None
    return None


def named_files(spark: SparkSession, path: str) -> tuple[DataFrame, DataFrame]:
    """Return the files of the newest version, and its removed files that no VACUUM has deleted; column `path`.

    Files of deletion vectors are represented by their folder and a slash.
    """
    snapshot = SparkDeltaLog(spark, path).updated()
    return _places(DataFrame(snapshot.allFiles().toDF(), spark)), _places(
        DataFrame(snapshot.tombstones().toDF(), spark)
    )


def _places(files: DataFrame) -> DataFrame:
    vectors = files.where("deletionVector.storageType = 'u'")
    folder = (
        f"concat(left(deletionVector.pathOrInlineDv, length(deletionVector.pathOrInlineDv) - {UNIQUE_DIGITS}), '/')"
    )
    return files.select("path").unionAll(vectors.selectExpr(f"{folder} AS path"))


def delta_actions(spark: SparkSession, lines: Sequence[str]) -> Any:
    """Return a `java.util.List` of Delta's actions, parsed from lines of a commit (JSON), in order."""
    parse = java_function(spark, "org.apache.spark.sql.delta.actions.Action", "fromJson")
    return java_lines(spark, lines).map(parse).toList()


def put_commit(spark: SparkSession, path: str, version: int, lines: Sequence[str]) -> bool:
    """Write a commit with Delta's log store for the table's scheme; return False if the version exists already.

    Raises:
        JAVA_ERRORS: any other error of the storage; the commit may exist nevertheless.
    """
    jvm = java(spark)
    file = jvm.org.apache.hadoop.fs.Path(f"{path}/_delta_log/{version:020d}.json")
    written = java_lines(spark, lines).toList()
    actions = jvm.scala.jdk.javaapi.CollectionConverters.asScala(written).iterator()
    store = jvm.org.apache.spark.sql.delta.storage.LogStore.apply(java_session(spark))
    try:
        store.write(file, actions, False, hadoop_conf(spark))
    except JAVA_ERRORS as error:
        if is_a(error, "FileAlreadyExistsException"):
            return False
        raise
    return True


def is_feature(spark: SparkSession, name: str) -> bool:
    """Return True if this release of Delta supports a table feature."""
    return bool(java(spark).org.apache.spark.sql.delta.TableFeature.featureNameToFeature(name).isDefined())


def check_properties(spark: SparkSession, properties: Mapping[str, str]) -> None:
    """Validate table properties with Delta; an invalid property raises a Java error."""
    jvm = java(spark)
    java_map = jvm.java.util.HashMap()
    for name, value in properties.items():
        java_map.put(name, value)
    configs = jvm.org.apache.spark.sql.delta.DeltaConfigs
    configs.validateConfigurations(jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(java_map))


def gives_properties(spark: SparkSession) -> bool:
    """Return True if the session sets default properties for each table that Spark creates."""
    names: Any = java_session(spark).sessionState().conf().getAllConfs().keys()
    return any(name.startswith(DEFAULTS) for name in str(names.mkString("\n")).split("\n"))
