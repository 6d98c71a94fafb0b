"""Kinds of objects that the commands read or write, and their paths on the API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from backfill_api.names import GROUP, PLURAL, VERSION

Json = dict[str, Any]
"""An object of the API server: parsed JSON, not validated."""


@dataclass(frozen=True, slots=True)
class ApiResource:
    """One kind of object."""

    group: str
    version: str
    plural: str

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


BACKFILLS: Final = ApiResource(GROUP, VERSION, PLURAL)
PODS: Final = ApiResource("", "v1", "pods")
EVENTS: Final = ApiResource("events.k8s.io", "v1", "events")
LEASES: Final = ApiResource("coordination.k8s.io", "v1", "leases")
DEPLOYMENTS: Final = ApiResource("apps", "v1", "deployments")
CRDS: Final = ApiResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
