"""The volume of `spec.scratch` has a type that the administrator allows."""

from __future__ import annotations

from collections.abc import Iterator

from backfill_api.crd.explain import shown
from backfill_api.spec.pods import ScratchSpec
from backfill_core.cluster_rules.finding import Finding
from backfill_core.cluster_rules.limits import Limits, permission


def scratch_findings(scratch: ScratchSpec, limits: Limits) -> Iterator[Finding]:
    """Yield a volume of a type that is not allowed; the operator's own volumes are of the type `emptyDir`."""
    fields = {
        "storageClassName": (scratch.storage_class_name, "ephemeral"),
        "claimName": (scratch.claim_name, "persistentVolumeClaim"),
    }
    for field, (value, kind) in fields.items():
        if value is not None and kind not in limits.volumes:
            message = f"needs a volume of the type {kind}, which is not allowed"
            setting = permission("ALLOWED_VOLUMES", kind)
            yield Finding(f"spec.scratch.{field}", message, "remove it", shown(value), setting)
