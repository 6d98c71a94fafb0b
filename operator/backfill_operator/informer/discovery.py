"""The answers to kopf's discovery: the resources are known.

kopf reads discovery without any check, once, at its start. An answer of another server would end the process, and a CRD
that comes a second late would never be watched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from backfill_operator.kube.resources import BACKFILLS, PODS, Raw, Resource

NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace")
DEFINITIONS: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
"""kopf waits until it knows these two, and requests none of them."""

KNOWN: Final = (BACKFILLS, PODS, NAMESPACES, DEFINITIONS)
VERBS: Final = ["get", "list", "patch", "watch"]


def _answers() -> dict[str, Raw]:
    groups: list[Raw] = []
    answers: dict[str, Raw] = {"/api": {"versions": ["v1"]}, "/apis": {"groups": groups}}
    for resource in KNOWN:
        path = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        if resource.group:
            version = {"groupVersion": resource.api_version, "version": resource.version}
            groups.append({"name": resource.group, "versions": [version], "preferredVersion": version})
        resources = answers.setdefault(path, {"resources": []})["resources"]
        names = {"name": resource.plural, "singularName": resource.kind.lower(), "kind": resource.kind}
        resources.append(names | {"namespaced": resource in (BACKFILLS, PODS), "verbs": VERBS})
    return answers


DISCOVERY: Final[Mapping[str, Raw]] = _answers()
"""An answer for each path that kopf requests to discover resources."""
