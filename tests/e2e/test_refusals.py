"""What is missing or full: the status names it, and when it is mended the Backfill goes on by itself."""

import json

import pytest
from support.node.real_job import document
from support.node.writer import make_orders

ROWS = 20_000
SLOWLY = 500
MISSING = "localhost/missing:1"
"""The operator's settings allow it, and no node has it."""


@pytest.fixture
def orders(lake):
    """A small table at rest: what is tried is not the copying."""
    make_orders(lake / "orders", ROWS)


def test_a_full_quota_is_waited_for(node, orders, apply):
    """QuotaExceeded, tried again until there is room; no failure is counted."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}}
    node.kubectl("apply", "-f", "-", stdin=json.dumps(quota), namespace=node.restricted)
    job = apply(document("quota"))

    job.until("the quota in the status", lambda: job.condition("Reconciling") == ("True", "QuotaExceeded"))
    assert "full" in job.message("Reconciling")
    job.kubectl("delete", "resourcequota", "full")

    job.until_complete(attempts=1, failures=0)
    assert job.passed("Pending", "Launching", "Running", "Succeeded")
    job.equals_the_source()
    job.delete()


def test_a_missing_account_and_a_missing_secret_may_come_later(orders, apply):
    """Each is named in the status; when it is there, the same attempt starts."""
    account, secret = document("account"), document("secret")
    account["spec"]["driver"]["serviceAccountName"] = "late"
    reference = {"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": {"secretKeyRef": {"name": "late", "key": "key"}}}
    secret["spec"]["driver"]["template"]["spec"]["containers"][0]["env"] = [reference]
    waits, named = apply(account), apply(secret)

    waits.until("the account", lambda: waits.condition("Stalled") == ("True", "LaunchRefused"))
    assert "late" in waits.message("Stalled")
    assert waits.condition("Ready") == ("False", "LaunchRefused")
    named.until("the Secret", lambda: 'secret "late" not found' in named.message("Reconciling"))
    waits.kubectl("create", "serviceaccount", "late")
    waits.kubectl("create", "secret", "generic", "late", "--from-literal=key=none")

    for job in (waits, named):
        job.until_complete(attempts=1, failures=0)
        job.equals_the_source()
        job.delete()
    assert "LaunchRefused" in {reason for _, reason in waits.history("Stalled")}


def test_a_missing_image_may_come_later(orders, apply):
    """Its name is in the status; with another one in the spec a new attempt starts at once, and that is no failure."""
    backfill = document("image", spark={"image": MISSING})
    job = apply(backfill)

    job.until("the image", lambda: MISSING in job.message("Reconciling") + job.message("Stalled"))
    assert job.condition("Ready")[0] == "False"
    job.patch(spark=None)

    status = job.until_complete(attempts=2, failures=0)
    assert [one["reason"] for one in status["history"]] == ["SpecChanged", "Complete"]
    assert job.passed("Launching", "Running", "Succeeded")
    assert "SpecChanged" in job.events()
    job.equals_the_source()
    job.delete()


def test_two_on_one_target(orders, apply):
    """The second one is refused by the target itself, by name; the first one is not disturbed, and its rows are there once."""
    first = apply(document("first", target="shared", throttle={"rowsPerSecond": SLOWLY}))
    first.until_rows()
    second = apply(document("second", target="shared"))

    second.until("its end", lambda: second.condition("Failed")[0] == "True")
    assert "first" in second.message("Failed")
    first.commanded("unlimited", throttle={"rowsPerSecond": None})
    first.until_complete(attempts=1, failures=0)
    first.equals_the_source()
    first.delete()
    second.delete()
