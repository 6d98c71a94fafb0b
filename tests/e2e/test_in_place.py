"""A column of a live table is filled by a driver in a pod, while another engine writes the table."""

import pytest
from support.node.filling_writer import FillingWriter
from support.node.real_job import example, for_pods

ROWS = 40_000
RATE = 1000
"""Rows a second: a driver can be killed in the middle of its work."""


@pytest.fixture
def filling(lake):
    """A busy writer of /lake/orders; pods, which have another user, may write the table too."""
    changes = FillingWriter(lake / "orders", ROWS)
    for folder in (lake / "orders", lake / "orders" / "_delta_log"):
        folder.chmod(0o777)
    yield changes
    changes.end()


def in_place():
    """Return the example for pods; the writer repeats its transactions, so commits need not wait for minutes."""
    backfill = for_pods(example("orders-in-place.yaml"))
    backfill["spec"]["strategy"]["inPlace"] = {"maxWriterConflicts": 50}
    backfill["spec"] |= {"throttle": {"rowsPerSecond": RATE}, "backoff": {"initialSeconds": 1, "maxSeconds": 5}}
    return backfill


def test_a_column_is_filled_while_another_engine_writes(node, filling, apply, figures):
    """The job is paused, and its driver is killed: every row has its value, and no row of the writer is lost, doubled or changed."""
    job = apply(in_place())
    job.until("filled rows", lambda: job.rows_done() > 0)
    job.commanded("pause", desiredState="Paused")
    job.until("a quiet driver", lambda: job.said(paused="History", quiet=True))
    paused = filling.commits
    job.until("a writer that continues", lambda: filling.commits > paused + 2)
    job.commanded("resume", desiredState="Running")

    pod = job.driver()
    job.kill_pod(pod)
    job.until("the next driver", lambda: (job.driver() or pod)["metadata"]["uid"] != pod["metadata"]["uid"])
    job.commanded("unlimited", within_s=90, throttle={"rowsPerSecond": None})
    status = job.until_complete(attempts=2, failures=0)
    filling.end()

    assert filling.wrong() == []
    assert status["receipt"]["mismatches"] == 0
    figures["in place: failed transactions of the writer"] = filling.conflicts
    figures["in place: transactions of the writer"] = filling.commits
    job.delete()
