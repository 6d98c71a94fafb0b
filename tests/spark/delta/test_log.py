"""Kernel's list of a version's files equals that of Delta itself."""

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
    """A table of a kind, with removed files, deleted rows, null in its key, and an odd path."""
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


def state_of_delta(spark, path, version):
    """Return the files of a version from Delta's own state, which takes Spark jobs, and the table's schema."""
    jvm = java(spark)
    none = jvm.scala.Option.empty()
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(java_session(spark), path)
    snapshot = log.getSnapshotAt(version, none, none, False)
    rows = DataFrame(snapshot.allFiles().toDF(), spark).collect()
    return {row["path"]: row.asDict(recursive=True) for row in rows}, json.loads(snapshot.schema().json())


@pytest.fixture(scope="module")
def delta_states(spark, table):
    """Delta's own state of two versions of the table."""
    return {version: state_of_delta(spark, table, version) for version in (1, LAST)}


class TestFilesOfAVersion:
    """The files that a job counts and reads are those of the version."""

    def test_files_are_those_of_deltas_own_state(self, spark, table, delta_states):
        """A file that only one of the lists has is lost or copied twice."""
        for version, (expected, schema) in delta_states.items():
            key = schema["fields"][0]["metadata"].get("delta.columnMapping.physicalName", "id")

            files = files_at(spark, table, version, nulls_of=[key, "no_such_column"])

            assert [file.path for file in files] == sorted(expected)
            for file in files:
                statistics = json.loads(expected[file.path]["stats"])
                deleted = (expected[file.path]["deletionVector"] or {}).get("cardinality", 0)
                assert (file.rows, file.deleted) == (statistics["numRecords"], deleted)
                assert file.nulls == (statistics["nullCount"][key], None)
                assert file.bytes == expected[file.path]["size"]

    def test_files_are_passed_to_delta_with_all_fields(self, spark, table, delta_states):
        """A file without its deletion vector or its partition would give other rows."""
        expected, _ = delta_states[LAST]
        actions = delta_actions(spark, [file.action for file in files_at(spark, table, LAST, nulls_of=[])])

        assert actions.size() == len(expected)
        for add in (json.loads(action.json())["add"] for action in actions):
            reference = {name: expected[add["path"]][name] for name in ASKED}
            ours = {name: add.get(name) for name in ASKED}
            for each in (reference, ours):
                vector = each["deletionVector"] or {}
                each["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
            assert ours == reference

    def test_listing_files_takes_no_spark_job(self, spark, table):
        """On a cold JVM the first jobs take seconds."""
        spark.sparkContext.setJobGroup("listing", "listing")
        try:
            files_at(spark, table, LAST, nulls_of=["id"])
            assert table_now(spark, table) is not None
            assert spark.sparkContext.statusTracker().getJobIdsForGroup("listing") == []
        finally:
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)

    def test_files_without_statistics_have_no_count(self, spark, tmp_path):
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

    def test_files_with_statistics_only_in_columns_of_a_checkpoint_have_no_count(self, spark, tmp_path):
        """Kernel does not read those columns. The source then counts the rows, with one job for all files."""
        path = str(tmp_path / "columns")
        only = {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"}
        for _ in range(3):
            writer = spark.range(5).coalesce(1).write.format("delta").mode("append")
            writer.options(**EVERY_2, **only).save(path)

        files = files_at(spark, path, 2, nulls_of=["id"])

        assert [file.rows for file in files] == [None] * 3

    def test_an_empty_table_has_no_files(self, spark, tmp_path):
        """A table may have columns and no file."""
        path = str(tmp_path / "empty")
        spark.range(0).write.format("delta").save(path)

        assert files_at(spark, path, 0, nulls_of=["id"]) == []


class TestWhatATableSaysOfItself:
    """Refusals of targets are based on the table's schema, partitions, properties and features."""

    def test_the_metadata_is_what_delta_reads(self, spark, table):
        """A refusal must follow Delta's own behaviour."""
        jvm = java(spark)
        none = jvm.scala.Option.empty()
        reference = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(java_session(spark), table).update(
            False, none, none
        )
        as_list = jvm.scala.jdk.javaapi.CollectionConverters.asJava
        ours = table_now(spark, table)

        assert json.loads(ours.schema) == json.loads(reference.schema().json())
        assert list(ours.partitions) == list(as_list(reference.metadata().partitionColumns()))
        assert ours.properties == dict(as_list(reference.metadata().configuration()))
        assert ours.features == set(as_list(reference.protocol().readerAndWriterFeatureNames()))


class TestIsThereATable:
    """A folder may be without a table before the first commit, and after its maker was killed."""

    def test_a_folder_without_a_commit_is_no_table(self, spark, tmp_path):
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

    def test_a_folder_with_a_commit_is_a_table(self, spark, table, tmp_path):
        """The log may have no checksum and no checkpoint."""
        log = tmp_path / "bare" / "_delta_log"
        log.mkdir(parents=True)
        shutil.copy(f"{table}/_delta_log/{0:020}.json", log)

        assert table_now(spark, str(log.parent)) is not None
