"""Pods die in every way: the job continues from its newest commit, or does not notice."""

import json

from support.node.real_job import SLOW, document
from support.node.real_node import seconds
from support.operators.plugin import invoke

ROWS = 120_000
LIMIT = 2000
"""Rows a second: a minute of reading, in which pods can be killed."""

LOW_LIMIT = 300
"""Minutes of reading: missing executors are reported after one minute."""

KILL = "import os, signal; [os.kill(int(pid), signal.SIGKILL) for pid in os.listdir('/proc') if pid.isdigit() and pid not in ('1', str(os.getpid()))]"
"""All processes of the container but the first, which no signal from within can kill."""

STOPPED = 10
KILLED = 137


def test_a_driver_is_killed_and_evicted(node, writer, apply, figures):
    """No executors: a killed driver counts as a failure, an evicted one stops at a barrier; neither loses a row."""
    writer(ROWS)
    job = apply(document("driver-dies", throttle={"rowsPerSecond": LIMIT}))
    first = node.until("a driver pod", job.driver, 30 * SLOW)
    created = seconds(first["metadata"]["creationTimestamp"])
    figures["driver pod created -> first rows committed s"] = round(job.until_rows() - created, 1)
    assert first["spec"].get("automountServiceAccountToken") is False, "a driver without executors calls no API server"
    assert job.executors() == []

    took = job.outlives(
        lambda pod: job.kubectl("exec", pod["metadata"]["name"], "--", "python", "-c", KILL, check=False)
    )
    figures["driver's process killed -> rows of the next attempt s"] = took
    name = job.driver()["metadata"]["name"]
    job.until("a driver that is ready", lambda: job.condition("Ready")[0] == "True")

    job.outlives(lambda _: evict(job, name))

    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    status = job.until_complete(attempts=3, failures=1)
    ended = node.witness.ended(job.namespace, job.name)
    assert (ended[first["metadata"]["name"]], ended[name]) == (KILLED, STOPPED)
    assert [attempt["reason"] for attempt in status["history"]] == ["Infrastructure", "Stopped", "Complete"]
    assert job.passed("Running", "Retrying", "Launching", "Running", "Retrying", "Launching", "Running", "Succeeded")
    job.equals_the_source()
    job.delete()


def test_executors_are_killed(writer, apply):
    """First one of two executors dies while a quota refuses its successor, then both: Spark requests others, and the attempt
    continues with its limit."""
    writer(ROWS)
    job = apply(document("executors-die", instances=2, throttle={"rowsPerSecond": LOW_LIMIT}))
    job.until("both executors", lambda: len(job.executors()) == 2)
    job.until_rows()
    driver = job.driver()["metadata"]["uid"]

    job.kubectl("create", "quota", "full", "--hard=pods=1")
    _outlives_executors(job, 1, meanwhile=_counted_as_missing)
    _outlives_executors(job, 2)

    assert job.driver()["metadata"]["uid"] == driver
    assert job.condition("Throttled") == ("True", "AsRequested")
    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    job.until_complete(attempts=1, failures=0)
    assert "Retrying" not in job.history()
    job.equals_the_source()
    job.delete()


def _outlives_executors(job, count, meanwhile=lambda job: None):
    """Kill some executors; call `meanwhile` before their successors run."""
    before, gone = job.rows(), job.executors()[:count]
    for pod in gone:
        job.kill_pod(pod)
    meanwhile(job)
    job.until("new executors", lambda: len(uids(job.executors()) - uids(gone)) == 2, 120)
    assert len(gone) == count
    job.until_rows(above=before)
    assert job.status()["phase"] == "Running"


def _counted_as_missing(job):
    """After a minute the status reports the number of executors, and the job continues with them; then a new one starts."""
    job.until("the count", lambda: "1 of 2 executors are running" in job.message("ExecutorsWaiting"), 150)
    assert job.condition("ExecutorsWaiting") == ("True", "ExecutorsWaiting")
    assert job.condition("Ready")[0] == "True"
    job.until_rows(above=job.rows())
    job.kubectl("delete", "resourcequota", "full")
    job.until("the end of the condition", lambda: job.condition("ExecutorsWaiting")[0] is None, 60)


