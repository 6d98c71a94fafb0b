"""Jobs that are open without a driver: a check of a target, and an opened job of parts that a test made."""

from backfill_api.load import load_backfill
from backfill_core.job.owner import Claim
from backfill_spark.driver.job_context import JobContext, OpenedJob, Plugins
from backfill_spark.opening.source import PinnedSource
from backfill_spark.opening.tables import Tables
from backfill_spark.ports.committer import StoredState
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import APPEND
from backfill_spark.settings import DriverSettings


def looked_at(spark, backfill):
    """Return the context of `backfill status`: the target, and the job's state in it."""
    with JobContext.open(backfill, DriverSettings(), command="test", spark=spark) as context:
        return context


def opened_job(spark, source, sink, committer, *, mode=APPEND, key=(), transform=None):
    """Return a job of these parts, as the driver has it after all checks; the source is pinned."""
    backfill = load_backfill(
        {
            "apiVersion": "backfill.dev/v1alpha1",
            "kind": "Backfill",
            "metadata": {"name": "parts"},
            "spec": {
                "source": {"type": "Delta", "delta": {"path": source.path, "key": list(key)}},
                "target": {"type": "Delta", "delta": {"path": sink.path, "writeMode": mode.name}},
                "strategy": {"type": "Snapshot", "snapshot": {"vnodes": 8}},
            },
        }
    )
    plugins, opened = Plugins.of(backfill), PinnedSource(source, source.pinned)
    transform = transform or Transform()
    return OpenedJob(
        spark=spark,
        backfill=backfill,
        plugins=plugins,
        sink=sink,
        committer=committer,
        stored=StoredState(text=None, table_version=-1, txn_version=None),
        state=None,
        claim=Claim("backfill.parts", backfill.job_id, shares=False, begins=True),
        tables=Tables(spark, backfill.spec, plugins.source, source, sink, committer, transform, opened),
    )
