"""Operators die, freeze and are replaced, and the API server ends: one job lives through all of it, with one driver in one attempt."""

import os

import pytest
from support.node import processes
from support.node.real_job import SLOW, Job, document, empty_lake
from support.node.writer import Writer

ROWS = 500_000
LIMIT = 1000
"""Rows a second: eight minutes of reading, enough for all scenarios."""


@pytest.fixture(scope="module")
def node(scenario):
    """The node of all these tests: they share one job."""
    with scenario("test_control_plane") as prepared:
        yield prepared


@pytest.fixture(scope="module")
def job(node):
    """A Backfill whose attempt is on record; its driver may not exist yet."""
    writer = Writer(empty_lake() / "orders", ROWS)
    made = Job(node, document("undisturbed", throttle={"rowsPerSecond": LIMIT})).apply()
    made.until("an attempt on record", lambda: made.status().get("attempt"), 30)
    yield made
    writer.end()


@pytest.fixture(scope="module")
def driver(job):
    """Name of its one driver, which has committed rows."""
    job.until_rows()
    return job.driver()["metadata"]["name"]


def names(pods):
    return [pod["metadata"]["name"] for pod in pods]


def test_operators_die_while_they_launch_and_while_they_command(node, job, figures, request):
    """All operators die during a launch, then the leader dies while it delivers a command; another operator finishes both."""
    node.kill_operators(*names(node.operators()))
    driver = request.getfixturevalue("driver")

    job.until("a leader", lambda: node.leader() in names(node.operators()))
    leader = node.leader()
    job.patch(desiredState="Paused")
    node.kill_operators(leader)
    took = job.commanded("pause after the leader's death", within_s=60, desiredState="Paused")
    figures["leader killed -> its command acknowledged s"] = round(took, 1)
    assert job.status()["phase"] == "Paused"
    assert node.leader() != leader

    job.commanded("resume", within_s=60, desiredState="Running")
    assert names(job.drivers()) == [driver]


def test_a_leader_that_freezes_and_wakes_does_not_lead(node, job, driver, figures):
    """Another operator takes over; the one that wakes sends no command, and the job has one driver."""
    job.until("a leader", lambda: node.leader() in names(node.operators()))
    frozen = node.leader()
    [uid] = [pod["metadata"]["uid"] for pod in node.operators() if pod["metadata"]["name"] == frozen]

    with processes.frozen(uid):
        took = job.commanded("pause after the leader froze", within_s=90, desiredState="Paused")
        assert node.leader() != frozen
    figures["leader frozen -> its command acknowledged s"] = round(took, 1)
    job.commanded("resume after the frozen one woke", within_s=60, desiredState="Running")
    assert node.leader() != frozen
    assert names(job.drivers()) == [driver]


def test_the_operator_is_upgraded_and_rolled_back_beside_a_job(node, job, driver):
    """Neither shows in the data: the driver continues, and obeys the operator that is installed."""
    before = uids(node.operators())

    for number, change in enumerate((lambda: node.upgrade(operator={"settings": {"pollSeconds": 1}}), node.roll_back)):
        rows = job.rows()
        change()
        job.until_rows(above=rows)
        node.until("only new operators", lambda old=before: old.isdisjoint(uids(node.operators())), 60 * SLOW)
        before = uids(node.operators())
        job.commanded("another limit", within_s=60, throttle={"rowsPerSecond": LIMIT + 1 + number})
        assert names(job.drivers()) == [driver]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may end the API server of a node")
def test_the_api_server_ends_and_comes_back(node, job, driver, request):
    """Rows are committed meanwhile, and commands are obeyed afterwards; no pod is made twice."""
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
    assert names(job.drivers()) == [driver]


def test_the_job_completes_undisturbed(node, job, driver):
    """After all of it the limit is removed; the only driver ends well, and the target equals the source."""
    assert job.rows() < ROWS, "history ended before the scenarios did"
    job.commanded("unlimited", within_s=60, throttle={"rowsPerSecond": None})
    job.until_complete(attempts=1, failures=0)

    assert node.witness.ended(job.namespace, job.name) == {driver: 0}, "one driver, which ended well"
    job.equals_the_source()
    job.delete()


def uids(pods):
    return {pod["metadata"]["uid"] for pod in pods}
