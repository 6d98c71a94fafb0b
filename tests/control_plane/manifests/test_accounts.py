"""The service accounts of an attempt's pods."""

from __future__ import annotations

import pytest
from support.operators.observations import spec

from backfill_core.cluster_rules.limits import Limits
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.driver_pod import driver_pod, executor_template
from backfill_operator.manifests.spark_conf import properties

INSTALLATION = Installation("backfill:1", service_account="filler", limits=Limits(service_accounts=("loader",)))


@pytest.mark.parametrize(("named", "account"), [(None, "filler"), ("loader", "loader")])
def test_executors_have_the_account_of_their_driver(named: str | None, account: str) -> None:
    """A cloud grants access by the account, which also has the pull secrets. The image's own settings do not change it."""
    given = spec(driver={"serviceAccountName": named})
    launch = Launch("shop", "orders", "uid", 1, "Run", given, INSTALLATION)

    assert driver_pod(launch)["spec"]["serviceAccountName"] == account
    assert executor_template(launch)["spec"]["serviceAccountName"] == account
    assert properties(launch)["spark.kubernetes.authenticate.executor.serviceAccountName"] == account


def test_executors_have_no_token_of_the_account() -> None:
    """The token could create pods, and an executor does not use the API server."""
    launch = Launch("shop", "orders", "uid", 1, "Run", spec(), INSTALLATION)

    assert executor_template(launch)["spec"]["automountServiceAccountToken"] is False
