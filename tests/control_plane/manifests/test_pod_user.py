"""The user of a driver's pod comes from the installation, the template, or the cluster (fault C2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.operators.observations import spec

from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.driver_pod import driver_pod, executor_template

NULL = dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"))


def context(user: int | None = 185, given: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the security context of a driver's pod with this context in its template."""
    template = {"spec": {"securityContext": given}} if given is not None else {}
    launch = Launch("shop", "orders", "uid", 1, "Run", spec(driver={"template": template}), Installation("backfill:1"))
    pod = driver_pod(replace(launch, installation=replace(launch.installation, user=user)))
    return {name: value for name, value in pod["spec"]["securityContext"].items() if name in NULL}


@pytest.mark.parametrize(
    ("user", "given", "made"),
    [
        (185, None, dict.fromkeys(NULL, 185)),
        (1000, None, dict.fromkeys(NULL, 1000)),
        (None, None, {}),
        (None, {"runAsUser": 7}, {"runAsUser": 7}),
        (185, {"runAsUser": 7}, {"runAsUser": 7, "runAsGroup": 185, "fsGroup": 185}),
        (185, NULL, {}),
        (185, {"runAsUser": None}, {"runAsGroup": 185, "fsGroup": 185}),
    ],
)
def test_user_is_set_or_left_to_the_cluster(
    user: int | None, given: dict[str, Any] | None, made: dict[str, Any]
) -> None:
    """Null in a template kept 185, and the chart had no value for it."""
    assert context(user, given) == made


def test_executors_have_the_same_user() -> None:
    """They write the same files."""
    launch = Launch(
        "shop", "orders", "uid", 1, "Run", spec(executor={"instances": 2}), Installation("backfill:1", user=None)
    )

    assert NULL.keys().isdisjoint(executor_template(launch)["spec"]["securityContext"])
