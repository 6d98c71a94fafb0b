"""The node itself ends a driver whose container ran out of memory or whose pod filled the disk. The status names the cause, and
the job continues."""

import time

import pytest
from support.node.real_job import document
from support.node.small_disk import GIB

ROWS = 200_000
LIMIT = 1000
"""Rows a second: three minutes of reading; a kubelet measures the disk of its pods once a minute."""

EAT = """
import os, signal
def java():
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if open(f'/proc/{pid}/comm').read().strip() == 'java':
                return True
        except OSError:
            pass
while java():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.closerange(0, 3)
        held = b'x' * (32 << 20)
        os.write(writer, b'!')
        os.close(writer)
        signal.pause()
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
"""
"""Fill the memory with processes of 32 MiB each. Java stays the largest one of the container, so the node kills Java."""

FILL = """
with open('/var/lib/backfill/filler', 'wb') as filler:
    for _ in range(600):
        filler.write(b'x' * (1 << 20))
"""
DISK = "400Mi"
FILL_THE_NODE = """
import os
with open('/var/lib/backfill/filler', 'wb') as filler:
    while os.statvfs('/var/lib/backfill').f_bavail * os.statvfs('/var/lib/backfill').f_frsize > 32 << 20:
        filler.write(b'x' * (1 << 20))
        filler.flush()
"""
"""Free bytes below the hundredth of the disk at which a kubelet evicts, above the need of an API server on the same disk."""

PRESSURE_S = 600
"""A kubelet keeps the taint for five minutes after disk space is free again."""

JAVA_DIED, STOPPED, KILLED = 64, 10, 137


def run(job, code):
    """Run Python code in the driver's container; the code may end the container."""
    return lambda pod: job.kubectl("exec", pod["metadata"]["name"], "--", "python", "-c", code, check=False)


def later(job):
    """Return the phase of a later attempt once it sealed something."""
    number = job.status().get("attempts", 0)
    state = job.said(attempt=number) if number > 1 else None
    return state and state["phase"]


def messages(job, reason):
    """Return the distinct messages of Reconciling with a reason."""
    past = [backfill.get("status") or {} for backfill in job.node.witness.past(job.namespace, job.name)]
    conditions = [
        backfill for status in past for backfill in status.get("conditions", ()) if backfill["type"] == "Reconciling"
    ]
    return {backfill["message"] for backfill in conditions if backfill["reason"] == reason}


def completes_after_restart(job, history, failures):
    """Remove the limit; the second attempt ends well, and the target equals the source."""
    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    status = job.until_complete(attempts=2, failures=failures)
    assert [attempt["reason"] for attempt in status["history"]] == history
    assert job.passed("Running", "Retrying", "Launching", "Running", "Succeeded")
    assert {"Running", "BackingOff", "Complete"} <= job.events()
    job.equals_the_source()
    job.delete()


def test_drivers_that_use_too_much_are_ended_by_their_node(node, writer, apply, figures):
    """One driver fills its disk; before the kubelet measures it, another one fills its memory. Both jobs continue."""
    writer(ROWS)
    full = document("evicted", throttle={"rowsPerSecond": LIMIT})
    full["spec"]["driver"]["resources"]["limits"] = {"ephemeral-storage": DISK}
    full, oom = apply(full), apply(document("oom", throttle={"rowsPerSecond": LIMIT}))
    for job in (full, oom):
        job.until_rows()
    evicted, killed = (job.driver()["metadata"]["name"] for job in (full, oom))

    evicted_took = full.ended_by(run(full, FILL))
    figures["driver out of memory -> rows of the next attempt s"] = oom.outlives(run(oom, EAT))
    _was_killed_for_memory(node, oom, killed)
    figures["driver's disk full -> rows of the next attempt s"] = evicted_took()
    _was_evicted(node, full, evicted)


def _was_killed_for_memory(node, job, first):
    """The status names OOMKilled and the limit to raise, whichever process the node killed; one failure, and the next attempt continues."""
    [container] = node.get("pod", first, namespace=job.namespace)["status"]["containerStatuses"]
    assert container["state"]["terminated"]["reason"] == "OOMKilled", container
    assert node.witness.ended(job.namespace, job.name)[first] in (KILLED, JAVA_DIED)
    [message] = messages(job, "BackingOff")
    assert "OOMKilled" in message
    assert "driver.resources.limits.memory" in message
    completes_after_restart(job, ["Infrastructure", "Complete"], failures=1)


def _was_evicted(node, job, first):
    """The pod used more of the node's disk than its limit, so the kubelet ended it; the message is the kubelet's."""
    evicted = node.witness.ended_pod(job.namespace, first)["status"]
    assert (evicted["phase"], evicted["reason"]) == ("Failed", "Evicted")
    code = node.witness.ended(job.namespace, job.name)[first]
    assert code in (STOPPED, KILLED)
    [message] = messages(job, "BackingOff")
    assert "Evicted" in message, "whichever came first: the barrier, or the end of the kubelet's patience"
    assert "ephemeral" in message
    stopped = code == STOPPED
    completes_after_restart(job, ["Stopped" if stopped else "Infrastructure", "Complete"], failures=0)


@pytest.mark.pressure
def test_a_node_is_low_on_disk(node, writer, apply, figures):
    """The kubelet evicts the driver, whose pod has no disk limit, and accepts no pod for a while; then the job continues."""
    [only] = node.list("nodes")
    gib = int(only["status"]["capacity"]["ephemeral-storage"].removesuffix("Ki")) / (1 << 20)
    if gib > GIB:
        pytest.skip(
            f"the node's disk has {gib:.0f} GiB: `make e2e-pressure` fills one of {GIB} (docs/kubernetes.md, Tested)"
        )
    writer(ROWS)
    job = apply(document("squeezed", throttle={"rowsPerSecond": LIMIT}))
    job.until_rows()
    first = job.driver()["metadata"]["name"]

    run(job, FILL_THE_NODE)(job.driver())
    evicted = job.until("an eviction", lambda: job.node.witness.ended_pod(job.namespace, first), PRESSURE_S)["status"]
    assert evicted["reason"] == "Evicted", evicted
    assert "low on resource: ephemeral-storage" in evicted["message"]
    began = time.monotonic()
    job.until("rows of a later attempt", lambda: later(job), PRESSURE_S)
    figures["node full -> rows of a later attempt s"] = round(time.monotonic() - began, 1)

    stopped = node.witness.ended(job.namespace, job.name)[first] == STOPPED
    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    attempts = job.status()["attempts"]
    status = job.until_complete(attempts=attempts, failures=0)
    history = [attempt["reason"] for attempt in status["history"]]
    assert history[0] == ("Stopped" if stopped else "Infrastructure")
    assert set(history[1:-1]) <= {"PodRejected"}
    assert history[-1] == "Complete"
    figures["pods that the full node rejected"] = attempts - 2
    job.equals_the_source()