def test_executors_are_drained(node, writer, apply):
    """One of two executors is evicted, then a drain of its node evicts both: no task fails, and the status counts them as
    decommissioned. The attempt continues, and waits while the node accepts no pod."""
    writer(ROWS)
    job = apply(document("drained", instances=2, throttle={"rowsPerSecond": LOW_LIMIT}, spark={"ui": True}))
    job.until("both executors", lambda: len(job.executors()) == 2)
    job.until_rows()
    driver, [first, _] = job.driver()["metadata"]["uid"], job.executors()

    evict(job, first["metadata"]["name"])
    _is_replaced(job, [first], lost=1)

    drained, [place] = job.executors(), node.list("nodes")
    name = place["metadata"]["name"]
    try:
        selector = f"--pod-selector=spark-role=executor,backfill.dev/backfill={job.name}"
        node.kubectl(
            "drain", name, selector, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=120s"
        )
        assert job.executors() == [], "a drain returns when the pods have ended"
        job.until("the node in the status", lambda: "unschedulable" in job.message("ExecutorsWaiting"), 150)
    finally:
        node.kubectl("uncordon", name)
    _is_replaced(job, drained, lost=3)

    assert job.driver()["metadata"]["uid"] == driver
    assert _failed_tasks(job) == 0
    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    status = job.until_complete(attempts=1, failures=0)
    assert losses(status) == {"Decommissioned": 3}
    assert "ExecutorsLost" in job.events()
    assert "Retrying" not in job.history()
    job.equals_the_source()
    job.delete()


def test_executors_are_added_and_removed_by_command(writer, apply):
    """`kubectl backfill rescale` gives a running job a second executor, and takes one away again: the attempt continues, and no
    executor counts as lost."""
    writer(ROWS)
    job = apply(document("rescaled", instances=1, throttle={"rowsPerSecond": LOW_LIMIT}))
    job.until("an executor", lambda: len(job.executors()) == 1)
    job.until_rows()
    driver, [first] = job.driver()["metadata"]["uid"], job.executors()

    _rescales(job, 2, "on 2 executors")
    assert uids([first]) < uids(job.executors()), "the first one stays"
    _rescales(job, 1, "on 1 executor")

    assert job.driver()["metadata"]["uid"] == driver
    assert job.condition("EditPending")[0] is None
    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    status = job.until_complete(attempts=1, failures=0)
    assert losses(status) == {}
    assert "ExecutorsLost" not in job.events()
    assert "Retrying" not in job.history()
    job.equals_the_source()
    job.delete()


def _rescales(job, executors, answer):
    """The command is acknowledged, the pods follow, and the job continues."""
    before = job.rows()
    done = invoke(
        job.node.cluster.kubeconfig,
        job.namespace,
        "rescale",
        job.name,
        "--executors",
        executors,
        "--timeout",
        60 * SLOW,
    )
    assert done.exit_code == 0, done.output
    assert answer in done.stdout
    assert "Acknowledged at epoch" in done.stdout
    job.until("the executors", lambda: len(job.executors()) == executors, 120)
    job.until("the number in the status", lambda: job.status()["progress"].get("executors") == executors)
    job.until_rows(above=before)


def _is_replaced(job, gone, lost):
    """New executors run, the status has the losses, and the job continues."""
    before = job.rows()
    job.until("the losses", lambda: losses(job.status()) == {"Decommissioned": lost}, 120)
    job.until("new executors", lambda: len(uids(job.executors()) - uids(gone)) == 2, 120)
    job.until_rows(above=before)
    assert (job.status()["phase"], job.status()["attempts"]) == ("Running", 1)


def _failed_tasks(job):
    """Return the tasks that failed in all executors of the driver, by Spark's own REST API."""
    place = f"/api/v1/namespaces/{job.namespace}/pods/{job.driver()['metadata']['name']}:4040/proxy/api/v1/applications"
    [application] = json.loads(job.kubectl("get", "--raw", place))
    executors = json.loads(job.kubectl("get", "--raw", f"{place}/{application['id']}/allexecutors"))
    assert sum(executor["completedTasks"] for executor in executors) > 0
    return sum(executor["failedTasks"] for executor in executors)


def evict(job, name):
    """Evict a pod, as a drain does."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    place = f"/api/v1/namespaces/{job.namespace}/pods/{name}/eviction"
    job.kubectl("create", "--raw", place, "-f", "-", stdin=json.dumps(eviction))


def losses(status):
    """Return the lost executors of a status by reason."""
    return {loss["reason"]: loss["count"] for loss in status.get("lostExecutors", ())}


def uids(pods):
    """Return the uids of pods."""
    return {pod["metadata"]["uid"] for pod in pods}
