"""The address that a driver queries for `throttle.auto`: a spec may name only those that an administrator allows."""

from __future__ import annotations

from collections.abc import Iterator

from backfill_api.crd.explain import shown
from backfill_api.spec.spec import BackfillSpec
from backfill_core.cluster_rules.finding import Finding
from backfill_core.cluster_rules.limits import Policy, permission

PATH = "spec.throttle.auto.query.url"


def query_findings(spec: BackfillSpec, policy: Policy) -> Iterator[Finding]:
    """Yield the address of the query unless an administrator allows it."""
    auto = spec.throttle.auto
    if auto is None or auto.query is None or any(_matches(auto.query.url, each) for each in policy.limits.query_urls):
        return
    setting = permission("ALLOWED_QUERY_URLS", "it")
    yield Finding(PATH, "is an address that is not allowed", "remove the query", shown(auto.query.url), setting)


def _matches(url: str, allowed: str) -> bool:
    """Return whether an address is the allowed one, or below it; the host always ends before the `*`."""
    parts = url.split("/")
    if "." in parts or ".." in parts:
        return False
    return url.startswith(allowed[:-1]) if allowed.endswith("/*") else url.rstrip("/") == allowed.rstrip("/")
