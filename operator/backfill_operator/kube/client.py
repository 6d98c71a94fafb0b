"""The only client of the API server, except for the watches: raw objects in and out, on asyncio.

Every request takes a token of a rate limit, has a time limit and a size limit for its response, and is reported to
`observe`. Requests that are safe to repeat are retried here: any request after a 429, because it had no effect; reads and
deletions also after a 5xx or without a response. A create or a patch without a response is not retried: its caller must
read the object first, because "already exists" and "conflict" have a meaning for it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from pydantic_core import from_json

from backfill_api.names import FIELD_MANAGER
from backfill_api.shallow_json import loads
from backfill_operator.kube.errors import (
    ApiError,
    NotFoundError,
    ResponseTooLargeError,
    UnavailableError,
    error_of,
)
from backfill_operator.kube.rate import RequestBucket, retry_after_s, wait
from backfill_operator.kube.resources import Raw, Resource
from backfill_operator.kube.server_clock import ServerClock
from backfill_operator.settings import OperatorSettings

RESPONSE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Limit for one page: several times the size of 500 typical Backfills, and five objects of etcd's maximum size."""

PAGES_BEFORE_GROWTH: Final = 8
"""After this many pages within the limit, the page size doubles again."""

TRIES_MAX: Final = 4
RETRY_FIRST_S: Final = 0.2
RETRY_MAX_S: Final = 5.0
"""Also the longest Retry-After that this client waits for. The work queue handles longer ones without a worker."""

CONNECTIONS_MAX: Final = 64
MERGE_PATCH: Final = "application/merge-patch+json"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, described for RBAC and metrics."""

    verb: str
    resource: str
    group: str
    namespace: str | None
    status: int
    """HTTP status; 0 without a response."""

    seconds: float


def _ignore(_: Call) -> None:
    """Ignore the call."""


class Cluster:
    """A client of one API server, with one service account."""

    def __init__(
        self,
        configuration: Configuration,
        settings: OperatorSettings,
        *,
        observe: Callable[[Call], None] = _ignore,
        clock: ServerClock | None = None,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        """Create it inside the event loop; the first request connects.

        Args:
            configuration: Address, certificates and credentials.
            settings: Rate, time-out and page size.
            observe: Called after every request; must not block.
            clock: Updated with the server's time.
            response_bytes_max: A longer response is refused, unread.
        """
        self._configuration = configuration
        self._timeout_s = settings.request_timeout_seconds
        self._page_size = self._size = settings.page_size
        self._good_pages = 0
        """Pages within the limit, in a row."""

        self._bucket = RequestBucket(settings.queries_per_second, settings.query_burst)
        self._observe = observe
        self._clock = clock or ServerClock()
        self._bytes_max = response_bytes_max
        # The library builds the TLS context only; its models are slow and refuse unknown fields.
        context = RESTClientObject(configuration).ssl_context
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=CONNECTIONS_MAX),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            auto_decompress=False,
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        """Nothing to do: the first request connects."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self._http.close()

    # ------------------------------------------------------------ reads
    async def get(self, resource: Resource, namespace: str | None, name: str) -> Raw | None:
        """Return the current object, of no namespace if that is `None`; `None` if it does not exist."""
        try:
            return await self._request("get", "GET", resource, namespace, name, repeatable=True)
        except NotFoundError:
            return None

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        began: Callable[[str], None] = lambda _: None,
    ) -> AsyncIterator[list[Raw]]:
        """Yield all objects page by page; after a page over the size limit, the page size is halved.

        Args:
            resource: The kind of objects.
            namespace: The namespace; `None` for all namespaces.
            labels: A label selector.
            fields: A field selector.
            began: Called with the version of the list before the first page.

        Raises:
            GoneError: the list has expired on the server; start again.
            ResponseTooLargeError: a single object exceeds the size limit.
        """
        query = {name: text for name, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}
        while True:
            query["limit"] = str(self._size)
            try:
                page = await self._request("list", "GET", resource, namespace, query=query, repeatable=True)
            except ResponseTooLargeError as error:
                if self._size == 1:
                    raise
                self._size, self._good_pages = self._size // 2, 0
                _log.info("%s: %s; the next page has %d", resource.plural, error, self._size)
                continue
            if "continue" not in query:
                began(str((page.get("metadata") or {}).get("resourceVersion", "")))
            kind = {"apiVersion": resource.api_version, "kind": resource.kind}
            yield [{**kind, **item} for item in page.get("items") or [] if isinstance(item, dict)]
            self._good_pages += 1
            if self._good_pages >= PAGES_BEFORE_GROWTH and self._size < self._page_size:
                # Otherwise a few large objects would keep every later list slow.
                self._size, self._good_pages = min(self._page_size, 2 * self._size), 0
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return
            query["continue"] = token

    # ------------------------------------------------------------ writes
    async def create(self, resource: Resource, namespace: str, body: Raw, *, dry_run: bool = False) -> Raw:
        """Create an object; with `dry_run`, only check whether it could be created.

        Raises:
            AlreadyExistsError: an object of that name exists.
            RefusedError: the server refused it; the message contains the reason.
            UnavailableError: the object may or may not have been created.
        """
        query = {"fieldManager": FIELD_MANAGER} | ({"dryRun": "All"} if dry_run else {})
        return await self._request("create", "POST", resource, namespace, query=query, body=body)

    async def replace(self, resource: Resource, namespace: str, name: str, body: Raw) -> Raw:
        """Replace the object whose resourceVersion the body carries.

        Raises:
            ConflictError: the object has changed since.
        """
        query = {"fieldManager": FIELD_MANAGER}
        return await self._request("update", "PUT", resource, namespace, name, query=query, body=body)

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Mapping[str, Any],
        *,
        resource_version: str,
        subresource: str | None = None,
    ) -> Raw:
        """Merge a change into the object of exactly this version; a recreated object never has it.

        Raises:
            ConflictError: the object has changed since.
            NotFoundError: it is gone.
        """
        body = {**change, "metadata": {**change.get("metadata", {}), "resourceVersion": resource_version}}
        query = {"fieldManager": FIELD_MANAGER}
        return await self._request("patch", "PATCH", resource, namespace, name, subresource, query=query, body=body)

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str | None = None, grace_s: int | None = None
    ) -> bool:
        """Delete the object if it has this UID; `False` if no object of that name exists.

        Raises:
            ConflictError: an object with another UID has the name.
        """
        body: Raw = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            await self._request("delete", "DELETE", resource, namespace, name, body=body, repeatable=True)
        except NotFoundError:
            return False
        return True

    # ------------------------------------------------------------ one request
    async def _request(
        self,
        verb: str,
        method: str,
        resource: Resource,
        namespace: str | None,
        name: str | None = None,
        subresource: str | None = None,
        *,
        query: Mapping[str, str] | None = None,
        body: Raw | None = None,
        repeatable: bool = False,
    ) -> Raw:
        url = self._configuration.host + resource.path(namespace, name, subresource)
        if query:
            url += "?" + urlencode(query)
        plural = resource.plural + (f"/{subresource}" if subresource else "")
        for number in range(TRIES_MAX):
            await self._bucket.take()
            began = time.monotonic()
            status = 0
            try:
                status, answer, retry_after = await self._once(method, url, body)
                if status < 300:
                    return checked(answer, verb, name)
                error: ApiError = error_of(method, status, answer, retry_after)
            except (aiohttp.ClientError, TimeoutError, ValueError) as cause:
                error = UnavailableError(0, "NoAnswer", f"{method} {plural}: {type(cause).__name__}: {cause}")
            finally:
                self._observe(Call(verb, plural, resource.group, namespace, status, time.monotonic() - began))
            delay = _retry_delay(error, number, repeatable=repeatable)
            if delay is None:
                raise error
            await wait(delay)
        raise AssertionError("the last try returns or raises")

    async def admitted(self) -> None:
        """Wait for a token of the rate limit; watches need one too."""
        await self._bucket.take()

    async def _once(self, method: str, url: str, body: Raw | None) -> tuple[int, Any, float | None]:
        # The size of a compressed response is unknown until it is decompressed.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        token = await self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        if token:
            headers["Authorization"] = token
        data = None
        if body is not None:
            data = json.dumps(body, separators=(",", ":")).encode()
            headers["Content-Type"] = MERGE_PATCH if method == "PATCH" else "application/json"
        async with self._http.request(method, url, data=data, headers=headers, allow_redirects=False) as response:
            self._clock.on_response(response.headers.get("Date"))
            text = await body_of(response, self._bytes_max)
            retry_after = retry_after_s(response.headers.get("Retry-After"), response.headers.get("Date"))
            try:
                return response.status, await _parsed(text), retry_after
            except ValueError:
                if response.status < 300:
                    raise
                return response.status, {"message": text[:1024].decode(errors="replace")}, retry_after


