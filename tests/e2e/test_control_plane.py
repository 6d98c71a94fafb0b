"""Operators die, freeze and are replaced, and the API server ends: one driver, one attempt."""

import os

import pytest
from support.node import processes
from support.node.real_job import SLOW, document

ROWS = 200_000
LIMIT = 2000


@pytest.fixture
def job(writer, apply):
    """A Backfill whose attempt is on record; its driver may not be there yet."""
    writer(ROWS)
    made = apply(document("undisturbed", throttle={"rowsPerSecond": LIMIT}))
    made.until("an attempt on record", lambda: made.status().get("attempt"), 30)
    return made


def completes_undisturbed(node, job, driver):
    """Its limit is taken away; the driver that it had ends well, and the target is what the source was."""
    job.commanded("unlimited", within_s=60, throttle={"rowsPerSecond": None})
    job.until_complete(attempts=1, failures=0)
    assert node.witness.ended(job.namespace, job.name) == {driver: 0}, "one driver, which ended well"
    job.equals_the_source()
    job.delete()


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

    job.commanded("resume", within_s=60, desiredState="Running")
    completes_undisturbed(node, job, driver)


def test_a_leader_that_freezes_and_wakes_does_not_lead(node, job, figures):
    """Another one takes over; the one that wakes gives no command of its own, and the job has one driver."""
    job.until_rows()
    driver = job.driver()["metadata"]["name"]
    job.until("a leader", lambda: node.leader() in names(node.operators()))
    frozen = node.leader()
    [uid] = [one["metadata"]["uid"] for one in node.operators() if one["metadata"]["name"] == frozen]

    with processes.frozen(uid):
        took = job.commanded("pause after the leader froze", within_s=90, desiredState="Paused")
        assert node.leader() != frozen
    figures["leader frozen -> its command acknowledged s"] = round(took, 1)
    job.commanded("resume beside the one that woke", within_s=60, desiredState="Running")
    assert node.leader() != frozen

    completes_undisturbed(node, job, driver)


def test_the_operator_is_upgraded_and_rolled_back_beside_a_job(node, job):
    """Neither is seen in the data: the driver goes on, and obeys the operator of the day."""
    job.until_rows()
    driver, before = job.driver()["metadata"]["name"], uids(node.operators())

    for number, change in enumerate((lambda: node.upgrade(operator={"settings": {"pollSeconds": 1}}), node.roll_back)):
        rows = job.rows()
        change()
        job.until_rows(above=rows)
        node.until("new operators alone", lambda old=before: old.isdisjoint(uids(node.operators())), 60 * SLOW)
        before = uids(node.operators())
        job.commanded("another limit", within_s=60, throttle={"rowsPerSecond": LIMIT + number})
        assert names(job.drivers()) == [driver]

    completes_undisturbed(node, job, driver)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may end the API server of a node")
def test_the_api_server_ends_and_comes_back(node, job, request):
    """Rows are committed meanwhile, and commands are obeyed after it; no pod is made twice."""
    job.until_rows()
    driver = job.driver()["metadata"]["name"]
    _, port = node.address_of_the_api()
    server = processes.ApiServer(port)

    server.kill()
    rows = job.rows()
    node.until("rows without an API server", lambda: job.rows() > rows + LIMIT, 60 * SLOW, signs=job.rows)
    request.addfinalizer(server.end)
    server.start()
    node.until("the API server", lambda: "ok" in node.kubectl("get", "--raw", "/readyz", check=False), 90 * SLOW)

    job.commanded("pause", within_s=90, desiredState="Paused")
    job.commanded("resume", within_s=60, desiredState="Running")
    completes_undisturbed(node, job, driver)


def uids(pods):
    return {one["metadata"]["uid"] for one in pods}
