"""The shortest scenarios: one job through all its commands, one for each other way to fill a table, and an installation's life.

    BACKFILL_TEST_CLUSTER=…/cluster make e2e-smoke

The lake is a folder of this machine, so the node must see this machine's files. The node of the kit sees them, and so does a
cluster of kind or k3d that these tests make.
"""

import json
import os

import pytest
from deltalake import DeltaTable
from support.node.figures import nearest_rank
from support.node.real_job import SLOW, committed_at, document, example, for_pods
from support.node.real_node import TRIAL, seconds
from support.tables import oracle

ROWS = int(os.environ.get("BACKFILL_E2E_ROWS", "400000"))
ARRANGED_ROWS = 160_000
"""More than a minute of reading at the limit, so that a driver can be killed in the middle of it."""

QUIET_BARRIERS = 3
RATE = 8000
RATE_LEAST = RATE * 0.5 / SLOW
MEASURED_MAX = 3
"""A limit is an upper bound: other work may take the cores for some seconds, but not every time."""

RATE_OVER_BARRIERS = 8
COMMANDS = 20
TRIED = 10
"""Rows of the table that `helm test` fills."""

pytestmark = pytest.mark.smoke


def with_executors(instances):
    """Return the example for a cluster, with this number of executors."""
    backfill = example("orders-cluster.yaml")
    backfill["spec"]["executor"]["instances"] = instances
    return backfill


def rate_of(job, barriers):
    """Return rows a second between the newest commit and the commit `barriers` later."""
    first = len(committed_at(job.target)) - 1
    job.until("commits at the new limit", lambda: len(committed_at(job.target)) > first + barriers)
    (start, before), *_, (end, after) = committed_at(job.target)[first : first + barriers + 1]
    return (after - before) / (end - start)


def test_a_job_runs_from_apply_to_complete(node, writer, apply, figures):
    """Two executors: the job is paused, limited and resumed while it runs, its driver is killed, and the target equals the source."""
    changes = writer(ROWS)
    job = apply(with_executors(2), namespace=node.namespace)

    pod = node.until("a driver pod", job.driver, 30 * SLOW)
    created = seconds(pod["metadata"]["creationTimestamp"])
    figures["driver pod created -> first rows committed, two executors s"] = round(job.until_rows() - created, 1)
    job.until("both executors", lambda: len(job.executors()) == 2)
    assert {executor["metadata"]["ownerReferences"][0]["uid"] for executor in job.executors()} == {
        pod["metadata"]["uid"]
    }
    job.until_phase("Running")
    assert job.condition("Throttled") == ("True", "AsRequested")

    _pauses(job)
    _keeps_a_limit(job)
    _answers(job, figures)

    figures["driver killed -> rows of the next attempt, two executors s"] = job.outlives(job.kill_pod)
    assert job.driver()["metadata"]["uid"] != pod["metadata"]["uid"]

    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    status = job.until_complete(attempts=2, failures=0)
    assert [attempt["reason"] for attempt in status["history"]] == ["Infrastructure", "Complete"]
    assert job.passed("Launching", "Running", "Paused", "Running", "Retrying", "Launching", "Running", "Succeeded")
    assert {"Running", "AsRequested", "BackingOff", "Complete"} <= job.events()
    assert {restarts(operator) for operator in node.operators()} == {0}
    job.equals_the_source()
    figures["rows"], figures["commits of the writer"] = status["receipt"]["rows"], changes.commits
    job.delete()


def _pauses(job):
    """A paused job commits no history, and resumes from there."""
    job.commanded("pause", desiredState="Paused")
    # Work in flight when the pause is acknowledged still commits, with the barrier after it ends.
    quiet = job.until("a quiet driver", lambda: job.said(paused="History", quiet=True))["epoch"]
    job.until("a barrier", lambda: (job.said() or {}).get("epoch", 0) > quiet + 1)
    held = job.rows()
    job.until("barriers", lambda: (job.said() or {}).get("epoch", 0) > quiet + 1 + QUIET_BARRIERS)
    assert job.rows() == held, "a paused job commits no history"
    assert (job.status()["phase"], job.condition("Ready")) == ("Paused", ("True", "AsRequested"))
    job.commanded("resume", desiredState="Running")
    job.until_rows(above=held)


def _keeps_a_limit(job):
    """The job reads the requested rows a second, measured at the target."""
    job.commanded("limit", throttle={"rowsPerSecond": RATE})
    job.until("the limit at work", lambda: job.said(throttleRowsPerSecond=RATE))
    rates = []
    while len(rates) < MEASURED_MAX and max(rates, default=0) < RATE_LEAST:
        rates.append(rate_of(job, RATE_OVER_BARRIERS))
    assert RATE_LEAST < max(rates) < RATE * 1.25, rates


def _answers(job, figures):
    """Commands follow one another, each confirmed by a commit before the next one."""
    for number in range(COMMANDS):
        rate = 1000 + number % 2
        job.commanded(
            "limit", throttle={"rowsPerSecond": rate}, also=lambda: job.status()["control"]["rowsPerSecond"] == rate
        )
    took = job.figures["acknowledged s"]
    figures["commands"], figures["command acknowledged p50 s"] = len(took), nearest_rank(took, 50)
    figures["command acknowledged p99 s"] = nearest_rank(took, 99)


