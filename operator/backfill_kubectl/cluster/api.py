"""The client of the API server: raw objects in and out. Each error names the verb, the resource and the namespace."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from kubernetes.client.rest import RESTClientObject
from urllib3 import BaseHTTPResponse, HTTPHeaderDict, Retry, Timeout
from urllib3.exceptions import HTTPError

from backfill_api.names import GROUP, VERSION
from backfill_api.resources import ACCESS_REVIEWS, BACKFILLS, PODS, Resource
from backfill_api.shallow_json import loads
from backfill_core.command_errors import NotRunningError
from backfill_kubectl.cluster.kubeconfig import Login
from backfill_kubectl.decisions.stored import Json
from backfill_kubectl.errors import (
    ApiServerSilentError,
    BackfillNotFoundError,
    CrdMissingError,
    ForbiddenError,
    VersionTooOldError,
    WriteConflictError,
    WriteRefusedError,
)

CONNECT_S: Final = 5.0
READ_S: Final = 15.0
PAGE_SIZE: Final = 250
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest answer that is read: a page of 250 objects is a few megabytes, and etcd stores at most 1.5 MB for each."""

FIELD_MANAGER: Final = "kubectl-backfill"
METHODS: Final = {"create": "POST", "patch": "PATCH"}
"""Methods of HTTP by verb; all other verbs are reads."""

MERGE_PATCH: Final = "application/merge-patch+json"
MESSAGE_CHARACTERS_MAX: Final = 600
UNKNOWN_FIELD: Final = re.compile(r'unknown field "[^"]{1,200}"')
CHECK_ADDRESS: Final = "Check the address and the certificates with `kubectl cluster-info`."
RETRIES: Final = Retry(connect=2, read=False, redirect=False, status=False, other=False, backoff_factor=0.2)

# Each error of this module names its request; urllib3 would print a warning for each retry, too.
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class _Request:
    verb: str
    resource: Resource
    namespace: str | None
    name: str | None = None
    subresource: str | None = None
    url: str = ""
    """Path of a request that is about no resource."""

    @property
    def text(self) -> str:
        """Describe it as RBAC does: `patch backfills.backfill.dev orders in namespace shop`."""
        if self.url:
            return f"{self.verb} {self.url}"
        resource = self.resource.label + (f"/{self.subresource}" if self.subresource else "")
        name = f" {self.name}" if self.name else ""
        where = "in all namespaces" if self.namespace is None else f"in namespace {self.namespace}"
        return f"{self.verb} {resource}{name} {where}"


