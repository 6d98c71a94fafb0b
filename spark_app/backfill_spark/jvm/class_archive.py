"""A class archive: what the JVM loads at every start, verified and laid out once (Java's class-data sharing).

Half of the time from the start of a driver to its first seal is Java reading and verifying 20,000 classes of Spark and
Delta. An archive of them is mapped into memory instead. It only ever saves time: a JVM that cannot use it, because the
Java, a jar or the class path is another one, loads the classes as before and says nothing.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from backfill_api.load import load_backfill

SPARK_JARS = Path(pyspark.__file__).parent / "jars"
NAME = "classes.jsa"
QUIET = "-Xlog:cds*=off"
END_S = 300


def path_of(jars_dir: Path | None) -> Path:
    """Return where the archive of a folder of jars lies, or that of the image, whose jars are Spark's own."""
    return (jars_dir or SPARK_JARS).resolve() / NAME


def java_option(jars_dir: Path | None) -> str:
    """Return the JVM's options for the archive that is there; empty when there is none."""
    archive = path_of(jars_dir)
    return f"-XX:SharedArchiveFile={archive} {QUIET}" if archive.is_file() else ""


def make(jars_dir: Path | None) -> Path:
    """Make or replace the archive: run a small job of every phase in a JVM of its own, and keep what that loaded.

    Takes most of a minute and 200 MB. Must be called in a process without a Spark.

    Raises:
        OSError: the JVM left no archive.
    """
    # Only here: sessions ask this module for the archive, and a training run is a whole job.
    from backfill_spark.driver.attempt import run_driver
    from backfill_spark.jvm.session import JVM_OPTIONS, open_session
    from backfill_spark.settings import DriverSettings

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
            raise OSError(f"the training run left no archive: {outcome.reason} {outcome.message}")
        written.replace(archive)
    return archive


def _make_source(spark: SparkSession, path: str) -> None:
    rows = spark.range(2000).selectExpr("id", "cast(id AS string) AS text", "current_timestamp() AS at")
    rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(path)
    spark.sql(f"UPDATE delta.`{path}` SET text = 'changed' WHERE id % 10 = 3")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 100 = 7")


def _end_java(spark: SparkSession) -> None:
    """Have the JVM end of its own accord, which is when it writes; it does when its standard input closes."""
    gateway = SparkContext._gateway
    spark.stop()
    assert gateway is not None
    java = gateway.proc
    gateway.shutdown()
    java.stdin.close()
    java.wait(END_S)


if __name__ == "__main__":
    print(make(Path(sys.argv[1]) if sys.argv[1:] else None))
