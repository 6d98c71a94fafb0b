"""The operator and the check of a file before it reaches a cluster give the same answer."""

from __future__ import annotations

from typing import Any

from backfill_core.cluster_rules.finding import ManifestRefusedError
from backfill_core.cluster_rules.findings import findings
from backfill_operator.manifests.attempt import Launch
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.driver_pod import driver_pod


def agreed_pod(launch: Launch) -> dict[str, Any]:
    """Return the driver's pod, after building all other objects; both checks must agree.

    Raises:
        ManifestRefusedError: the operator refuses the spec, with one of the findings of the check.
    """
    before = findings(launch.spec, launch.installation.policy)
    refused, pod = None, dict[str, Any]()
    try:
        config_map(launch)
        pod = driver_pod(launch)
    except ManifestRefusedError as error:
        refused = error
    assert before == () if refused is None else refused.finding in before
    if refused is not None:
        raise refused
    return pod
