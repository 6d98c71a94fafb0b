"""Creation of a target, including a concurrent creation by another driver and a folder with the job's own old files."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from backfill_core.errors import InvalidSpecError, TargetSchemaMismatchError, TransientError
from backfill_spark.control.local_registry import LocalRegistry, control_file
from backfill_spark.delta.spark_internals import DEFAULTS
from backfill_spark.jvm.gateway import java
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.settings import InvalidSettingError
from backfill_spark.sinks.delta import create
from backfill_spark.sinks.delta import sink as sinks
from backfill_spark.sinks.delta.create import create_table
from backfill_spark.sinks.delta.sink import DeltaSink

SCHEMA = StructType().add("id", LongType()).add("n", LongType())


ODD = (
    StructType()
    .add("id", LongType(), nullable=False)
    .add("no zone", TimestampNTZType())
    .add("zone", TimestampType())
    .add("any", VariantType())
    .add("bytes", BinaryType())
    .add("in", StructType().add("x", ArrayType(DecimalType(20, 3), containsNull=False), nullable=False))
    .add("by", MapType(StringType(), DateType(), valueContainsNull=False))
)


def sink_at(spark, path):
    return DeltaSink(spark, str(path), write_mode=APPEND, key=(), job_id="j")


class Quicker:
    """Another driver, whose table exists just before this one's. Delta reports that with one of several exceptions."""

    def __init__(self, spark, schema, raised):
        self._spark, self._schema, self._raised = spark, schema, raised

    def __call__(self, spark, path, name, schema, **options):
        if self._schema is not None:
            create_table(spark, path, name, self._schema, **options)
        made = java(self._spark)
        for part in self._raised.split("."):
            made = getattr(made, part)
        raise Py4JJavaError("a call", made("the version is taken"))


class TestOthersMakeItToo:
    """Two drivers create one target: a job on two machines, or two jobs.

    The second one continues with the existing table.
    """

    @pytest.mark.parametrize(
        "raised",
        [
            "io.delta.exceptions.ProtocolChangedException",
            "io.delta.exceptions.MetadataChangedException",
            "java.io.FileNotFoundException",
            "java.lang.IllegalStateException",
        ],
    )
    def test_the_existing_table_is_taken(self, spark, tmp_path, monkeypatch, raised):
        """Losing this race is no failure."""
        monkeypatch.setattr(sinks, "create_table", Quicker(spark, SCHEMA, raised))
        sink_at(spark, tmp_path / "t").prepare(SCHEMA)

        assert DeltaTable(str(tmp_path / "t")).version() == 0

    def test_an_existing_table_of_another_schema_is_refused(self, spark, tmp_path, monkeypatch):
        """Rows must not land in a table of another shape."""
        other = StructType().add("id", StringType())
        monkeypatch.setattr(
            sinks, "create_table", Quicker(spark, other, "io.delta.exceptions.ProtocolChangedException")
        )
        with pytest.raises(TargetSchemaMismatchError):
            sink_at(spark, tmp_path / "t").prepare(SCHEMA)

    def test_a_table_that_never_appears_is_tried_again(self, spark, tmp_path, monkeypatch):
        """The catalog may be slow, so the job retries."""
        monkeypatch.setattr(sinks, "create_table", Quicker(spark, None, "io.delta.exceptions.ProtocolChangedException"))
        with pytest.raises(TransientError, match="cannot be made"):
            sink_at(spark, tmp_path / "t").prepare(SCHEMA)


class TestWhatWeLeftBehind:
    """A table that was dropped while a job filled it leaves the folder of staged files."""

    def test_a_folder_with_files_of_the_job_is_not_foreign(self, spark, tmp_path):
        """The job's own files must not stop the next run."""
        sink = sink_at(spark, tmp_path / "t")
        old_file = Path(sink.staging, "a1", "s1", "part-0.parquet")
        old_file.parent.mkdir(parents=True)
        old_file.write_bytes(b"x")
        sink.check(SCHEMA, source_path="/no/such", has_state=False)
        sink.prepare(SCHEMA)

        assert sink.exists()


class TestAFolderOfTheProcess:
    """The job is correct, so the error names the setting."""

    @pytest.mark.parametrize("case", ["below a file", "a lock that is a folder"])
    def test_a_folder_that_cannot_be_written_is_named(self, tmp_path, case):
        """A user corrects the setting, not the job."""
        folder = tmp_path / "state"
        if case == "below a file":
            folder.write_text("x")
            folder = folder / "below"
        else:
            Path(folder, control_file(folder, "j").with_suffix(".lock").name).mkdir(parents=True)

        with pytest.raises(InvalidSettingError, match=r"BACKFILL_STATE_DIR: .* cannot be written") as refusal:
            LocalRegistry(folder, "j").__enter__()
        assert refusal.value.hint


class TestWhoMakesIt:
    """Kernel creates a plain table without a Spark job. It equals the table that Spark would create."""

    @pytest.mark.parametrize("merges", [True, False])
    def test_kernel_and_spark_make_the_same_table(self, spark, tmp_path, monkeypatch, merges):
        """A job's target does not depend on the engine that created it."""
        plain = StructType([field for field in ODD if " " not in field.name])
        made = {who: self.logged(spark, tmp_path / who, plain, monkeypatch, who, merges) for who in ("Kernel", "Spark")}

        assert made["Kernel"]["commitInfo"]["engineInfo"].startswith("Kernel")
        assert made["Spark"]["commitInfo"]["engineInfo"].startswith("Apache-Spark")
        for part in ("schemaString", "partitionColumns", "configuration"):
            assert made["Kernel"]["metaData"][part] == made["Spark"]["metaData"][part]
        for part, value in made["Spark"]["protocol"].items():
            local = made["Kernel"]["protocol"][part]
            assert (set(local) if isinstance(local, list) else local) == (
                set(value) if isinstance(value, list) else value
            )

    @staticmethod
    def logged(spark, path, schema, monkeypatch, who, merges):
        with monkeypatch.context() as patched:
            if who == "Spark":
                patched.setattr(create, "gives_properties", lambda _spark: True)
            create_table(
                spark, str(path), None, schema, partition_by=(), cluster_by=(), properties={}, deletion_vectors=merges
            )
        lines = Path(path, "_delta_log", f"{0:020}.json").read_text().split("\n")
        return {name: body for line in lines if line for name, body in json.loads(line).items()}

    def test_defaults_of_a_session_for_new_tables_are_kept(self, spark, tmp_path, monkeypatch):
        """A user's session may define how long each new table keeps its log."""
        setting = f"{DEFAULTS}logRetentionDuration"
        spark.conf.set(setting, "interval 3 days")
        try:
            sink_at(spark, tmp_path / "t").prepare(SCHEMA)
        finally:
            spark.conf.unset(setting)

        assert (
            DeltaTable(str(tmp_path / "t")).metadata().configuration["delta.logRetentionDuration"] == "interval 3 days"
        )

    def test_a_table_that_delta_refuses_is_an_invalid_spec(self, spark, tmp_path):
        """A name that needs column mapping is a mistake in the spec."""
        with pytest.raises(InvalidSpecError, match="Delta rejects the table"):
            sink_at(spark, tmp_path / "t").prepare(ODD)
        assert not list(tmp_path.rglob("*.json"))