class ApiServer:
    """One API server, with the rights of the user."""

    def __init__(self, login: Login) -> None:
        """Connect to nothing yet."""
        self.login = login
        self._configuration = login.configuration
        self._host = login.configuration.host
        self._pool = RESTClientObject(login.configuration).pool_manager
        self._answered_s = time.monotonic()

    @property
    def silent_s(self) -> float:
        """Return the seconds since the newest answer, or since the beginning. A lost network ends a watch only after a while."""
        return time.monotonic() - self._answered_s

    def get(self, resource: Resource, namespace: str | None, name: str) -> Json:
        """Return one object.

        Raises:
            BackfillNotFoundError: it does not exist.
        """
        return self._json(_Request("get", resource, namespace, name))

    def pages(
        self, resource: Resource, namespace: str | None, *, labels: str = "", fields: str = "",
        began: Callable[[str], None] = lambda _: None,
    ) -> Iterator[list[Json]]:  # fmt: skip
        """Yield all objects of a namespace, or of all (`None`), page by page; `began` gets the version of the list."""
        query = {"limit": str(PAGE_SIZE), "labelSelector": labels, "fieldSelector": fields}
        while True:
            page = self._json(_Request("list", resource, namespace), query=query)
            metadata = page.get("metadata")
            metadata = metadata if isinstance(metadata, dict) else {}
            if "continue" not in query:
                began(str(metadata.get("resourceVersion", "")))
            yield [item for item in page.get("items") or [] if isinstance(item, dict)]
            token = metadata.get("continue")
            if not token:
                return
            query |= {"continue": token}

    def objects(self, resource: Resource, namespace: str | None, *, labels: str = "", fields: str = "") -> list[Json]:
        """Return all objects of a namespace, or of all (`None`)."""
        return [item for page in self.pages(resource, namespace, labels=labels, fields=fields) for item in page]

    def patch(self, resource: Resource, namespace: str, name: str, change: Json, *, dry_run: bool = False) -> Json:
        """Merge a change into an object; a field that the CRD does not define is an error, and nothing is written.

        Raises:
            WriteConflictError: the object changed since the version in `change.metadata.resourceVersion`.
            VersionTooOldError: the CRD does not define a field of the change.
        """
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        return self._json(_Request("patch", resource, namespace, name), query=query, body=change)

    def may(self, verb: str, resource: Resource, namespace: str | None) -> bool:
        """Return whether the API server would permit a request (SelfSubjectAccessReview), which every user may ask."""
        attributes = {"group": resource.group, "resource": resource.plural, "verb": verb, "namespace": namespace or ""}
        review = {
            "apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.kind, "spec": {"resourceAttributes": attributes},
        }  # fmt: skip
        status = self._json(_Request("create", ACCESS_REVIEWS, None), body=review).get("status")
        return isinstance(status, dict) and status.get("allowed") is True

    def log(
        self, namespace: str, pod: str, query: Mapping[str, str], *, quiet_s: float | None = READ_S
    ) -> Iterator[bytes]:
        """Yield the lines of a pod's log."""
        request = _Request("get", PODS, namespace, pod, "log")
        with self._answer(request, query=query, read_s=quiet_s, stream=True) as answer:
            yield from answer

    def watch(
        self, resource: Resource, namespace: str | None, name: str | None, version: str, *, quiet_s: float
    ) -> Iterator[Json]:
        """Yield the events of one object or of all after a version, bookmarks included, until the server ends the watch.

        Args:
            resource: Its kind.
            namespace: Its namespace; `None` for all.
            name: Its name; `None` for all objects.
            version: The resourceVersion after which the events begin.
            quiet_s: Seconds without an event after which the iterator ends.
        """
        query = {
            "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version,
            "fieldSelector": f"metadata.name={name}" if name else "", "timeoutSeconds": str(max(1, round(quiet_s * 10))),
        }  # fmt: skip
        request = _Request("watch", resource, namespace, name)
        with self._answer(request, path=resource.path(namespace), query=query, read_s=quiet_s, stream=True) as answer:
            for line in answer:
                self._answered_s = time.monotonic()
                yield _parsed(line, request)

    def schema(self) -> Json:
        """Return the OpenAPI document of our group and version, which every user may read."""
        return self._json(_Request("get", BACKFILLS, None, url=f"/openapi/v3/apis/{GROUP}/{VERSION}"))

    def version(self) -> Json:
        """Return the version of the API server."""
        return self._json(_Request("get", BACKFILLS, None, url="/version"))

    def served(self) -> Json:
        """Return the resources of our group and version, which every user may read.

        Raises:
            CrdMissingError: the cluster does not define Backfills.
        """
        return self._json(_Request("get", BACKFILLS, None, url=f"/apis/{GROUP}/{VERSION}"))

    # ------------------------------------------------------------ requests
    def _json(
        self, request: _Request, *, path: str = "", query: Mapping[str, str] | None = None, body: Any = None
    ) -> Json:
        with self._answer(request, path=path, query=query or {}, body=body) as answer:
            data = answer.read(ANSWER_BYTES_MAX + 1)
        if len(data) > ANSWER_BYTES_MAX:
            raise ApiServerSilentError(
                f"cannot {request.text}: the answer is longer than {ANSWER_BYTES_MAX >> 20} MiB.", hint=CHECK_ADDRESS
            )
        return _parsed(data, request)

    @contextmanager
    def _answer(
        self, request: _Request, *, path: str = "", query: Mapping[str, str], body: Any = None,
        read_s: float | None = READ_S, stream: bool = False,
    ) -> Iterator[BaseHTTPResponse]:  # fmt: skip
        """Yield the successful answer of a request, with its body unread.

        Raises:
            BackfillError: the request failed; the message names it.
        """
        path = path or request.url or request.resource.path(request.namespace, request.name, request.subresource)
        filled = {name: value for name, value in query.items() if value}
        url = f"{self._host}{path}" + (f"?{urlencode(filled)}" if filled else "")
        headers = HTTPHeaderDict({"Accept": "application/json"} | self._credentials())
        for name, value in self.login.acts_as:
            headers.add(name, value)  # a user may have several groups
        payload = None
        method = METHODS.get(request.verb, "GET")
        if body is not None:
            headers["Content-Type"] = MERGE_PATCH if method == "PATCH" else "application/json"
            payload = json.dumps(body).encode()
        try:
            answer = self._pool.request(
                method, url, body=payload, headers=headers, preload_content=False,
                timeout=Timeout(connect=CONNECT_S, read=read_s), retries=RETRIES, redirect=False,
            )  # fmt: skip
            self._answered_s = time.monotonic()
            try:
                if answer.status >= 400 or answer.status < 200 or 300 <= answer.status < 400:
                    raise self._error(request, answer.status, answer.read(ANSWER_BYTES_MAX))
                yield answer
            finally:
                # A watch that is left early has unread events, so its connection cannot be used again.
                answer.close() if stream else answer.drain_conn()
                answer.release_conn()
        except (HTTPError, OSError) as error:
            raise ApiServerSilentError(
                f"cannot {request.text}: {self._host} does not answer: {_cause(error)}",
                hint=CHECK_ADDRESS,
            ) from error

    def _credentials(self) -> dict[str, str]:
        token = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        if token:
            return {"Authorization": token}
        basic = self._configuration.get_basic_auth_token() if self._configuration.username else None
        return {"Authorization": basic} if basic else {}

    def _error(self, request: _Request, status: int, data: bytes) -> Exception:
        """Return the error of an answer."""
        whole = _message(data)
        message = _shortened(whole)
        match status:
            case 401:
                return ForbiddenError(
                    f"cannot {request.text}: the API server rejects the credentials of context {self.login.context}.",
                    hint="Log in again, and compare with `kubectl auth whoami`.",
                )
            case 403:
                return ForbiddenError(
                    f"you may not {request.text}: {message}",
                    hint=f"Ask for the verb {request.verb} on {request.resource.label}; check with `kubectl auth can-i`.",
                )
            case 404 if b'"Status"' not in data:
                return CrdMissingError(
                    f"cannot {request.text}: the cluster does not serve {request.resource.group}/{request.resource.version}.",
                    hint="Install the chart, or apply crds/backfills.yaml. Check --context, too.",
                )
            case 404:
                hint = (
                    "List them with `kubectl backfill list -A`."
                    if request.resource == BACKFILLS and request.name
                    else "Check the name, the namespace and --context."
                )
                return BackfillNotFoundError(f"cannot {request.text}: {message}", hint=hint)
            case 409:
                return WriteConflictError(f"cannot {request.text}: {message}", hint="Run the command again.")
            case 400 | 422 if unknown := UNKNOWN_FIELD.findall(whole):
                return VersionTooOldError(
                    f"cannot {request.text}: the CRD of this cluster is older than this command: {', '.join(unknown)}",
                    hint="Upgrade the chart, which contains the CRD. Nothing was changed.",
                )
            case 400 if request.subresource == "log":
                return NotRunningError(
                    f"cannot {request.text}: {message}", hint="Try again in some seconds, or give -f to wait."
                )
            case 400 | 413 | 422:
                return WriteRefusedError(f"cannot {request.text}: {message}", hint="Nothing was changed.")
            case _:
                return ApiServerSilentError(
                    f"cannot {request.text}: the API server answers {status}: {message}", hint="Run the command again."
                )


