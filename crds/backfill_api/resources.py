"""Kinds of objects that the operator and `kubectl backfill` use, and their paths on the API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from backfill_api.names import GROUP, KIND, PLURAL, VERSION


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

    @property
    def label(self) -> str:
        """The name that `kubectl auth can-i` accepts: `backfills.backfill.dev`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

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
WORKLOADS: Final = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
FLAVORS: Final = Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor")
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace")
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
ACCESS_REVIEWS: Final = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview")
