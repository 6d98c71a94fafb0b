"""A tenant's namespace is deleted while its job runs: nothing stays, no other job notices, and it can be created again."""

from support.node.real_job import LAKE, SLOW, Job, document
from support.tables import oracle

ROWS = 120_000
LIMIT = 2000
STOPPED = 10
GONE_S = 180


def test_a_namespace_is_deleted_while_its_job_runs(node, writer, apply, request):
    """The driver is drained, the namespace goes although its Role went first, and a job of another namespace still obeys."""
    writer(ROWS)
    request.addfinalizer(node.make_anew)
    doomed = apply(document("doomed", throttle={"rowsPerSecond": LIMIT}))
    other = Job(node, on_a_folder("other"), namespace=node.namespace).apply()
    for job in (doomed, other):
        job.until_rows()
    driver, operators = doomed.driver()["metadata"]["name"], uids(node.operators())
    held = doomed.rows()

    node.kubectl("delete", "namespace", node.restricted, "--wait=false")
    node.until("the namespace's end", lambda: node.get("namespace", node.restricted) is None, GONE_S * SLOW,
               signs=doomed.signs, namespace=node.restricted)  # fmt: skip

    assert node.witness.ended(doomed.namespace, doomed.name)[driver] == STOPPED, "it stopped at a barrier"
    assert doomed.rows() >= held
    last = oracle.seals(str(doomed.target))[-1]
    assert oracle.violations(str(doomed.host("source")), str(doomed.target), last) == []
    assert "Running" in doomed.history()
    assert "Failed" not in doomed.history()

    other.commanded("unlimited", within_s=60, throttle={"rowsPerSecond": None})
    other.until_complete(attempts=1, failures=0)
    other.equals_the_source()
    assert uids(node.operators()) == operators, "no operator was replaced"
    restarts = [
        container["restartCount"] for pod in node.operators() for container in pod["status"]["containerStatuses"]
    ]
    assert set(restarts) == {0}

    node.make_anew()
    again = apply(document("doomed"))
    again.until_complete(attempts=1, failures=0)
    assert again.rows() > held, "it continued from the last commit of the deleted job"
    again.equals_the_source()
    assert {"Running", "Complete"} <= again.events()
    for job in (other, again):
        job.delete()


def on_a_folder(name):
    """Return a Backfill that mounts the lake as a folder of the node, for a namespace without a claim."""
    backfill = document(name, throttle={"rowsPerSecond": LIMIT})
    [volume] = backfill["spec"]["driver"]["template"]["spec"]["volumes"]
    del volume["persistentVolumeClaim"]
    volume["hostPath"] = {"path": str(LAKE)}
    return backfill


def uids(pods):
    """Return the uids of pods."""
    return {pod["metadata"]["uid"] for pod in pods}
