"""Answers to requests of kopf without the API server: discovery, and feeds in place of lists and watches.

kopf reads discovery once, at its start, and does not validate it. A response of another server would end the process.
kopf would never watch a CRD that is created a second later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final, Protocol

from backfill_operator.kube.resources import BACKFILLS, NAMESPACES, PODS, Raw, Resource

DEFINITIONS: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
"""kopf waits until it has discovered this kind and namespaces, and never requests either."""

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


class Feed(Protocol):
    """Answers the requests of a path without the API server."""

    def listed(self) -> Raw:
        """Return the list."""

    def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of the watch."""


class Nothing:
    """The feed of a resource without objects."""

    def listed(self) -> Raw:
        """Return an empty list."""
        return {"items": [], "metadata": {"resourceVersion": "1"}}

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield nothing; the stream has no end."""
        await asyncio.Event().wait()
        yield b""


class FeedLines:
    """The lines of a feed, in the form of `WatchLines`."""

    def __init__(self, feed: Feed) -> None:
        """Take the feed."""
        self._lines = feed.lines()

    def close(self) -> None:
        """No connection is open."""

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Yield whole lines."""
        async for line in self._lines:
            yield line
