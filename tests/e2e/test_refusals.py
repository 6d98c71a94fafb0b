"""Missing objects, full quotas and refused secrets: the status names them, and once they are fixed the Backfill continues by itself."""

import contextlib
import json

import pytest
from support.cluster.harness import CommandFailedError
from support.node.real_job import SLOW, Job, apply_all, delete_all, document
from support.node.writer import make_orders
from support.registry.on_node import RegistryOnNode, pull_secret
from support.stores.minio import NoStoreError

ROWS = 20_000
SLOWLY = 500
MISSING = "localhost/missing:1"
"""The operator's settings allow it, and no node has it."""

START_S = 20
"""Seconds after which an attempt without an image ends."""

PULL_SECRET = "pull"


@pytest.fixture
def orders(lake):
    """A small table without changes: copying is not under test."""
    make_orders(lake / "orders", ROWS)


def test_a_status_names_a_missing_dependency_and_the_job_continues_later(node, orders, apply):
    """Quota, service account, Secret and image: each Backfill names the one it waits for, and continues by itself when it exists."""
    quota = _meets_a_full_quota(node, apply)
    account, secret = _of_no_account(apply), _of_no_secret(apply)
    image = apply(document("image", spark={"image": MISSING}))

    account.until("the account", lambda: account.condition("Stalled") == ("True", "LaunchRefused"))
    assert "late" in account.message("Stalled")
    assert account.condition("Ready") == ("False", "LaunchRefused")
    secret.until("the Secret", lambda: 'secret "late" not found' in secret.message("Reconciling"))
    image.until("the image", lambda: MISSING in image.message("Reconciling") + image.message("Stalled"))
    assert image.condition("Ready")[0] == "False"

    account.kubectl("create", "serviceaccount", "late")
    secret.kubectl("create", "secret", "generic", "late", "--from-literal=key=none")
    # A new image in the spec starts a new attempt at once, which counts as no failure.
    image.patch(spark=None)

    for job in (quota, account, secret):
        job.until_complete(attempts=1, failures=0)
    status = image.until_complete(attempts=2, failures=0)
    assert quota.passed("Pending", "Launching", "Succeeded")
    assert "LaunchRefused" in {reason for _, reason in account.history("Stalled")}
    assert [attempt["reason"] for attempt in status["history"]] == ["SpecChanged", "Complete"]
    assert image.passed("Launching", "Succeeded")
    assert "SpecChanged" in image.events()
    jobs = [quota, account, secret, image]
    for job in jobs:
        job.equals_the_source()
    delete_all(jobs)


def _meets_a_full_quota(node, apply):
    """Reach QuotaExceeded, then delete the quota; return the job, which continues."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}}
    node.kubectl("apply", "-f", "-", stdin=json.dumps(quota), namespace=node.restricted)
    job = apply(document("quota"))

    job.until("the quota in the status", lambda: job.condition("Reconciling") == ("True", "QuotaExceeded"))
    assert "full" in job.message("Reconciling")
    job.kubectl("delete", "resourcequota", "full")
    return job


def _of_no_account(apply):
    """Apply a Backfill whose driver has a missing service account."""
    account = document("account")
    account["spec"]["driver"]["serviceAccountName"] = "late"
    return apply(account)


def _of_no_secret(apply):
    """Apply a Backfill whose driver has a variable from a missing Secret."""
    secret = document("secret")
    reference = {"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": {"secretKeyRef": {"name": "late", "key": "key"}}}
    secret["spec"]["driver"]["template"]["spec"]["containers"][0]["env"] = [reference]
    return apply(secret)


def test_one_target_accepts_one_of_two_jobs(node, writer):
    """Both are applied in one command under a live writer: one fills the target; the target refuses the other and names the first."""
    writer(ROWS)
    both = [Job(node, document(name, target="shared", throttle={"rowsPerSecond": SLOWLY})) for name in ("one", "other")]
    apply_all(both)

    refused = both[0].until("the end of one", lambda: next((job for job in both if _is_refused(job)), None))
    [first] = [job for job in both if job is not refused]
    assert f"is filled by job '{first.namespace}/{first.name}'" in refused.message("Failed")
    assert all(("True", "SharedTarget") in job.history("SharedTarget") for job in both)
    first.until_rows()
    first.commanded("unlimited", throttle={"rowsPerSecond": None})
    # Of two jobs that begin at the same time, either may have to begin again.
    first.until_complete()
    first.equals_the_source()
    delete_all(both)


def _is_refused(job):
    """Return whether the job ended and failed."""
    return job.condition("Failed")[0] == "True"


@pytest.fixture
def registry(node, lake, tmp_path):
    """A registry with an image that no node has; it does not run."""
    with contextlib.ExitStack() as stack:
        try:
            made = RegistryOnNode(node)
            stack.callback(made.stop)
            made.start()
            made.push(tmp_path)
        except (NoStoreError, CommandFailedError) as none:
            pytest.fail(f"no registry for this run: {none}", pytrace=False)
        made.stop()
        yield made


def private(registry):
    """Return a Backfill whose driver has the registry's image, pulled with a Secret."""
    backfill = document("private", spark={"image": registry.image}, startupTimeoutSeconds=START_S)
    backfill["spec"]["driver"]["template"]["spec"]["imagePullSecrets"] = [{"name": PULL_SECRET}]
    return backfill


def keep(node, password):
    """Create or correct the pull secret."""
    node.keep_secret(PULL_SECRET, pull_secret(password), node.restricted, "kubernetes.io/dockerconfigjson")


def test_a_job_waits_for_a_registry_and_for_its_password(node, orders, apply, registry):
    """The status names the image and the registry's answer; no attempt without an image counts as a failure."""
    keep(node, "wrong")
    job = apply(private(registry))

    waits_longer_than_a_start(job, registry.image, "connection refused")
    registry.start()
    waits_longer_than_a_start(job, registry.image, "401")

    # A driver on a busy node needs longer to start. The edit replaces no pod.
    job.patch(startupTimeoutSeconds=600)
    keep(node, "right")
    status = job.until_complete(failures=0)
    waited = {attempt["reason"] for attempt in status["history"][:-1]}
    assert (waited, status["history"][-1]["reason"]) == ({"ImageUnavailable"}, "Complete")
    assert {value for value, _ in job.history("Stalled")} == {None}
    assert {value for value, _ in job.history("Failed")} == {None}
    job.equals_the_source()
    job.delete()


def waits_longer_than_a_start(job, image, answer):
    """The reason stays in the status for more than one attempt."""
    first = job.status().get("attempts", 0)
    named = lambda: image in job.message("Reconciling") and answer in job.message("Reconciling")  # noqa: E731
    job.until(f"{answer} in the status", named)
    job.until("the next attempt", lambda: job.status()["attempts"] > first + 1 and named(), 4 * START_S * SLOW)
    assert job.status().get("failures", 0) == 0
    assert job.condition("Ready")[0] == "False"
