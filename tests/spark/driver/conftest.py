"""A source, a target and the calls of a driver, for tests of the reasons of errors."""

import json
from itertools import accumulate
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql.types import StructType
from support.tables import other_engine
from support.tables.jobs import make_orders
from support.tables.logs import forget_sums

from backfill_core.positions.file_ranges import file_ranges
from backfill_spark.jvm.gateway import java
from backfill_spark.opening.failures import explain
from backfill_spark.rows.changes import DELETE
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import write_mode
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.sink import DeltaSink
from backfill_spark.sources.delta.source import DeltaTableSource


class World:
    """A source of four rows with one change, a target, and the calls that a driver makes."""

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self.at, self.to = str(folder / "s"), str(folder / "t")

    # ------------------------------------------------------------------ tables
    def source(self, changed=False):
        make_orders(self.spark, self.at, 4, files=1)
        if changed:
            other_engine.update(self.at, "id = 1", amount="7.0")
        return DeltaTableSource(self.spark, self.at, key=("id",))

    def sink(self, path=None, mode="Append", key=(), **options):
        return DeltaSink(self.spark, path or self.to, write_mode=write_mode(mode), key=key, job_id="j", **options)

    def target(self, mode="Append"):
        """A target with one sealed file."""
        sink = self.sink(mode=mode, key=("id",))
        rows = self.spark.range(4).selectExpr("id", "id AS n")
        sink.prepare(rows.schema)
        committer = self.committer()
        committer.seal(1, committer.measure(sink.stage(rows.coalesce(1), attempt=1, work_id=1)), "s")
        return sink, committer

    def committer(self):
        return DeltaCommitter(self.spark, self.to, app_id="a", domain="backfill.x")

    def commit(self, path, version, *actions):
        file = Path(path, "_delta_log", f"{version:020d}.json")
        if actions:
            file.write_text("".join(json.dumps(action) + "\n" for action in actions))
        return file

    def data(self, path):
        forget_sums(path)
        return [file for file in Path(path).rglob("*.parquet") if not {"_delta_log", "_change_data"} & set(file.parts)]

    def java(self, name, message):
        """Return an exception as py4j raises it."""
        made = java(self.spark)
        for part in name.split("."):
            made = getattr(made, part)
        return Py4JJavaError("a call", made(message))

    # ------------------------------------------------------------------ steps
    def check(self, schema="id LONG, n LONG", source="/no/such", **options):
        self.sink(**options).check(StructType.fromDDL(schema), source_path=source, has_state=False)

    def job(self, run, *select):
        """Run a Spark job as the executor does, and explain its exception."""
        source, sink = DeltaTableSource(self.spark, self.at, key=()), self.sink()
        try:
            run()
        except Exception as error:
            transform = Transform(select or None, None)
            raise explain(error, self.spark, "a Spark job", sink, transform, source) from error

    def fail(self, error):
        raise error

    def merge(self, sink, *columns):
        net = self.spark.range(1).selectExpr("id", *(columns or ("id AS n",)), f"false AS `{DELETE}`")
        sink.merge(sink.as_stored(net).localCheckpoint(), app_id="a", txn_version=2)

    def copy(self, source):
        """Read all rows of a pinned version."""
        prefix = list(accumulate(source.pinned.rows, initial=0))
        source.read(file_ranges(prefix, 0, prefix[-1])).selectExpr("sum(hash(*))").collect()


@pytest.fixture
def world(spark, tmp_path):
    java(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
    return World(spark, tmp_path)
