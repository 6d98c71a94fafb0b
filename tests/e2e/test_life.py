"""A Backfill from its plan to its deletion: approved, suspended, taken up again, deleted while it runs."""

from support.cluster.real_job import document
from support.tables import oracle

ROWS = 120_000
LIMIT = 2000
STOPPED = 10


def test_approved_suspended_and_deleted_while_it_runs(node, writer, apply):
    """A plan first, which writes nothing; a suspension leaves no pod; a deletion drains the driver and leaves nothing but rows."""
    writer(ROWS)
    job = apply(document("life", throttle={"rowsPerSecond": LIMIT}, approval="Manual"))

    job.until_phase("AwaitingApproval")
    assert job.status()["plan"]["rows"] > 0
    assert job.condition("AwaitingApproval") == ("True", "AwaitingApproval")
    assert not job.target.exists(), "a plan writes nothing"
    job.patch(approved=True)
    job.until_rows()

    job.patch(suspend=True)
    job.until_phase("Suspended")
    assert (job.condition("Suspended"), job.condition("Ready")) == (("True", "AsRequested"), ("True", "AsRequested"))
    job.until("no pod", lambda: not node.list("pods", "backfill.dev/backfill=life", namespace=job.namespace))
    assert "finalizers" not in job.seen()["metadata"], "a suspended Backfill can be deleted without an operator"
    held = oracle.seals(str(job.target))[-1]
    job.patch(suspend=False)
    job.until_rows(above=held.state["rowsDone"])
    assert [one["reason"] for one in job.status()["history"]] == ["Planned", "Suspended"]
    assert job.status().get("failures", 0) == 0
    assert job.passed(
        "Pending", "AwaitingApproval", "Launching", "Running", "Suspending", "Suspended", "Launching", "Running"
    )

    driver = job.driver()["metadata"]["name"]
    job.delete()
    assert job.passed("Suspended", "Running", "Terminating")
    assert node.witness.ended(job.namespace, job.name)[driver] == STOPPED, "it stopped at a barrier"
    last = oracle.seals(str(job.target))[-1]
    assert last.state["rowsDone"] > held.state["rowsDone"]
    assert oracle.violations(str(job.host("source")), str(job.target), last) == []