def merged_while_reading(job):
    """Return the source versions of commits made while rows were read, once there is more than one; else `None`."""
    held = {seal.progress["consumed"] for seal in oracle.seals(str(job.target)) if seal.state["rowsDone"]
            and seal.progress["phase"] == "Reading"}  # fmt: skip
    return held if len(held) > 1 else None


def test_copied_rows_follow_the_source_before_the_last_row_is_read(node, writer, apply):
    """Arrangement merges changes before the last row is read; the driver's process is killed, and the target equals the source."""
    writer(ARRANGED_ROWS)
    backfill = document("arranged", instances=1, strategy={"type": "Arrangement"}, throttle={"rowsPerSecond": 2000})
    job = apply(backfill)

    job.until("changes between two ranges", lambda: merged_while_reading(job))
    job.until("the key", lambda: "order_id = " in (job.status().get("progress") or {}).get("position", ""))
    job.outlives(job.kill_pod)
    assert oracle.seals(str(job.target))[-1].progress["phase"] == "Reading", "nothing was left to read after the kill"

    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    job.until_complete(attempts=2, failures=0)
    job.equals_the_source()
    job.delete()


def shipped(job):
    """Return the version of the source in the newest commit."""
    return oracle.seals(str(job.target))[-1].progress["shipped"]


def test_a_clone_follows_its_source(writer, apply, figures):
    """The example of Replica: its driver dies during the copy and again while it follows the log; the target remains a version
    of the source."""
    changes = writer(ARRANGED_ROWS)
    backfill = for_pods(example("orders-replica.yaml"), instances=1)
    backfill["spec"] |= {"throttle": {"rowsPerSecond": 4000}, "backoff": {"initialSeconds": 1, "maxSeconds": 5}}
    job = apply(backfill)

    job.until_rows()
    assert oracle.seals(str(job.target))[-1].progress["phase"] == "Snapshot", "nothing was left to copy"
    job.outlives(job.kill_pod)
    job.commanded("unlimited", throttle={"rowsPerSecond": None})
    job.until("caught up", lambda: job.condition("CaughtUp") == ("True", "CaughtUp"))

    took = job.outlives(job.kill_pod, far=lambda state: state["replica"]["shipped"])
    figures["driver killed -> versions of the next attempt s"] = took
    changes.end()
    newest = DeltaTable(str(job.host("source"))).version()
    job.until("the newest version", lambda: shipped(job) == newest)
    assert job.status()["attempts"] == 3
    job.equals_the_source()
    job.delete()


def restarts(pod):
    """Return how often a pod with one container was restarted."""
    return pod["status"]["containerStatuses"][0]["restartCount"]


def test_an_installation_is_upgraded_and_leaves(node, lake, apply):
    """The upgrade changes a value, `helm test` passes on the new operator, and user data stays after the uninstall."""
    before = {operator["metadata"]["uid"] for operator in node.operators()}
    node.upgrade(operator={"settings": {"pollSeconds": 1}})
    new = lambda: before.isdisjoint(operator["metadata"]["uid"] for operator in node.operators())  # noqa: E731
    node.until("only new operators", new, 60 * SLOW)
    thief = json.dumps(document("thief", spark={"image": "localhost/thief:1"}))
    refused = node.kubectl("apply", "-f", "-", stdin=thief, check=False, namespace=node.restricted)
    assert refused == "", "the policy of the API server holds after an upgrade"

    assert node.try_out().splitlines()[-1] == f"passed: {TRIED} rows, equal on both sides"
    [target] = lake.glob(f"{TRIAL}-*")
    assert oracle.rows_in(str(target)) == TRIED
    trial = "backfills,configmaps,persistentvolumeclaims"
    assert node.list("backfills", "app.kubernetes.io/component=trial", node.restricted), "its evidence stays"
    node.kubectl("delete", trial, "--selector=app.kubernetes.io/component=trial", namespace=node.restricted)
    kinds = f"{trial},pods,secrets,services"
    left = lambda: [resource["metadata"]["name"] for resource in node.list(kinds, namespace=node.restricted)]  # noqa: E731
    node.until("nothing left of the trial", lambda: not any(TRIAL in name for name in left()), 60 * SLOW)

    apply(document("stays", suspend=True)).until_phase("Suspended")

    node.uninstall()
    node.until("the operator gone", lambda: node.operators() == [], 60 * SLOW)
    assert [backfill["metadata"]["name"] for backfill in node.list("backfills", namespace=node.restricted)] == ["stays"]
    kinds = (
        "roles,rolebindings,networkpolicies,resourcequotas,validatingadmissionpolicies,clusterroles,clusterrolebindings"
    )
    assert node.list(kinds, "app.kubernetes.io/instance=backfill-operator", namespace=node.restricted) == []
    node.release(node.restricted)
