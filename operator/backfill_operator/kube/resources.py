"""The kinds of objects that the operator reads or writes, and their paths on the API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from backfill_api.names import GROUP, KIND, PLURAL, VERSION

Raw = dict[str, Any]
"""An object of the API server: parsed JSON, not validated."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """The value of an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path of a collection, an object or a subresource; names are quoted, so none can change the path."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part is not None]
        return "/".join(parts)


BACKFILLS: Final = Resource(GROUP, VERSION, PLURAL, KIND)
PODS: Final = Resource("", "v1", "pods", "Pod")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
SERVICES: Final = Resource("", "v1", "services", "Service")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")

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
