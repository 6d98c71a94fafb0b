"""Creates a class archive: `python -m backfill_spark.driver.class_archive_training [FOLDER OF JARS]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from backfill_api.load import load_backfill
from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.class_archive import NAME, QUIET, path_of, remember
from backfill_spark.jvm.gateway import java, python_gateway
from backfill_spark.jvm.session import JVM_OPTIONS, open_session
from backfill_spark.settings import DriverSettings

END_S = 900


def make(jars_dir: Path | None) -> Path:
    """Create or replace the archive: run a small job of every phase in a separate JVM, and archive the classes that it loaded.

    The run takes most of a minute and 200 MB. The calling process must not have started Spark.

    Raises:
        OSError: the JVM wrote no archive.
    """
    archive = path_of(jars_dir)
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        written = Path(scratch, NAME)
        spark = open_session(
            app_name="class archive",
            cores=2,
            memory="1g",
            jars_dir=jars_dir,
            conf={"spark.driver.extraJavaOptions": f"{JVM_OPTIONS} -XX:ArchiveClassesAtExit={written} {QUIET}"},
        )
        class_path = str(java(spark).java.lang.System.getProperty("java.class.path"))
        source, target = f"{scratch}/source", f"{scratch}/target"
        _make_source(spark, source)
        job = {
            "apiVersion": "backfill.dev/v1alpha1",
            "kind": "Backfill",
            "metadata": {"name": "class-archive"},
            "spec": {
                "source": {"type": "Delta", "delta": {"path": source, "key": ["id"], "version": 0}},
                "target": {"type": "Delta", "delta": {"path": target}},
                "transform": {"select": ["id", "upper(text) AS text", "at"], "where": "id >= 0"},
                "verify": "Final",
            },
        }
        outcome = run_driver(load_backfill(job), settings=DriverSettings(state_dir=Path(scratch, "state")), spark=spark)
        _end_java(spark)
        if outcome.exit_code != 0 or not written.is_file():
            raise OSError(f"the training run wrote no archive: {outcome.reason} {outcome.message}")
        written.replace(archive)
        remember(jars_dir, class_path)
    return archive


def _make_source(spark: SparkSession, path: str) -> None:
    rows = spark.range(2000).selectExpr("id", "cast(id AS string) AS text", "current_timestamp() AS at")
    rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(path)
    spark.sql(f"UPDATE delta.`{path}` SET text = 'changed' WHERE id % 10 = 3")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 100 = 7")


def _end_java(spark: SparkSession) -> None:
    """Let the JVM exit normally, because it writes the archive at exit; closing its standard input ends it."""
    gateway = python_gateway()
    spark.stop()
    assert gateway is not None
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.wait(END_S)


if __name__ == "__main__":
    print(make(Path(sys.argv[1]) if sys.argv[1:] else None))
