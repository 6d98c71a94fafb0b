"""Switch-over on a cluster: a driver runs no executable of a spec, and no process copies back after the flip."""

from __future__ import annotations

from collections.abc import Iterator

from backfill_api.crd.explain import shown
from backfill_api.spec.spec import BackfillSpec
from backfill_core.cluster_rules.finding import Finding
from backfill_core.switch_over.requests import FOLLOWING_HINT, KEEP_SOURCE, ONLY_LOCAL

PATH = "spec.switch.flip.type"


def switch_findings(spec: BackfillSpec) -> Iterator[Finding]:
    """Yield a flip that would run an executable in the driver's pod, and a source that would follow the target."""
    if spec.switch.flip.command:
        remedy = "use HiveTable, View or None, or run `backfill switch` on a machine of your own"
        yield Finding(
            PATH, "runs an executable, which is not possible on a cluster", remedy, shown(spec.switch.flip.type)
        )
    if spec.switch.keep_source == "Following":
        problem = f"{ONLY_LOCAL}, which is not possible on a cluster"
        remedy = f"{FOLLOWING_HINT[0].lower()}{FOLLOWING_HINT[1:].rstrip('.')}"
        yield Finding(KEEP_SOURCE, problem, remedy, shown(spec.switch.keep_source))
