"""Pods die in every way: the job continues from its newest commit, or does not notice."""

import json

from support.node.real_job import SLOW, document
from support.node.real_node import seconds

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

    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    place = f"/api/v1/namespaces/{job.namespace}/pods/{name}/eviction"
    job.outlives(lambda _: job.kubectl("create", "--raw", place, "-f", "-", stdin=json.dumps(eviction)))

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


def uids(pods):
    """Return the uids of pods."""
    return {pod["metadata"]["uid"] for pod in pods}
