"""The kinds of objects that the operator reads or writes."""

from __future__ import annotations

from typing import Any, Final

from backfill_api.resources import (
    BACKFILLS,
    CONFIG_MAPS,
    EVENTS,
    FLAVORS,
    LEASES,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICES,
    WORKLOADS,
    Resource,
)

__all__ = [
    "BACKFILLS", "BY_KIND", "CONFIG_MAPS", "EVENTS", "FLAVORS", "LEASES", "NAMESPACES", "PODS", "SECRETS", "SERVICES", "WORKLOADS",
    "Raw", "Resource", "key_of", "resource_of", "version_number", "version_of",
]  # fmt: skip

Raw = dict[str, Any]
"""An object of the API server: parsed JSON, not validated."""

BY_KIND: Final = {
    resource.kind: resource for resource in (BACKFILLS, PODS, CONFIG_MAPS, SECRETS, SERVICES, LEASES, EVENTS)
}


def resource_of(raw: Raw) -> Resource:
    """Return the resource of an object, by its kind."""
    return BY_KIND[raw["kind"]]


def key_of(raw: Raw) -> tuple[str, str]:
    """Return namespace and name."""
    metadata = raw["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def version_of(raw: Raw) -> int:
    """Return the resourceVersion of an object as a number."""
    return version_number(str(raw["metadata"].get("resourceVersion", "")))


def version_number(text: str) -> int:
    """Return a resourceVersion as a number. Kubernetes 1.35 defines their order; older versions use etcd revisions."""
    return int(text) if text.isascii() and text.isdigit() else 0