async def _parsed(text: bytes) -> Any:
    """Parse JSON like `loads`, but cut it in a thread, because it may be a whole page of a list."""
    try:
        return from_json(text)
    except ValueError:
        return await asyncio.to_thread(loads, text)


async def body_of(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    """Return the body.

    Raises:
        ResponseTooLargeError: it exceeds `bytes_max`; the rest is not read.
    """
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > bytes_max:
            response.close()
            raise ResponseTooLargeError(response.status, "TooLarge", f"an answer exceeds {bytes_max:,} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def checked(answer: Any, verb: str, name: str | None) -> Raw:
    """Return the answer if it has the fields that every caller reads.

    Raises:
        ValueError: a field is missing, so the answer did not come from an API server.
    """
    if not isinstance(answer, dict):
        raise ValueError(  # noqa: TRY004 - the caller treats it as unreadable JSON
            f"the answer is {type(answer).__name__} and no object"
        )
    if verb == "delete":
        return answer
    metadata = answer.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    # A dry run returns no version.
    needed = {"list": ("resourceVersion",), "create": ("name", "uid")}.get(verb, ("name", "uid", "resourceVersion"))
    missing = [field for field in needed if not isinstance(metadata.get(field), str)]
    if missing or (name is not None and metadata["name"] != name):
        raise ValueError(
            f"the answer has no metadata.{missing[0]}" if missing else "the answer is about another object"
        )
    if verb == "list":
        token, items = metadata.get("continue"), answer.get("items")
        if not isinstance(token, str | None) or not isinstance(items, list | None):
            raise ValueError("the answer is no list")
    return answer


def _retry_delay(error: ApiError, number: int, *, repeatable: bool) -> float | None:
    """Return the seconds before the same request may be repeated; `None` if it may not."""
    if not isinstance(error, UnavailableError) or number + 1 >= TRIES_MAX:
        return None
    if not repeatable and error.status != 429:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= RETRY_MAX_S else None
    return min(RETRY_MAX_S, RETRY_FIRST_S * 2.0**number) * random.uniform(0.5, 1.0)
