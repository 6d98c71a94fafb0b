"""The log store for local disks: of several writers of one version of a log, exactly one writes it (ADR 0038)."""

import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import JARS

from backfill_spark.jvm.errors import JAVA_ERRORS, is_a
from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.log_stores.java_classes import LOCAL, LOG_STORES, bring_log_store

RACES, WRITERS = 40, 4


@pytest.fixture
def write(spark):
    """A function that writes a file by a store of its own, as each job has one; it returns whether the file is new."""
    bring_log_store(spark, LOCAL)
    jvm, conf = java(spark), hadoop_conf(spark)
    store_class = getattr(jvm.io.delta.storage, LOG_STORES[LOCAL].rpartition(".")[2])

    def written(file, *lines, overwrite=False):
        actions = jvm.java.util.ArrayList()
        for line in lines:
            actions.add(line)
        try:
            store_class(conf).write(jvm.org.apache.hadoop.fs.Path(f"file:{file}"), actions.iterator(), overwrite, conf)
        except JAVA_ERRORS as error:
            if is_a(error, "FileAlreadyExistsException"):
                return False
            raise
        return True

    return written


class TestAVersionOfALogOnADisk:
    """Delta's own store checks and then renames: one commit of fifteen such races replaced another."""

    def test_of_concurrent_writers_of_a_version_one_wins_and_its_lines_stay(self, write, tmp_path):
        """A lost commit is a lost fence, or lost rows."""
        for race in range(RACES):
            file, start = tmp_path / "_delta_log" / f"{race:020}.json", threading.Barrier(WRITERS)

            def attempt(writer, file=file, start=start):
                start.wait()
                return write(file, f"of {writer}", "ä")

            with ThreadPoolExecutor(WRITERS) as pool:
                won = [writer for writer, wins in enumerate(pool.map(attempt, range(WRITERS))) if wins]

            assert len(won) == 1
            assert file.read_text("utf-8") == f"of {won[0]}\nä\n"
        assert {path.suffix for path in (tmp_path / "_delta_log").iterdir()} == {".json"}, "no temporary file stays"

    def test_a_file_has_the_permissions_of_other_files_of_the_table(self, write, tmp_path):
        """Hadoop ignores the umask of the process, and another user may read the table."""
        before = os.umask(0o077)
        try:
            assert write(tmp_path / "0.json", "line")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "0.json").stat().st_mode) == 0o644

    def test_a_checksum_that_an_earlier_file_left_does_not_stop_readers(self, spark, write, tmp_path):
        """Hadoop compares a file with the checksum beside it, even if someone deleted only the file."""
        assert write(tmp_path / "0.json", "before", overwrite=True)
        assert (tmp_path / ".0.json.crc").exists()
        (tmp_path / "0.json").unlink()

        assert write(tmp_path / "0.json", "now")
        assert [row.value for row in spark.read.text(str(tmp_path / "0.json")).collect()] == ["now"]

    def test_a_file_may_be_replaced_on_request(self, write, tmp_path):
        """The pointer to the last checkpoint is replaced by each checkpoint."""
        assert write(tmp_path / "_last_checkpoint", "1")
        assert not write(tmp_path / "_last_checkpoint", "2")
        assert write(tmp_path / "_last_checkpoint", "3", overwrite=True)
        assert (tmp_path / "_last_checkpoint").read_text() == "3\n"


WITHOUT_DELTA = "from backfill_spark.jvm.session import resolve_packages; resolve_packages({cache!r}, [])"
WITH_JARS_OF_A_CALLER = """
from pyspark.sql import SparkSession
from backfill_spark.jvm.log_stores.kernel import kernel_settings
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.jars", {jars!r}).getOrCreate()
kernel_settings(spark)
store = getattr(spark._jvm.io.delta.storage, "BackfillLocalLogStore")
print(store(spark._jsc.hadoopConfiguration()).getClass().getName())
"""


@pytest.mark.spark
class TestASessionOfAnotherKind:
    """The class is defined beside Delta's, wherever the session has loaded them from."""

    @staticmethod
    def run(code):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def test_a_session_without_delta_starts(self, tmp_path):
        """The setup of a new machine starts one to fetch Delta's jars."""
        self.run(WITHOUT_DELTA.format(cache=str(tmp_path)))

    def test_a_session_that_loaded_delta_by_spark_jars_has_the_store(self):
        """A notebook names Delta in `spark.jars` or `spark.jars.packages`; Java's own class path lacks it."""
        jars = ",".join(map(str, sorted(JARS.glob("io.delta*.jar"))))
        assert "io.delta.storage.BackfillLocalLogStore" in self.run(WITH_JARS_OF_A_CALLER.format(jars=jars))
