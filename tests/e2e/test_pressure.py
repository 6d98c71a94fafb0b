"""The node itself ends a driver: its container ran out of memory, or its pod filled the disk. The status says which, and the job goes on."""

import time

import pytest
from support.node.real_job import document
from support.node.small_disk import GIB

ROWS = 200_000
LIMIT = 1000
"""Rows a second: three minutes of reading; a kubelet looks at the disk of its pods once a minute."""

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
    told, tells = os.pipe()
    if os.fork() == 0:
        os.closerange(0, 3)
        held = b'x' * (32 << 20)
        os.write(tells, b'!')
        os.close(tells)
        signal.pause()
    os.close(tells)
    os.read(told, 1)
    os.close(told)
"""
"""Processes of 32 MiB each, as many as it takes: so the largest one of the container, which its node kills, is Java."""

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
"""Below the hundredth of the disk at which a kubelet evicts, above what an API server beside it needs."""

PRESSURE_S = 600
"""A kubelet keeps the taint for five minutes after the disk has room again."""

JAVA_DIED, STOPPED, KILLED = 64, 10, 137


def run(job, code):
    """Run Python code in the driver's container; it may end with it."""
    return lambda pod: job.kubectl("exec", pod["metadata"]["name"], "--", "python", "-c", code, check=False)


def later(job):
    """Has an attempt after the first one sealed something?"""
    number = job.status().get("attempts", 0)
    said = job.said(attempt=number) if number > 1 else None
    return said and said["phase"]


def messages(job, reason):
    """Return the messages of Reconciling with a reason, each once."""
    past = [one.get("status") or {} for one in job.node.witness.past(job.namespace, job.name)]
    found = [one for status in past for one in status.get("conditions", ()) if one["type"] == "Reconciling"]
    return {one["message"] for one in found if one["reason"] == reason}


def goes_on(job, history, failures):
    """Its limit is taken away; the second attempt ends well, and the target is what the source was."""
    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    status = job.until_complete(attempts=2, failures=failures)
    assert [one["reason"] for one in status["history"]] == history
    assert job.passed("Running", "Retrying", "Launching", "Running", "Succeeded")
    assert {"Running", "BackingOff", "Complete"} <= job.events()
    job.equals_the_source()
    job.delete()


def test_drivers_that_use_too_much_are_ended_by_their_node(node, writer, apply, figures):
    """One fills its disk, and while the kubelet has not looked yet, another one its memory; both go on."""
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
    """OOMKilled, with what to raise, whichever process the node chose; one failure, and the next attempt goes on."""
    [container] = node.get("pod", first, namespace=job.namespace)["status"]["containerStatuses"]
    assert container["state"]["terminated"]["reason"] == "OOMKilled", container
    assert node.witness.ended(job.namespace, job.name)[first] in (KILLED, JAVA_DIED)
    [said] = messages(job, "BackingOff")
    assert "OOMKilled" in said
    assert "driver.resources.limits.memory" in said
    goes_on(job, ["Infrastructure", "Complete"], failures=1)


def _was_evicted(node, job, first):
    """It used more of the node's disk than its limit, so the kubelet ended it, and the message is the kubelet's own."""
    evicted = node.witness.ended_pod(job.namespace, first)["status"]
    assert (evicted["phase"], evicted["reason"]) == ("Failed", "Evicted")
    code = node.witness.ended(job.namespace, job.name)[first]
    assert code in (STOPPED, KILLED)
    [said] = messages(job, "BackingOff")
    assert "Evicted" in said, "whichever came first: the barrier, or the end of the kubelet's patience"
    assert "ephemeral" in said
    stopped = code == STOPPED
    goes_on(job, ["Stopped" if stopped else "Infrastructure", "Complete"], failures=0)


@pytest.mark.pressure
def test_a_node_is_low_on_disk(node, writer, apply, figures):
    """The kubelet evicts the driver, whose pod has no limit of its own, and takes no pod for a while; then the job goes on."""
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
    history = [one["reason"] for one in status["history"]]
    assert history[0] == ("Stopped" if stopped else "Infrastructure")
    assert set(history[1:-1]) <= {"PodRejected"}
    assert history[-1] == "Complete"
    figures["pods that the full node rejected"] = attempts - 2
    job.equals_the_source()
