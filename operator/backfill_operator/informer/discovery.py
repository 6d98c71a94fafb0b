"""Constant answers to kopf's discovery requests.

kopf reads discovery once, at its start, and does not validate it. A response of another server would end the process.
kopf would never watch a CRD that is created a second later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from backfill_operator.kube.resources import BACKFILLS, PODS, Raw, Resource

NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace")
DEFINITIONS: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
"""kopf waits until it has discovered these two, and never requests them."""

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
