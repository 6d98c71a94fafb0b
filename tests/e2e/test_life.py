"""A Backfill from its plan to its deletion: approved, suspended, taken up again, deleted while it runs; and one that follows."""

import os
import time

from deltalake import DeltaTable
from support.node.real_job import SLOW, document
from support.tables import oracle

ROWS = 120_000
LIMIT = 2000
STOPPED = 10
FOLLOWED_S = 60 * float(os.environ.get("BACKFILL_E2E_FOLLOW_MINUTES", "2"))
LAG_MAX_S = 30
"""A MERGE of a busy node of two cores, and the batch before it."""


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


def test_its_pods_are_orphaned_and_leave_nothing(node, writer, apply):
    """With --cascade=orphan no garbage collector comes: the driver is drained, and the operator tidies."""
    writer(ROWS)
    job = apply(document("orphaned", throttle={"rowsPerSecond": LIMIT}))
    job.until_rows()
    driver = job.driver()["metadata"]["name"]

    job.delete("--cascade=orphan")

    assert node.witness.ended(job.namespace, job.name)[driver] == STOPPED, "it stopped at a barrier"
    last = oracle.seals(str(job.target))[-1]
    assert oracle.violations(str(job.host("source")), str(job.target), last) == []


def test_it_follows_with_a_bounded_lag(node, writer, apply, figures):
    """`after: Follow` for some minutes: what was committed at the source is in the target some seconds later."""
    changes = writer(ROWS)
    job = apply(document("follows", after="Follow", verify="None"))
    job.until("caught up", lambda: job.condition("CaughtUp") == ("True", "CaughtUp"))

    began, lags = time.time(), []

    def followed():
        lags.append((job.status().get("progress") or {}).get("lagSeconds") or 0)
        return time.time() - began > FOLLOWED_S

    job.until(f"{FOLLOWED_S:.0f} s of it", followed)
    changes.end()
    newest = DeltaTable(str(job.host("source"))).version()
    job.until("the newest version", lambda: oracle.seals(str(job.target))[-1].progress["consumed"] == newest)

    figures["lag of a follower s"] = {"p50": sorted(lags)[len(lags) // 2], "largest": max(lags)}
    assert max(lags) < LAG_MAX_S * SLOW
    assert (job.status()["attempts"], job.status().get("failures", 0)) == (1, 0)
    job.equals_the_source()
    job.delete()
