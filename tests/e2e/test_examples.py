"""Every example of the repository runs on a node unchanged, except for the place of the lake in its pods."""

from deltalake import DeltaTable
from support.node.real_job import MOUNT, Job, apply_all, delete_all, example, for_pods
from support.repository import ROOT
from support.tables import oracle

ROWS = 40_000
HERE = "orders-cluster.yaml"
"""Mounts a folder of the node, so it runs only where that is allowed."""

ELSEWHERE = (
    "events-kafka.yaml", "customers-kafka.yaml", "bucket-to-bucket.yaml", HERE, "orders-replica.yaml", "orders-in-place.yaml",
)  # fmt: skip
"""Two need a broker, one needs an S3 server (test_topics.py, test_buckets.py); two are scenarios of test_smoke.py. The last one changes
the source of all others (test_in_place.py)."""

FILES = sorted(file.name for file in (ROOT / "examples").glob("*.yaml") if file.name not in ELSEWHERE)
APPENDS = "appends"
"""A separate lake, for the example that takes no changes."""


def of_example(node, file):
    """Return the job of an example."""
    lake = f"{MOUNT}/{APPENDS}" if "append" in file else MOUNT
    return Job(node, for_pods(example(file), lake=lake))


def test_each_example_runs_unchanged(node, lake, writer):
    """All examples run at once under live writers, one of which only appends; each target matches its document."""
    (lake / APPENDS).mkdir()
    (lake / APPENDS).chmod(0o777)
    writers = writer(ROWS), writer(ROWS, name=f"{APPENDS}/orders", appends_only=True)
    jobs = [of_example(node, file) for file in FILES]
    apply_all(jobs)

    follow = [job for job in jobs if job.backfill["spec"].get("after") == "Follow"]
    for job in jobs:
        if job not in follow:
            job.until_complete(attempts=1, failures=0)
    for job in follow:
        job.until("caught up", lambda: job.condition("CaughtUp") == ("True", "CaughtUp"))
    for changes in writers:
        changes.end()
    for job in follow:
        newest = DeltaTable(str(job.host("source"))).version()
        job.until("the newest version", lambda: oracle.seals(str(job.target))[-1].progress["consumed"] == newest)

    for job in jobs:
        if job.backfill["spec"]["target"]["delta"].get("writeMode") == "Changelog":
            assert oracle.rows_in(str(job.target)) >= ROWS
        else:
            job.equals_the_source()
    delete_all(jobs)
