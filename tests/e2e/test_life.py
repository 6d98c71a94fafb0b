"""A Backfill from its plan to its deletion: approved, suspended, resumed, deleted while it runs; and one that follows."""

import os
import time

from deltalake import DeltaTable
from support.node.figures import nearest_rank
from support.node.lag import lags
from support.node.real_job import SLOW, document
from support.tables import oracle

ROWS = 120_000
LIMIT = 2000
STOPPED = 10
FOLLOWED_S = 60 * float(os.environ.get("BACKFILL_E2E_FOLLOW_MINUTES", "1"))
LAG_MAX_S = 30
"""One MERGE on a busy node of two cores, plus the batch before it."""


def test_a_backfill_is_approved_suspended_and_deleted_while_it_runs(node, writer, apply):
    """A plan writes nothing; a suspension leaves no pod; a deletion drains the driver and leaves only rows.

    A second Backfill is deleted with --cascade=orphan: no garbage collector runs, so the operator cleans up.
    """
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
    orphaned = apply(document("orphaned", throttle={"rowsPerSecond": LIMIT // 4}))
    job.patch(suspend=False)
    job.until_rows(above=held.state["rowsDone"])
    assert [attempt["reason"] for attempt in job.status()["history"]] == ["Planned", "Suspended"]
    assert job.status().get("failures", 0) == 0
    assert job.passed(
        "Pending", "AwaitingApproval", "Launching", "Running", "Suspending", "Suspended", "Launching", "Running"
    )

    last = drained(node, job)
    assert job.passed("Suspended", "Running", "Terminating")
    assert last.state["rowsDone"] > held.state["rowsDone"]
    orphaned.until_rows()
    drained(node, orphaned, "--cascade=orphan")


def drained(node, job, *flags):
    """Delete a running Backfill and return its last commit: the driver stops at a barrier, and the committed rows are right."""
    driver = job.driver()["metadata"]["name"]
    job.delete(*flags)

    assert node.witness.ended(job.namespace, job.name)[driver] == STOPPED, "it stopped at a barrier"
    last = oracle.seals(str(job.target))[-1]
    assert oracle.violations(str(job.host("source")), str(job.target), last) == []
    return last


def test_a_follower_keeps_a_bounded_lag(node, writer, apply, figures):
    """`after: Follow` for a while: source commits reach the target seconds later, by the times of both logs."""
    changes = writer(ROWS)
    job = apply(document("follows", after="Follow", verify="None"))
    job.until("caught up", lambda: job.condition("CaughtUp") == ("True", "CaughtUp"))

    began, reported = time.time(), []

    def followed():
        reported.append(job.status()["progress"]["lagSeconds"])
        return time.time() - began > FOLLOWED_S

    job.until(f"{FOLLOWED_S:.0f} s of following", followed)
    changes.end()
    newest = DeltaTable(str(job.host("source"))).version()
    job.until("the newest version", lambda: oracle.seals(str(job.target))[-1].progress["consumed"] == newest)

    seen = lags(job.host("source"), job.target, since=began)
    assert len(seen) > 1, "the writer wrote nothing meanwhile"
    for name, of in (("lag of a follower", seen), ("lag that a follower reports", reported)):
        figures[f"{name} p50 s"], figures[f"{name} largest s"] = nearest_rank(of, 50), max(of)
        assert max(of) < LAG_MAX_S * SLOW, name
    assert (job.status()["attempts"], job.status().get("failures", 0)) == (1, 0)
    job.equals_the_source()
    job.delete()
