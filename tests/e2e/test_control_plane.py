"""Operators die: one driver, one attempt."""

import pytest
from support.cluster.real_job import document

ROWS = 200_000
LIMIT = 2000


@pytest.fixture
def job(writer, apply):
    """A Backfill whose attempt is on record; its driver may not be there yet."""
    writer(ROWS)
    made = apply(document("undisturbed", throttle={"rowsPerSecond": LIMIT}))
    made.until("an attempt on record", lambda: made.status().get("attempt"), 30)
    return made


def names(pods):
    return [one["metadata"]["name"] for one in pods]


def test_operators_die_while_they_launch_and_while_they_command(node, job, figures):
    """All of them in the middle of a launch; then the one that leads, with a command on its way: another one finishes both."""
    node.kill_operators(*names(node.operators()))
    job.until_rows()
    driver = job.driver()["metadata"]["name"]

    job.until("a leader", lambda: node.leader() in names(node.operators()))
    leader = node.leader()
    job.patch(desiredState="Paused")
    node.kill_operators(leader)
    took = job.commanded("pause after the leader's death", within_s=60, desiredState="Paused")
    figures["leader killed -> its command acknowledged s"] = round(took, 1)
    assert job.status()["phase"] == "Paused"
    assert node.leader() != leader

    job.commanded("resume", within_s=60, desiredState="Running", throttle={"rowsPerSecond": None})
    job.until_complete(attempts=1, failures=0)
    assert node.witness.ended(job.namespace, job.name) == {driver: 0}, "one driver, which ended well"
    job.equals_the_source()
    job.delete()
