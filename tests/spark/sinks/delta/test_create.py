"""A target that is made: what others make at the same moment is looked at again, what we left behind is no stranger's."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql.types import LongType, StringType, StructType

from backfill_core.errors import TargetSchemaMismatchError, TransientError
from backfill_spark.control.local_registry import LocalRegistry, control_file
from backfill_spark.jvm.gateway import java
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.settings import InvalidSettingError
from backfill_spark.sinks.delta import sink as sinks
from backfill_spark.sinks.delta.create import create_table
from backfill_spark.sinks.delta.sink import DeltaSink

SCHEMA = StructType().add("id", LongType()).add("n", LongType())


def sink_at(spark, path):
    return DeltaSink(spark, str(path), write_mode=APPEND, key=(), job_id="j")


class Quicker:
    """Another driver, whose table is there just before ours would be; Delta tells us so in one of its ways."""

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
    """Two drivers of one job on two machines, or two jobs with one target: the second one goes on with what is there."""

    @pytest.mark.parametrize(
        "raised",
        [
            "io.delta.exceptions.ProtocolChangedException",
            "io.delta.exceptions.MetadataChangedException",
            "java.io.FileNotFoundException",
            "java.lang.IllegalStateException",
        ],
    )
    def test_the_table_that_is_there_is_taken(self, spark, tmp_path, monkeypatch, raised):
        """Losing this race is no failure."""
        monkeypatch.setattr(sinks, "create_table", Quicker(spark, SCHEMA, raised))
        sink_at(spark, tmp_path / "t").prepare(SCHEMA)

        assert DeltaTable(str(tmp_path / "t")).version() == 0

    def test_unless_it_is_another_one(self, spark, tmp_path, monkeypatch):
        """Rows must not land in a table of another shape."""
        other = StructType().add("id", StringType())
        monkeypatch.setattr(
            sinks, "create_table", Quicker(spark, other, "io.delta.exceptions.ProtocolChangedException")
        )
        with pytest.raises(TargetSchemaMismatchError):
            sink_at(spark, tmp_path / "t").prepare(SCHEMA)

    def test_what_never_comes_may_come_later(self, spark, tmp_path, monkeypatch):
        """The catalog may be slow, so the job tries again."""
        monkeypatch.setattr(sinks, "create_table", Quicker(spark, None, "io.delta.exceptions.ProtocolChangedException"))
        with pytest.raises(TransientError, match="cannot be made"):
            sink_at(spark, tmp_path / "t").prepare(SCHEMA)


class TestWhatWeLeftBehind:
    """A table that was dropped while it was filled leaves the folder of our staged files."""

    def test_is_no_strangers(self, spark, tmp_path):
        """Our own files must not stop the next run."""
        sink = sink_at(spark, tmp_path / "t")
        left = Path(sink.staging, "a1", "s1", "part-0.parquet")
        left.parent.mkdir(parents=True)
        left.write_bytes(b"x")
        sink.check(SCHEMA, source_path="/no/such", has_state=False)
        sink.prepare(SCHEMA)

        assert sink.exists()


class TestAFolderOfTheProcess:
    """Nothing of the job is wrong: the setting is named."""

    @pytest.mark.parametrize("case", ["below a file", "a lock that is a folder"])
    def test_that_cannot_be_written_is_named(self, tmp_path, case):
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
