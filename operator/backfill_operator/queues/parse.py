"""Parses Workloads and ResourceFlavors; total, because users can edit any field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from backfill_api.names import FIELD_MANAGER, WORKLOAD_LABEL
from backfill_core.lifecycle.queue.workload import ObservedWorkload
from backfill_operator.informer.parse import label_of, owner_name, owner_uid
from backfill_operator.kube.resources import Raw, version_of
from backfill_operator.manifests.attempt import Placement

MANAGED_BY = "app.kubernetes.io/managed-by"
MESSAGE_CHARACTERS_MAX = 512


@dataclass(frozen=True, slots=True)
class CachedWorkload:
    """A Workload as the cache holds it."""

    owner: str | None
    """Name of the Backfill that owns it; `None` if none does."""

    owner_uid: str | None
    observed: ObservedWorkload
    version: int
    """resourceVersion."""

    listed: bool
    """True if it has the label of the Workloads that the operator lists and watches."""

    def seen_by(self, uid: str) -> ObservedWorkload:
        """Return the Workload as the Backfill of this UID sees it."""
        return replace(self.observed, ours=self.owner_uid == uid)


def workload_of(raw: Raw) -> CachedWorkload:
    """Return a Workload."""
    metadata, spec, status = mapping(raw.get("metadata")), mapping(raw.get("spec")), mapping(raw.get("status"))
    shown = {str(condition.get("type")): condition for condition in mappings(status.get("conditions"))}
    reserved, admitted = shown.get("QuotaReserved", {}), shown.get("Admitted", {})
    waiting = admitted if _true(reserved) else reserved
    observed = ObservedWorkload(
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        made_of=label_of(raw, WORKLOAD_LABEL),
        active=spec.get("active") is not False,
        reserved=_true(reserved),
        admitted=_true(admitted),
        evicted=_described(shown.get("Evicted", {})),
        finished=_true(shown.get("Finished", {})),
        deleted=bool(metadata.get("deletionTimestamp")),
        pods_ready=_true(shown.get("PodsReady", {})),
        reason="" if _true(waiting) else str(waiting.get("reason", ""))[:MESSAGE_CHARACTERS_MAX],
        message="" if _true(waiting) else str(waiting.get("message", ""))[:MESSAGE_CHARACTERS_MAX],
    )
    listed = label_of(raw, MANAGED_BY) == FIELD_MANAGER
    return CachedWorkload(owner_name(raw), owner_uid(raw), observed, version_of(raw), listed)


def flavors_of(raw: Raw) -> dict[str, tuple[str, ...]]:
    """Return the names of the flavors of each pod set's admission."""
    assignments = mappings(mapping(mapping(raw.get("status")).get("admission")).get("podSetAssignments"))
    return {
        str(assignment.get("name", "")): tuple(dict.fromkeys(map(str, mapping(assignment.get("flavors")).values())))
        for assignment in assignments
    }


def updates_of(raw: Raw, pod_set: str) -> Placement:
    """Return the changes that admission checks ask for in the pods of a pod set."""
    placement = Placement()
    for check in mappings(mapping(raw.get("status")).get("admissionChecks")):
        for update in mappings(check.get("podSetUpdates")):
            if update.get("name") == pod_set:
                more = Placement(
                    node_selector=texts(update.get("nodeSelector")), labels=texts(update.get("labels")),
                    annotations=texts(update.get("annotations")), tolerations=tuple(mappings(update.get("tolerations"))),
                )  # fmt: skip
                placement = placement.with_more(more)
    return placement


def placement_of_flavor(raw: Raw) -> Placement:
    """Return the labels of a flavor's nodes, and the tolerations that its pods get."""
    spec = mapping(raw.get("spec"))
    return Placement(node_selector=texts(spec.get("nodeLabels")), tolerations=tuple(mappings(spec.get("tolerations"))))


def mapping(value: Any) -> dict[str, Any]:
    """Return a mapping; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the mappings of a list; none for any other value."""
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def texts(value: Any) -> dict[str, str]:
    """Return the entries of a mapping that are strings."""
    return {name: text for name, text in mapping(value).items() if isinstance(text, str)}


def _true(condition: dict[str, Any]) -> bool:
    return condition.get("status") == "True"


def _described(condition: dict[str, Any]) -> str:
    """Return reason and message of a condition that is true; empty otherwise."""
    if not _true(condition):
        return ""
    parts = (str(condition.get("reason", "")), str(condition.get("message", "")))
    return ": ".join(part for part in parts if part)[:MESSAGE_CHARACTERS_MAX] or "without a reason"
