"""A target that follows a source by hand."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.tables.jobs import checkpoint, job
from support.tables.oracle import coming_back

from backfill_core.positions.file_ranges import FileRange
from backfill_core.protocol.work import ReadSplit, ShipVersions
from backfill_spark.delta.log import newest_version
from backfill_spark.driver.job_context import JobContext
from backfill_spark.file_copies.job_copies import JobCopies
from backfill_spark.runners.kinds import read_split
from backfill_spark.runners.kinds.ship_versions import RUNNER as SHIP
from backfill_spark.settings import DriverSettings
from backfill_spark.sinks.delta.committer import DeltaCommitter
from backfill_spark.work.context import WorkContext, WorkLedger


@pytest.fixture
def replica(spark, tmp_path, monkeypatch):
    """A target that follows a source step by step: history, then versions, each in a separate commit."""
    monkeypatch.setattr(read_split, "ships", lambda spec: True)

    class Replica:
        source, target = str(tmp_path / "source"), str(tmp_path / "target")

        def begin(self, **spec):
            given = job(self.source, self.target, target={"writeMode": "Append"}, **spec)
            settings = DriverSettings(state_dir=tmp_path / "state", cores=2)
            with JobContext.open(given, settings, command="run", spark=spark) as context:
                self.job = stack.enter_context(context.open_job())
            layout = self.job.tables.source.shippable()
            self.job.sink.follow(layout)
            self.job.tables.make_target()
            self.copies, self.ledger, self.work, self.txn = JobCopies(self.job.tables), WorkLedger(), 0, 0
            self.committer = DeltaCommitter(spark, self.target, app_id="backfill-app", domain="backfill.x", alone=True)
            self.committer.fence(0, "", opened=self.committer.read_state())
            pinned = self.job.tables.pinned
            self.at = pinned.version
            ranges = tuple(FileRange(at, 0, rows, rows) for at, rows in enumerate(pinned.rows))
            self.copied = self.do(read_split.RUNNER, lambda number: ReadSplit(number, ranges, 0, sum(pinned.rows), 0))
            self.seal(self.copied.files)

        def do(self, runner, work):
            self.work += 1
            context = WorkContext(self.job.tables, 1, self.work, self.ledger, self.copies)
            return runner.run(work(self.work), context)

        def seal(self, files, removed=()):
            self.job.sink.check_staged(files)
            self.txn += 1
            return self.committer.seal(self.txn, files, f"{self.txn}", removed=removed).version

        def ship(self, upto=None):
            upto = newest_version(spark, self.source).position if upto is None else upto
            shipped = self.do(SHIP, lambda number: ShipVersions(number, self.at, upto, 0, 1 << 30))
            version, self.at = self.seal(shipped.files, shipped.removed), shipped.upto
            return shipped, self.actions(version)

        def actions(self, version):
            text = Path(self.target, "_delta_log", f"{version:020d}.json").read_text()
            return [json.loads(line) for line in text.splitlines()]

        def equal(self):
            """Compare source and target as multisets of rows."""
            source, target = (spark.read.format("delta").load(path) for path in (self.source, self.target))
            assert coming_back(self.target) == []
            assert source.schema == target.schema or source.columns == target.columns
            return source.exceptAll(target).isEmpty() and target.exceptAll(source).isEmpty()

        def checkpoint(self):
            checkpoint(spark, self.target, newest_version(spark, self.target).position)

        def sql(self, text):
            spark.sql(text.format(t=f"delta.`{self.source}`"))

    with ExitStack() as stack:
        yield Replica()
