"""Specs and tables for tests."""

import atexit
import hashlib
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql.types import StructType

from backfill_api.load import load_backfill
from backfill_api.spec.spec import BackfillResource
from backfill_spark.jvm.gateway import java, java_context
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.sinks.delta.sink import DeltaSink


def document(source_path: str, target_path: str, **spec: Any) -> dict[str, Any]:
    """Return a Backfill as a mapping: an upsert by `id` unless `spec` overrides it."""
    delta = {"path": source_path, "key": ["id"], **spec.pop("source", {})}
    goal = {"path": target_path, **spec.pop("target", {})}
    return {
        "apiVersion": "backfill.dev/v1alpha1",
        "kind": "Backfill",
        "metadata": {"name": spec.pop("name", "job")},
        "spec": {"source": {"type": "Delta", "delta": delta}, "target": {"type": "Delta", "delta": goal}, **spec},
    }


def job(source_path: str, target_path: str, **spec: Any) -> BackfillResource:
    """Return the same, loaded; with five barriers a second, so that a test waits less for them."""
    return load_backfill(document(source_path, target_path, **({"barrier": {"intervalMs": 200}} | spec)))


def write_yaml(path: Path, source_path: str, target_path: str, **spec: Any) -> Path:
    """Write the same as a file."""
    path.write_text(yaml.safe_dump(document(source_path, target_path, **spec)))
    return path


def checkpoint(spark: Any, path: str, version: int) -> None:
    """Let Delta Kernel write a checkpoint, as after a commit; the next reads use it."""
    kernel = java(spark).io.delta.kernel
    engine = kernel.defaults.engine.DefaultEngine.create(java_context(spark).hadoopConfiguration())
    kernel.Table.forPath(engine, path).checkpoint(engine, version)
    java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()


def forget_before(spark: Any, path: str, version: int) -> None:
    """Remove the log before a version, as Delta cleans it: up to a checkpoint."""
    checkpoint(spark, path, version)
    for number in range(version):
        Path(path, "_delta_log", f"{number:020d}.json").unlink()
    java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()


def make_orders(spark: Any, path: str, rows: int, files: int = 8, **properties: str) -> None:
    """Make a source table with a change feed: id, customer, amount, note, status."""

    def write(to: str) -> None:
        writer = (
            spark.range(0, rows, 1, files)
            .selectExpr(
                "id",
                "id * 7919 % 1003 AS customer",
                "cast(id % 1000 AS double) AS amount",
                "md5(cast(id AS string)) AS note",
                "element_at(array('new', 'paid', 'sent'), cast(id % 3 + 1 AS int)) AS status",
            )
            .write.format("delta")
            .option("delta.enableChangeDataFeed", "true")
        )
        for name, value in properties.items():
            writer = writer.option(name, value)
        writer.save(to)

    _make_once(("orders", rows, files, *properties.items()), write, path)


def make_changed_orders(spark: Any, path: str, *statements: str) -> None:
    """Make 100 orders in two files, then run statements on them, each a version; in these the table is `{t}`."""

    def write(to: str) -> None:
        make_orders(spark, to, 100, files=2)
        for statement in statements:
            spark.sql(statement.format(t=f"delta.`{to}`"))

    _make_once(("changed orders", *statements), write, path)


def make_kind(spark: Any, path: str, kind: str, **more: str) -> None:
    """Make a table of 900 rows in five files: plain, partitioned, with deleted rows or a renamed column; `more`: columns."""

    def write(to: str) -> None:
        extra = [f"{expression} AS {name}" for name, expression in more.items()]
        frame = spark.range(0, 900, 1, 5).selectExpr("id", "id % 4 AS part", "concat('n', id % 50) AS name", *extra)
        writer = frame.write.format("delta").option("delta.enableDeletionVectors", "true")
        if kind == "renamed":
            writer = writer.option("delta.columnMapping.mode", "name")
        (writer.partitionBy("part") if kind == "partitioned" else writer).save(to)
        if kind == "deleted":
            spark.sql(f"DELETE FROM delta.`{to}` WHERE id % 9 = 4")
        if kind == "renamed":
            spark.sql(f"ALTER TABLE delta.`{to}` RENAME COLUMN name TO title")

    _make_once((kind, *more.items()), write, path)


def make_target(spark: Any, path: str, schema: StructType, **options: Any) -> None:
    """Make an empty target as a job without a key makes it; `options`: its layout."""

    def write(to: str) -> None:
        DeltaSink(spark, to, write_mode=APPEND, key=(), job_id="ns/job", **options).prepare(schema)

    _make_once(("target", schema.json(), *sorted(options.items())), write, path)


@cache
def _made() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="backfill-tables-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _make_once(what: tuple[Any, ...], write: Callable[[str], None], path: str) -> None:
    """Put a table at a path: Spark writes it on the first request for `what`, later requests get a copy with another id.

    A table does not contain its path, so a copy of its files is a table. Spark takes a second or more for one; a copy takes
    almost no time.
    """
    original = _made() / hashlib.sha256(repr(what).encode()).hexdigest()[:16]
    if not original.exists():
        write(str(original))
    shutil.copytree(original, path)
    log = Path(path, "_delta_log")
    for hidden in log.glob(".*.crc"):  # Hadoop's checksums, of the old id
        hidden.unlink()
    (old_id,) = set(re.findall(r'"metaData":\{"id":"([^"]+)"', (log / f"{0:020}.json").read_text()))
    new_id = str(uuid.uuid4())
    for file in (*log.glob("*.json"), *log.glob("*.crc")):
        file.write_text(file.read_text().replace(old_id, new_id))


def vacuum(spark: Any, path: str) -> None:
    """Remove at once every file that the newest version of a table does not name."""
    spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
