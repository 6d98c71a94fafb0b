"""A hundred Backfills that an API server stores, and that cost a careless operator minutes of CPU or its process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from backfill_api.names import API_VERSION, KIND, OVERRIDE_ANNOTATION
from backfill_operator.informer.pruned_fields import LAST_APPLIED
from backfill_operator.kube.resources import BACKFILLS

DEEP_LEVELS: Final = 1500
"""At this depth of nesting, a template used to end the operator's JSON parser."""

LARGE: Final = 400_000
ANNOTATION: Final = 120_000
"""Characters; an API server limits all annotations of an object to 256 KiB."""

NAMES: Final = 2_000
"""Fields of an object. An API server spends seconds on each write of one with tens of thousands, which slows all its clients."""

DEEP: Final = "@deep@"


def _template(value: object) -> Mapping[str, Any]:
    return {"driver": {"template": {"metadata": value}}}


KINDS: Final[tuple[Callable[[], tuple[Mapping[str, Any], Mapping[str, str]]], ...]] = (
    lambda: (_template(DEEP), {}),
    lambda: (_template({"labels": {"a": "http:" + "a:" * (LARGE // 2)}}), {}),
    lambda: (_template({f"a{number}": number for number in range(NAMES)}), {}),
    lambda: (_template(["a"] * (LARGE // 4)), {}),
    lambda: (_template("a"), {OVERRIDE_ANNOTATION: "[" * ANNOTATION}),
    lambda: (_template("a"), {LAST_APPLIED: '{"spec":' * (ANNOTATION // 8)}),
    lambda: ({"executor": {"template": {"spec": {"volumes": [{"name": "a:" * 500}] * 300}}}}, {}),
    lambda: (_template("http:" + "a:" * 1000), {}),
)
"""Fields of the spec and annotations of one object of each kind; none of them gets a driver."""


def crowd(spec: Mapping[str, Any], number: int) -> list[str]:
    """Return the JSON of this many Backfills named `hostile-0` and so on; their own fields replace those of `spec`.

    It is a string, because Python's writer fails for the deepest ones too.
    """
    deep = '{"a":' * DEEP_LEVELS + "1" + "}" * DEEP_LEVELS
    made = []
    for index in range(number):
        fields, annotations = KINDS[index % len(KINDS)]()
        metadata = {"name": f"hostile-{index}", "annotations": annotations}
        target = {"type": "Delta", "delta": {"path": f"/data/hostile-{index}"}}
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": metadata,
            "spec": {**spec, "target": target, **fields},
        }
        made.append(json.dumps(body).replace(f'"{DEEP}"', deep))
    return made


async def place_crowd(configuration: Configuration, namespace: str, spec: Mapping[str, Any], number: int) -> None:
    """Create them on a real API server."""
    await _requests(configuration, namespace, "POST", [("", body) for body in crowd(spec, number)])


async def remove_crowd(configuration: Configuration, namespace: str, _spec: Mapping[str, Any], number: int) -> None:
    """Delete them from a real API server; some may not exist."""
    await _requests(configuration, namespace, "DELETE", [(f"/hostile-{index}", "") for index in range(number)])


async def _requests(configuration: Configuration, namespace: str, verb: str, made: list[tuple[str, str]]) -> None:
    token = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    headers = {"Content-Type": "application/json"} | ({"Authorization": token} if token else {})
    connector = aiohttp.TCPConnector(ssl=RESTClientObject(configuration).ssl_context, limit=8)
    url = configuration.host + BACKFILLS.path(namespace)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as http:

        async def sent(name: str, body: str) -> None:
            async with http.request(verb, f"{url}{name}", data=body) as answer:
                assert answer.status in (200, 201, 404, 409), (name, await answer.text())

        await asyncio.gather(*(sent(name, body) for name, body in made))


def is_observed(backfill: Mapping[str, Any]) -> bool:
    """Return whether the status of a Backfill is of its current spec."""
    return backfill["status"]["observedGeneration"] == backfill["metadata"]["generation"]
