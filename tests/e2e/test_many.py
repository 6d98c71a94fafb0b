"""Twenty Backfills at once share one node."""

import pytest
from support.node.real_job import Job, apply_all, delete_all, document
from support.node.writer import make_orders

MANY = 20


@pytest.mark.timeout(3600)
def test_twenty_backfills_complete_on_one_node(node, lake):
    """One source without changes serves all, because the node is under test; jobs without room wait, and all complete at the
    first attempt."""
    make_orders(lake / "orders", 1000)
    jobs = []
    for number in range(MANY):
        backfill = document(f"many-{number}")
        # A node of two cores has room for six at a time: the others wait at the scheduler, as on a full cluster.
        backfill["spec"]["driver"]["resources"]["requests"]["cpu"] = "300m"
        jobs.append(Job(node, backfill))
    apply_all(jobs)

    for job in jobs:
        job.until("its end", lambda: job.condition("Finished")[0] == "True", 300)
    for job in jobs:
        job.until_complete(attempts=1, failures=0)
        job.equals_the_source()
    delete_all(jobs)
