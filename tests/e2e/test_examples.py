"""Every example of the repository runs on a node as it is, but for where its pods find the lake."""

import pytest
from deltalake import DeltaTable
from support.node.real_job import example, for_pods
from support.repository import ROOT
from support.tables import oracle

ROWS = 40_000
HERE = "orders-cluster.yaml"
"""Names a folder of the node, so it runs where that may be mounted."""

ELSEWHERE = ("events-kafka.yaml", "customers-kafka.yaml", "bucket-to-bucket.yaml", HERE, "orders-replica.yaml")
"""Those of topics need a broker, one needs an S3 server (test_topics.py, test_buckets.py); the last two are scenarios of test_smoke.py."""

FILES = sorted(one.name for one in (ROOT / "examples").glob("*.yaml") if one.name not in ELSEWHERE)


@pytest.mark.parametrize("file", FILES)
def test_an_example_runs_as_it_is(file, writer, apply):
    """Under a live writer, which only appends where the example takes no changes; the target is what its document says."""
    changes = writer(ROWS, appends_only="append" in file)
    job = apply(for_pods(example(file)))

    if job.backfill["spec"].get("after") == "Follow":
        job.until("caught up", lambda: job.condition("CaughtUp") == ("True", "CaughtUp"))
        changes.end()
        newest = DeltaTable(str(job.host("source"))).version()
        job.until("the newest version", lambda: oracle.seals(str(job.target))[-1].progress["consumed"] == newest)
    else:
        job.until_complete(attempts=1, failures=0)
    if job.backfill["spec"]["target"]["delta"].get("writeMode") == "Changelog":
        assert oracle.rows_in(str(job.target)) >= ROWS
    else:
        job.equals_the_source()
    job.delete()
