"""All findings of a spec, as a check before it reaches a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from backfill_api.spec.spec import BackfillSpec
from backfill_core.cluster_rules.conf_rules import conf_findings
from backfill_core.cluster_rules.container_sizes import DRIVER_DEFAULT, EXECUTOR_DEFAULT, check_size
from backfill_core.cluster_rules.finding import Finding, each
from backfill_core.cluster_rules.limits import Policy
from backfill_core.cluster_rules.pod_rules import (
    DRIVER_CONTAINER,
    EXECUTOR_CONTAINER,
    account_findings,
    image_findings,
    resource_findings,
    template_findings,
)
from backfill_core.cluster_rules.query_urls import query_findings
from backfill_core.cluster_rules.scratch_rules import scratch_findings
from backfill_core.cluster_rules.switch_rules import switch_findings
from backfill_core.cluster_rules.table_paths import fleeting_paths, relative_paths

DEFAULT_POLICY: Final = Policy()


def findings(spec: BackfillSpec, policy: Policy = DEFAULT_POLICY) -> tuple[Finding, ...]:
    """Return the requests of a spec that the operator refuses, or its admission policy.

    Args:
        spec: A valid spec; its models check the rules of the CRD.
        policy: The requests that the installation allows; the default is the chart's, with unknown image and account.

    Returns:
        Each finding once: Spark settings, image, account and paths first, then those of driver and executors.
    """
    pods = each(
        _pod(spec, spec.driver.template, DRIVER_CONTAINER, policy),
        _pod(spec, spec.executor.template, EXECUTOR_CONTAINER, policy),
        _resources(spec.driver.resources, "spec.driver.resources", DRIVER_DEFAULT),
        _resources(spec.executor.resources, "spec.executor.resources", EXECUTOR_DEFAULT),
    )
    return tuple(dict.fromkeys((*_whole_job(spec, policy), *pods)))


def _whole_job(spec: BackfillSpec, policy: Policy) -> Iterator[Finding]:
    yield from conf_findings(spec.spark.conf, policy.limits.conf)
    if spec.spark.image is not None:
        yield from image_findings(spec.spark.image, "spec.spark.image", policy)
    if spec.driver.service_account_name is not None:
        yield from account_findings(spec.driver.service_account_name, "spec.driver.serviceAccountName", policy)
    yield from query_findings(spec, policy)
    yield from switch_findings(spec)
    yield from scratch_findings(spec.scratch, policy.limits)
    yield from relative_paths(spec)


def _pod(spec: BackfillSpec, template: Mapping[str, Any], container: str, policy: Policy) -> Iterator[Finding]:
    path = f"spec.{container}.template"
    yield from each(
        template_findings(template, path, container, policy), fleeting_paths(spec, template, path, container)
    )


def _resources(resources: Mapping[str, Any], path: str, default: Mapping[str, Any]) -> Iterator[Finding]:
    yield from resource_findings(resources, path)
    check_size(resources, default, path)
