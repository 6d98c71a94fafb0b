"""Files of a version, as Kernel lists them, are those that Delta itself lists."""

import json
import shutil

import pytest
from pyspark.sql import DataFrame

from backfill_spark.delta.log import files_at, table_now
from backfill_spark.delta.spark_internals import delta_actions
from backfill_spark.jvm.gateway import java, java_session

EVERY_2 = {"delta.checkpointInterval": "2"}
TABLES = {
    "old": EVERY_2,
    "partitioned": {},
    "new": EVERY_2
    | {
        "delta.checkpointPolicy": "v2",
        "delta.enableDeletionVectors": "true",
        "delta.columnMapping.mode": "name",
        "delta.enableRowTracking": "true",
    },
}
LAST = 3
ASKED = ("size", "modificationTime", "partitionValues", "deletionVector", "baseRowId", "defaultRowCommitVersion")


@pytest.fixture(scope="module", params=TABLES)
def table(request, spark, tmp_path_factory):
    """A table of a kind, with files that are gone, rows that are deleted and null in its key, and an odd path."""
    path = str(tmp_path_factory.mktemp("files") / "odd path=%20")
    rows = (
        "if(id % 10 = 0, null, id) AS id",
        "if(id % 3 = 0, null, concat('a b/', id % 3)) AS part",
        "current_date() AS day",
    )
    for first, gone in ((0, "id % 7 = 3"), (100, "id < 50")):
        writer = spark.range(first, first + 100, 1, 2).selectExpr(*rows).write.format("delta").mode("append")
        for name, value in TABLES[request.param].items():
            writer = writer.option(name, value)
        (writer.partitionBy("part", "day") if request.param == "partitioned" else writer).save(path)
        spark.sql(f"DELETE FROM delta.`{path}` WHERE {gone}")
    return path


def delta_says(spark, path, version):
    """Return the files of a version by Delta's own state, which takes Spark jobs; and the table's schema."""
    jvm = java(spark)
    none = jvm.scala.Option.empty()
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(java_session(spark), path)
    snapshot = log.getSnapshotAt(version, none, none, False)
    rows = DataFrame(snapshot.allFiles().toDF(), spark).collect()
    return {row["path"]: row.asDict(recursive=True) for row in rows}, json.loads(snapshot.schema().json())


@pytest.fixture(scope="module")
def said(spark, table):
    """What Delta's own state says of two versions of it."""
    return {version: delta_says(spark, table, version) for version in (1, LAST)}


class TestFilesOfAVersion:
    """What a job counts, and what it reads, is what the version has."""

    def test_are_those_of_deltas_own_state(self, spark, table, said):
        """A file that one of the two does not list is lost or copied twice."""
        for version, (wanted, schema) in said.items():
            key = schema["fields"][0]["metadata"].get("delta.columnMapping.physicalName", "id")

            found = files_at(spark, table, version, nulls_of=[key, "no_such_column"])

            assert [file.path for file in found] == sorted(wanted)
            for file in found:
                statistics = json.loads(wanted[file.path]["stats"])
                deleted = (wanted[file.path]["deletionVector"] or {}).get("cardinality", 0)
                assert (file.rows, file.deleted) == (statistics["numRecords"], deleted)
                assert file.nulls == (statistics["nullCount"][key], None)
                assert file.bytes == wanted[file.path]["size"]

    def test_are_handed_to_delta_as_it_knows_them(self, spark, table, said):
        """A file without its deletion vector or its partition would give other rows."""
        wanted, _ = said[LAST]
        actions = delta_actions(spark, [file.action for file in files_at(spark, table, LAST, nulls_of=[])])

        assert actions.size() == len(wanted)
        for one in (json.loads(action.json())["add"] for action in actions):
            theirs = {name: wanted[one["path"]][name] for name in ASKED}
            ours = {name: one.get(name) for name in ASKED}
            for each in (theirs, ours):
                vector = each["deletionVector"] or {}
                each["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
            assert ours == theirs

    def test_take_no_spark_job(self, spark, table):
        """On a cold JVM the first ones take seconds."""
        spark.sparkContext.setJobGroup("listing", "listing")
        try:
            files_at(spark, table, LAST, nulls_of=["id"])
            assert table_now(spark, table) is not None
            assert spark.sparkContext.statusTracker().getJobIdsForGroup("listing") == []
        finally:
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)

    def test_without_statistics_say_no_count(self, spark, tmp_path):
        """An unknown count must not look like zero."""
        path = str(tmp_path / "silent")
        with_stats = "spark.databricks.delta.stats.collect"
        spark.conf.set(with_stats, "false")
        try:
            spark.range(5).coalesce(1).write.format("delta").save(path)
        finally:
            spark.conf.unset(with_stats)

        (file,) = files_at(spark, path, 0, nulls_of=["id"])

        assert (file.rows, file.nulls) == (None, (None,))

    def test_with_statistics_in_a_checkpoints_own_columns_only_say_no_count(self, spark, tmp_path):
        """Kernel does not look there. The source then counts them, with one job for all."""
        path = str(tmp_path / "columns")
        only = {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"}
        for _ in range(3):
            writer = spark.range(5).coalesce(1).write.format("delta").mode("append")
            writer.options(**EVERY_2, **only).save(path)

        found = files_at(spark, path, 2, nulls_of=["id"])

        assert [file.rows for file in found] == [None] * 3

    def test_of_an_empty_table_are_none(self, spark, tmp_path):
        """A table may have columns and no file."""
        path = str(tmp_path / "empty")
        spark.range(0).write.format("delta").save(path)

        assert files_at(spark, path, 0, nulls_of=["id"]) == []


class TestWhatATableSaysOfItself:
    """Refusals of targets stand on it: schema with its metadata, partitions, properties, features."""

    def test_is_what_delta_reads(self, spark, table):
        """A refusal must rest on what Delta would do."""
        jvm = java(spark)
        none = jvm.scala.Option.empty()
        theirs = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(java_session(spark), table).update(False, none, none)
        as_list = jvm.scala.jdk.javaapi.CollectionConverters.asJava
        ours = table_now(spark, table)

        assert json.loads(ours.schema) == json.loads(theirs.schema().json())
        assert list(ours.partitions) == list(as_list(theirs.metadata().partitionColumns()))
        assert ours.properties == dict(as_list(theirs.metadata().configuration()))
        assert ours.features == set(as_list(theirs.protocol().readerAndWriterFeatureNames()))


class TestIsThereATable:
    """Before it is made, and after its maker was killed."""

    def test_not_without_a_commit(self, spark, tmp_path):
        """A folder that a killed process left is no table."""
        log = tmp_path / "begun" / "_delta_log"
        log.mkdir(parents=True)
        (log / ".00000000000000000000.json.crc").touch()
        ended = tmp_path / "ended" / "_delta_log"
        ended.mkdir(parents=True)
        (ended / f"{7:020}.crc").write_text("{}")

        assert table_now(spark, str(ended.parent)) is None
        assert table_now(spark, str(tmp_path / "missing")) is None
        assert table_now(spark, str(tmp_path)) is None
        assert table_now(spark, str(log.parent)) is None

    def test_with_one(self, spark, table, tmp_path):
        """Also where nothing but the log tells: no checksum, no checkpoint."""
        log = tmp_path / "bare" / "_delta_log"
        log.mkdir(parents=True)
        shutil.copy(f"{table}/_delta_log/{0:020}.json", log)

        assert table_now(spark, str(log.parent)) is not None
