"""Switch-over on a cluster: a driver runs no executable of a spec."""

from __future__ import annotations

from collections.abc import Iterator

from backfill_api.crd.explain import shown
from backfill_api.spec.spec import BackfillSpec
from backfill_core.cluster_rules.finding import Finding

PATH = "spec.switch.flip.type"


def switch_findings(spec: BackfillSpec) -> Iterator[Finding]:
    """Yield a flip that would run an executable in the driver's pod."""
    if spec.switch.flip.command:
        remedy = "use HiveTable, View or None, or run `backfill switch` on a machine of your own"
        yield Finding(
            PATH, "runs an executable, which is not possible on a cluster", remedy, shown(spec.switch.flip.type)
        )
