"""What is missing or full: the status names it, and when it is mended the Backfill goes on by itself."""

import json

import pytest
from support.node.real_job import Job, apply_all, delete_all, document
from support.node.writer import make_orders

ROWS = 20_000
SLOWLY = 500
MISSING = "localhost/missing:1"
"""The operator's settings allow it, and no node has it."""


@pytest.fixture
def orders(lake):
    """A small table at rest: what is tried is not the copying."""
    make_orders(lake / "orders", ROWS)


def test_what_is_full_or_missing_is_named_and_may_come_later(node, orders, apply):
    """Room, an account, a Secret and an image: each Backfill says what it waits for, and goes on by itself when that is there."""
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
    # Another image in the spec: a new attempt starts at once, and that is no failure.
    image.patch(spark=None)

    for job in (quota, account, secret):
        job.until_complete(attempts=1, failures=0)
    status = image.until_complete(attempts=2, failures=0)
    assert quota.passed("Pending", "Launching", "Succeeded")
    assert "LaunchRefused" in {reason for _, reason in account.history("Stalled")}
    assert [one["reason"] for one in status["history"]] == ["SpecChanged", "Complete"]
    assert image.passed("Launching", "Succeeded")
    assert "SpecChanged" in image.events()
    jobs = [quota, account, secret, image]
    for job in jobs:
        job.equals_the_source()
    delete_all(jobs)


def _meets_a_full_quota(node, apply):
    """QuotaExceeded, until there is room; return the job, which goes on."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}}
    node.kubectl("apply", "-f", "-", stdin=json.dumps(quota), namespace=node.restricted)
    job = apply(document("quota"))

    job.until("the quota in the status", lambda: job.condition("Reconciling") == ("True", "QuotaExceeded"))
    assert "full" in job.message("Reconciling")
    job.kubectl("delete", "resourcequota", "full")
    return job


def _of_no_account(apply):
    """Apply a Backfill whose driver has an account that is not there."""
    account = document("account")
    account["spec"]["driver"]["serviceAccountName"] = "late"
    return apply(account)


def _of_no_secret(apply):
    """Apply a Backfill whose driver has a variable of a Secret that is not there."""
    secret = document("secret")
    reference = {"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": {"secretKeyRef": {"name": "late", "key": "key"}}}
    secret["spec"]["driver"]["template"]["spec"]["containers"][0]["env"] = [reference]
    return apply(secret)


def test_two_on_one_target(node, writer):
    """Applied in one command, beside a live writer: one fills the target; the other is refused by the target itself, which names the first."""
    writer(ROWS)
    both = [Job(node, document(name, target="shared", throttle={"rowsPerSecond": SLOWLY})) for name in ("one", "other")]
    apply_all(both)

    refused = both[0].until("the end of one", lambda: next((job for job in both if _is_refused(job)), None))
    [first] = [job for job in both if job is not refused]
    assert f"is filled by job '{first.namespace}/{first.name}'" in refused.message("Failed")
    assert all(("True", "SharedTarget") in job.history("SharedTarget") for job in both)
    first.until_rows()
    first.commanded("unlimited", throttle={"rowsPerSecond": None})
    # Who begins at the same moment may have to begin again.
    first.until_complete()
    first.equals_the_source()
    delete_all(both)


def _is_refused(job):
    """Is it over, and failed?"""
    return job.condition("Failed")[0] == "True"
