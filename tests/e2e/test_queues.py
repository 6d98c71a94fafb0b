"""Two jobs in a queue of a real Kueue with quota for one: the higher priority preempts, and the preempted job loses no row."""

import contextlib
import json

import pytest
from support.kueue.build import NoKueueError
from support.kueue.running import kueue_on
from support.node.real_job import SLOW, document
from support.tables import oracle

ROWS = 120_000
LIMIT = 2000
"""Rows a second: a minute of reading, in which the job can be preempted."""

STOPPED = 10
QUEUES = "localqueues,clusterqueues,resourceflavors"


@pytest.fixture
def queue(node, tmp_path):
    """A real Kueue on the node's API server, an operator that uses it, and a queue with room for one job."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(kueue_on(node.cluster.kubeconfig, tmp_path, node.address_of_this_machine()))
        except NoKueueError as none:
            pytest.fail(f"no Kueue for this run: {none}", pytrace=False)
        objects = {"apiVersion": "v1", "kind": "List", "items": room_for_one()}
        node.kubectl("apply", "-f", "-", stdin=json.dumps(objects), namespace=node.restricted)
        stack.callback(node.kubectl, "delete", QUEUES, "--all", "--timeout=60s", namespace=node.restricted)
        stack.callback(node.upgrade, queues={"enabled": False})
        stack.callback(node.tidy, 120 * SLOW)  # a queue with a Workload is not deleted
        node.upgrade(queues={"enabled": True})
        yield "team"


def room_for_one():
    """Return a queue, and the quota of a driver and its executor: a second driver needs 50m more."""
    quota = [{"name": "cpu", "nominalQuota": "250m"}, {"name": "memory", "nominalQuota": "8Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "any", "resources": quota}]}
    specs = {
        "ResourceFlavor": ("any", {}),
        "ClusterQueue": ("data", {"namespaceSelector": {}, "resourceGroups": [group],
                                  "preemption": {"withinClusterQueue": "LowerPriority"}}),
        "LocalQueue": ("team", {"clusterQueue": "data"}),
    }  # fmt: skip
    return [
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}
        for kind, (name, spec) in specs.items()
    ]


def test_a_preempted_job_continues_from_its_last_commit(node, writer, apply, queue):
    """Driver and executor are admitted together; evicted, they stop at a barrier, and no failure is counted."""
    writer(ROWS)
    job = apply(document("preempted", instances=1, queue=queue, priority=1, throttle={"rowsPerSecond": LIMIT}))
    job.until_rows()
    job.until("the executor", lambda: len(job.executors()) == 1)
    driver = job.driver()["metadata"]["name"]

    urgent = apply(document("urgent", queue=queue, priority=9))
    node.until("the eviction", lambda: "EvictedByQueue" in reasons(job), 120 * SLOW, namespace=job.namespace)
    urgent.until_rows()
    assert job.driver() is None, "one job at a time"
    held = job.rows()
    assert held > 0
    assert node.witness.ended(job.namespace, job.name)[driver] == STOPPED, "it stopped at a barrier"
    assert job.condition("Reconciling") == ("True", "WaitingForQueue")
    assert "LocalQueue team" in job.message("Reconciling")

    urgent.until_complete(attempts=1, failures=0)
    urgent.equals_the_source()
    began = oracle.seals(str(job.target))[-1].state["rowsDone"]
    job.until_rows(above=began)
    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    job.until_complete(attempts=2, failures=0)

    first = next(seal.state["rowsDone"] for seal in oracle.seals(str(job.target)) if seal.state["attempt"] == 2)
    assert first >= held, "the second attempt began with the rows of the first"
    assert reasons(job) == ["EvictedByQueue", "Complete"]
    job.equals_the_source()
    for ended in (job, urgent):
        ended.delete()


def reasons(job):
    """Return the reasons for which the attempts of a job have ended."""
    return [attempt["reason"] for attempt in job.status().get("history", ())]
