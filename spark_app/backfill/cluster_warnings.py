"""Warnings about a spec that runs on this machine, and that a cluster would refuse."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from backfill_api.spec.spec import BackfillSpec
from backfill_core.cluster_rules.finding import Finding
from backfill_core.cluster_rules.findings import findings

LINES_MAX: Final = 20
"""Warnings that are shown; a spec may have hundreds of settings."""

FIELDS_MAX: Final = 5
"""Fields that one warning names."""

ON_A_CLUSTER: Final = "on a cluster, the operator refuses"


def cluster_warnings(spec: BackfillSpec) -> list[str]:
    """Return a line for each reason for which a cluster with the chart's own limits refuses the spec."""
    return format_findings(findings(spec))


def format_findings(found: Iterable[Finding]) -> list[str]:
    """Return a line for each reason and remedy, with all fields and values that it concerns."""
    alike: dict[tuple[str, str], list[str]] = {}
    for finding in found:
        field = f"{finding.path} (got {finding.value})" if finding.value else finding.path
        alike.setdefault((finding.message, finding.hint), []).append(field)
    lines = [f"{ON_A_CLUSTER} {_listed(fields)}: it {message}; {hint}" for (message, hint), fields in alike.items()]
    more = len(lines) - LINES_MAX
    return [*lines[:LINES_MAX], *([f"{ON_A_CLUSTER} this spec for {more} further reasons"] if more > 0 else [])]


def _listed(fields: list[str]) -> str:
    more = len(fields) - FIELDS_MAX
    return ", ".join(fields[:FIELDS_MAX]) + (f" and {more} more" if more > 0 else "")
