"""An API server on the event loop alone, without a socket: for watches in virtual time.

It stands in the place of `aiohttp.ClientSession` for `WatchSession`, and in the place of `Cluster` for `Relist`.
"""

import asyncio
import json
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

from backfill_api.names import BACKFILL_LABEL, ROLE_LABEL
from backfill_operator.kube.resources import BACKFILLS, PODS

KINDS = {resource.plural: resource for resource in (BACKFILLS, PODS)}
GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}


class ScriptedApi:
    """Objects that are only created.

    A request is served after `turns` turns of the loop, and answered after as many; a list of `Relist` takes `list_s` seconds.
    """

    headers = {}
    closed = False

    def __init__(self, *, turns=0, list_s=0.0):
        self.version = 1
        self._turns = turns
        self._list_s = list_s
        self._history = []
        self._forgotten = 0
        self._watches = {}

    # ------------------------------------------------------------ changes
    def create(self, plural, name):
        """Create a Backfill, or a pod with a Backfill's name as label, and tell every open watch."""
        self.version += 1
        metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": str(self.version)}
        resource = KINDS[plural]
        made = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        if resource is PODS:
            metadata["labels"] = {ROLE_LABEL: "driver", BACKFILL_LABEL: name}
            made["status"] = {"phase": "Pending"}
        self._history.append((self.version, plural, made))
        for body in [body for body, watched in self._watches.items() if watched == plural]:
            body.feed(_line({"type": "ADDED", "object": made}))

    def forget(self):
        """Change something that is not watched, and end every watch; each that resumes from an older version gets a 410."""
        self.version += 1
        self._forgotten = self.version
        for body in list(self._watches):
            body.feed(b"")

    # ------------------------------------------------------------ watches, as `aiohttp.ClientSession`
    async def close(self):
        """Nothing is open."""

    async def get(self, url, **_):
        """Answer a list or a watch of kopf."""
        await self._takes_turns()
        answer = self._answer(url)
        await self._takes_turns()
        return answer

    def _answer(self, url):
        parts = urlsplit(url)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        body = _Body()
        if query.get("watch") == "true":
            self._watch(body, parts.path.rsplit("/", 1)[-1], int(query["resourceVersion"]))
        else:
            body.feed(_line({"metadata": {"resourceVersion": str(self.version)}, "items": []}))
            body.feed(b"")
        return SimpleNamespace(status=200, headers={}, content=body, close=lambda: self._watches.pop(body, None))

    def _watch(self, body, plural, since):
        if since < self._forgotten:
            body.feed(_line(GONE))
            body.feed(b"")
            return
        for version, changed, made in self._history:
            if changed == plural and version > since:
                body.feed(_line({"type": "ADDED", "object": made}))
        self._watches[body] = plural

    # ------------------------------------------------------------ lists, as `Cluster`
    async def pages(self, resource, _namespace=None, *, began, **_):
        """Yield all objects of a resource in one page, as they are at the beginning of the list."""
        await asyncio.sleep(self._list_s / 2)
        version, page = self.version, [made for _, plural, made in self._history if plural == resource.plural]
        await asyncio.sleep(self._list_s / 2)
        began(str(version))
        yield page

    async def _takes_turns(self):
        for _ in range(self._turns):
            await asyncio.sleep(0)


class _Body:
    """The content of one answer, as `aiohttp.StreamReader`; empty bytes are its end."""

    def __init__(self):
        self._chunks = asyncio.Queue()

    def feed(self, chunk):
        self._chunks.put_nowait(chunk)

    async def read(self, _most=-1):
        return await self._chunks.get()

    async def iter_any(self):
        while chunk := await self.read():
            yield chunk


def _line(event):
    return json.dumps(event).encode() + b"\n"