def _message(data: bytes) -> str:
    """Return the message of a `Status`, or the beginning of the text of a proxy."""
    try:
        body = loads(data)
    except ValueError:
        return data[:200].decode(errors="replace").strip()
    message = body.get("message") if isinstance(body, dict) else None
    return str(message or "")


def _shortened(message: str) -> str:
    """Return the begin and the end of a message: the API server may quote a whole object before the reason."""
    if len(message) <= MESSAGE_CHARACTERS_MAX:
        return message
    half = MESSAGE_CHARACTERS_MAX // 2
    return f"{message[:half]} … {message[-half:]}"


def _parsed(data: bytes, request: _Request) -> Json:
    try:
        body = loads(data)
    except ValueError as error:
        raise ApiServerSilentError(
            f"cannot {request.text}: the answer is not JSON; is there a proxy?", hint=CHECK_ADDRESS
        ) from error
    if not isinstance(body, dict):
        raise ApiServerSilentError(f"cannot {request.text}: the answer is not an object.", hint=CHECK_ADDRESS)
    return body


def _cause(error: BaseException) -> str:
    """Return the innermost reason of a failed connection, in one line."""
    reason = getattr(error, "reason", None)
    while isinstance(reason, BaseException):
        error, reason = reason, getattr(reason, "reason", None)
    return str(error).splitlines()[0][:MESSAGE_CHARACTERS_MAX] if str(error) else type(error).__name__
