"""A target of one test: its sink, its committer and its log."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.tables.jobs import make_target

from backfill_spark.rows.write_modes import APPEND
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.sinks.delta.sink import DeltaSink


@pytest.fixture
def table(spark, tmp_path):
    """An empty target, a way to stage into it, and a committer."""

    class Table:
        def __init__(self, rows, **options):
            self.path = str(tmp_path / "target")
            self.sink = DeltaSink(spark, self.path, write_mode=APPEND, key=(), job_id="ns/job", **options)
            make_target(spark, self.path, rows.schema, **options)
            self.committer = self.open()
            self.work = 0

        def open(self, app_id="app", kind=DeltaCommitter):
            return kind(spark, self.path, app_id=app_id, domain="backfill.test")

        def stage(self, rows):
            self.work += 1
            return self.committer.measure(self.sink.stage(rows, attempt=1, work_id=self.work))

        def read(self):
            return spark.read.format("delta").load(self.path)

        def ids(self):
            """Return the ids. delta-rs reads them, because Spark plans three jobs for such a read."""
            result = QueryBuilder().register("t", DeltaTable(self.path)).execute("SELECT id FROM t ORDER BY id")
            return [scalar.as_py() for scalar in result.read_all().column("id")]

        def actions(self, version):
            text = Path(self.path, "_delta_log", f"{version:020d}.json").read_text()
            return [json.loads(line) for line in text.splitlines()]

    return Table
