"""Client of the HTTP API for PromQL, for one query. It follows no redirect, sends no credentials, and reads a bounded answer."""

from __future__ import annotations

import http.client
import time
from typing import Final
from urllib.parse import urlencode, urlsplit

from backfill_core.pacing.query_answer import BODY_BYTES_MAX, read_answer
from backfill_core.protocol.events import QueryAnswered

TIMEOUT_S: Final = 10.0
CHUNK_BYTES: Final = 16 * 1024
CAUSE_CHARACTERS_MAX: Final = 200


def query(url: str, expression: str, *, timeout_s: float = TIMEOUT_S) -> QueryAnswered:
    """Return the answer of a server, or the reason why there is none; never raises an error of the network.

    Args:
        url: Address before `/api/v1/query`.
        expression: PromQL.
        timeout_s: Time for the whole answer.
    """
    place = urlsplit(url)
    deadline_s = time.monotonic() + timeout_s
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(place.netloc, timeout=timeout_s)
        try:
            path = f"{place.path.rstrip('/')}/api/v1/query?{urlencode({'query': expression})}"
            connection.request("GET", path, headers={"Accept": "application/json", "Connection": "close"})
            answer = connection.getresponse()
            body = b""
            while len(body) <= BODY_BYTES_MAX and (part := answer.read1(CHUNK_BYTES)):
                body += part
                if time.monotonic() > deadline_s:
                    raise TimeoutError
            return read_answer(answer.status, body[: BODY_BYTES_MAX + 1])
        finally:
            connection.close()
    except TimeoutError:
        return QueryAnswered(None, f"no answer from {place.netloc} within {timeout_s:.0f} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = (getattr(error, "strerror", None) or str(error) or type(error).__name__)[:CAUSE_CHARACTERS_MAX]
        return QueryAnswered(None, f"{place.netloc} does not answer: {cause}")
