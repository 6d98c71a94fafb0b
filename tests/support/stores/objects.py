"""Objects in a bucket, read from the server itself: neither Hadoop nor delta-rs is involved.

Requests are signed here (AWS Signature Version 4), so that a test can also sign one with an old date or with other keys.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote, unquote, urlencode, urlsplit
from xml.etree import ElementTree as ET

REGION = "us-east-1"
NAMES = "{http://s3.amazonaws.com/doc/2006-03-01/}"
FORM = "application/x-www-form-urlencoded"
OK = 200


@dataclass(frozen=True)
class Keys:
    """Keys that sign a request."""

    access: str
    secret: str
    session: str = ""


@dataclass(frozen=True)
class Answer:
    """Answer of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Request:
    """A request that is not signed yet."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    service: str = "s3"

    @property
    def target(self) -> str:
        """Return the target in the first line of the request."""
        query = _query(self.query)
        return quote(self.path) + (f"?{query}" if query else "")


def signed(request: Request, host: str, keys: Keys, at: datetime) -> dict[str, str]:
    """Return the headers of a request that is signed at a given time."""
    day, timestamp = at.strftime("%Y%m%d"), at.strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(request.body).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": timestamp}
    if request.service != "s3":
        headers["content-type"] = FORM
    if keys.session:
        headers["x-amz-security-token"] = keys.session
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = "\n".join([request.method, quote(request.path), _query(request.query), lines, names, digest])
    scope = f"{day}/{REGION}/{request.service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", timestamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{keys.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    sign = hmac.new(key, text.encode(), "sha256").hexdigest()
    authorization = f"AWS4-HMAC-SHA256 Credential={keys.access}/{scope}, SignedHeaders={names}, Signature={sign}"
    return headers | {"authorization": authorization}


def ask(endpoint: str, request: Request, keys: Keys, at: datetime | None = None) -> Answer:
    """Send a request, signed with the current or another time; return the answer, whatever its status."""
    host = urlsplit(endpoint).netloc
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        headers = signed(request, host, keys, at or datetime.now(UTC))
        connection.request(request.method, request.target, request.body or None, headers)
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()


def _query(given: Mapping[str, str]) -> str:
    return urlencode(sorted(given.items()), quote_via=quote, safe="")


# ------------------------------------------------------------------ content of the environment's store
def objects_at(uri: str, after: str = "") -> Iterator[str]:
    """Return the keys of all objects below a folder, relative to it and in order, as the store lists them.

    Args:
        uri: `s3a://bucket/folder`; the environment names the store, as for delta-rs.
        after: Only keys behind this one, relative to the folder too.
    """
    bucket, prefix = _parts(uri)
    query = {"list-type": "2", "prefix": f"{prefix}/", "start-after": f"{prefix}/{after}", "encoding-type": "url"}
    while True:
        page = ET.fromstring(_of_environment(Request("GET", f"/{bucket}", query)).body)
        for key in page.iter(f"{NAMES}Key"):
            yield unquote(key.text or "")[len(prefix) + 1 :]
        more = page.findtext(f"{NAMES}NextContinuationToken")
        if not more:
            return
        query["continuation-token"] = more


def unfinished_uploads(uri: str) -> list[str]:
    """Return the ids of the uploads in parts of one object that were neither finished nor aborted."""
    bucket, key = _parts(uri)
    answer = _of_environment(Request("GET", f"/{bucket}", {"uploads": "", "prefix": key}))
    return [upload.text or "" for upload in ET.fromstring(answer.body).iter(f"{NAMES}UploadId")]


@lru_cache(maxsize=4096)
def text_of(uri: str) -> str:
    """Return the content of an immutable object."""
    bucket, key = _parts(uri)
    return _of_environment(Request("GET", f"/{bucket}/{key}")).body.decode()


def _parts(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3a://").partition("/")
    return bucket, key


def _of_environment(request: Request) -> Answer:
    keys = Keys(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
    answer = ask(os.environ["AWS_ENDPOINT_URL"], request, keys)
    assert answer.status == OK, f"{request.method} {request.path}: {answer.status} {answer.body!r}"
    return answer
