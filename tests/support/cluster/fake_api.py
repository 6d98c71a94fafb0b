"""An API server in memory that serves real HTTP: lists in pages, watches with bookmarks, fences, dry runs, and faults.

    async with FakeApi() as api:
        api.faults.append(Fault("lose the answer", verb="create", plural="pods"))
        cluster = api.cluster(settings)

The suite of the real API server (tests/control_plane/kube/test_api_conformance.py) runs on it too. It implements only the
features that the operator and kopf use: no SSA, no schema, and only the admission that a test adds.
"""

import asyncio
import json
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import yaml
from aiohttp import web
from support.cluster.client_configuration import configuration_of
from support.cluster.fake_store import RESOURCES, Refusal, Store, matches

from backfill_operator.kube.client import Cluster

WRITES = {"create", "delete", "patch", "update"}


@dataclass
class Fault:
    """A fault of the next `times` requests that match."""

    what: str
    """`lose the request`, `lose the answer`, `answer` (with `status`), `raw` (with these bytes, then the end of the
    connection), `slow` (by `seconds`, before the request is done), `slow answer` (after it is done, also with an error), or
    only `action`."""

    verb: str | None = None
    plural: str | None = None
    namespace: str | None = None
    subresource: str | None = None
    name: str | None = None
    dry_run: bool | None = False
    status: int = 500
    reason: str = "InternalError"
    cause: str | None = None
    """Reason of the only cause in the answer's details."""

    retry_after: int | None = None
    raw: bytes = b""
    """Header and body as sent over the wire."""

    seconds: float = 0.0
    until: asyncio.Event | None = None
    """Ends a `slow answer` instead of `seconds`."""

    done: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the request of a `slow answer` is done."""

    action: object = None
    """Called with the request: before it is done, or after it when the answer is lost."""

    writes: bool = False
    """Only writes of any kind."""

    user: str | None = "operator"
    after: int = 0
    """Number of matching requests that succeed first."""

    times: float = 1

    def strikes(self, request):
        if self.writes and (request.verb not in WRITES or request.plural in ("leases", "events")):
            return False
        pattern = (self.verb, self.plural, self.namespace, self.subresource, self.name, self.dry_run, self.user)
        given = (
            request.verb, request.plural, request.namespace, request.subresource, request.name, request.dry_run,
            request.user,
        )  # fmt: skip
        if any(expected is not None and expected != actual for expected, actual in zip(pattern, given, strict=True)):
            return False
        if self.after:
            self.after -= 1
            return False
        if self.times <= 0:
            return False
        self.times -= 1
        return True


@dataclass
class Seen:
    """One request, for assertions."""

    verb: str
    plural: str
    namespace: str | None
    name: str | None
    subresource: str | None
    dry_run: bool
    user: str = ""
    status: int = 0
    body: object = field(default=None, repr=False)
    group: str = ""


class LostError(Exception):
    """The connection breaks, after these bytes."""

    def __init__(self, raw=b""):
        super().__init__()
        self.raw = raw

    def strike(self, http):
        """Send the bytes, and end the connection."""
        if self.raw:
            http.transport.write(self.raw)
        http.transport.close()


class FakeApi:
    """One API server from `__aenter__` to `__aexit__`, in the running loop."""

    def __init__(self, store=None, *, bookmark_s=0.5):
        self.store = store or Store()
        self.bookmark_s = bookmark_s
        self.faults = []
        self.requests = []
        self.field_lists = []
        """The field selectors of lists that had one."""

        self.silent = False
        """Watches stay open and send nothing."""

        self.instead = {}
        """Strings that replace others in answers: content that no parser here could hold."""

        self._watches = {}
        self._port = 0

    # ------------------------------------------------------------ life
    async def __aenter__(self):
        app = web.Application(client_max_size=8 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await self._listen()
        self.store.listeners.append(self._changed)
        return self

    async def _listen(self):
        self._site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await self._site.start()
        self._port = self._runner.addresses[-1][1]

    async def __aexit__(self, *_):
        self.store.listeners.remove(self._changed)
        self.break_watches()
        await self._runner.cleanup()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._port}"

    def kubeconfig(self, folder):
        """Write a kubeconfig; return its path."""
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": {"token": "operator"}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        }  # fmt: skip
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path

    def configuration(self, user="operator"):
        """Return the client configuration of a user of this server; faults are for the operator only."""
        return configuration_of(self.url, user)

    def cluster(self, settings, *, user="operator", **options):
        """Return the operator's own client of this server."""
        return Cluster(self.configuration(user), settings, **options)

    # ------------------------------------------------------------ watches
    @property
    def open_watches(self):
        """Number of open watches."""
        return len(self._watches)

    def fall_silent(self):
        """Keep every watch open, and send nothing through any of them."""
        self.silent = True

    def break_watches(self):
        """Close every watch, as a restarted API server does."""
        for queue in list(self._watches):
            queue.put_nowait(None)

    def forget(self):
        """Close every watch, and answer 410 to clients that resume from their last version."""
        self.store.forget_history()
        self.break_watches()

    def _changed(self, plural, kind, object_):
        if self.silent:
            return
        for queue, (watched, namespace) in self._watches.items():
            if watched == plural and namespace in (None, object_["metadata"]["namespace"]):
                queue.put_nowait((kind, object_, self.store.before))

    async def _watch(self, http, seen, query):
        since = int(query.get("resourceVersion") or 0) or self.store.version
        selector = query.get("labelSelector", "")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(http)
        queue = asyncio.Queue()

        async def say(kind, object_):
            await response.write(self._text({"type": kind, "object": object_}).encode() + b"\n")

        try:
            try:
                past = self.store.changes(seen.plural, seen.namespace, since)
            except Refusal as refusal:
                await say("ERROR", refusal.body())
                return response
            self._watches[queue] = seen.plural, seen.namespace
            wanted = query.get("fieldSelector", "").removeprefix("metadata.name=")
            before = {}
            for kind, object_ in past:
                if wanted not in ("", object_["metadata"]["name"]):
                    continue
                uid = object_["metadata"]["uid"]
                await self._say(say, selector, kind, object_, before.get(uid))
                before[uid] = object_
            while True:
                try:
                    async with asyncio.timeout(self.bookmark_s):
                        change = await queue.get()
                except TimeoutError:
                    if not self.silent:
                        resource = RESOURCES[seen.plural]
                        mark = {"metadata": {"resourceVersion": str(self.store.version)}}
                        await say("BOOKMARK", {"apiVersion": resource.api_version, "kind": resource.kind, **mark})
                    continue
                if change is None:
                    return response
                if wanted in ("", change[1]["metadata"]["name"]):
                    await self._say(say, selector, *change)
        except (ConnectionError, asyncio.CancelledError):
            return response
        finally:
            self._watches.pop(queue, None)

    @staticmethod
    async def _say(say, selector, kind, object_, before):
        """Send a change; an object that left the selector is sent as deleted, with its old content, as real servers do."""
        if matches(object_["metadata"].get("labels") or {}, selector):
            await say(kind, object_)
        elif before is not None and matches(before["metadata"].get("labels") or {}, selector):
            version = object_["metadata"]["resourceVersion"]
            await say("DELETED", before | {"metadata": before["metadata"] | {"resourceVersion": version}})

    # ------------------------------------------------------------ one request
    async def _answer(self, http):
        query = {name: values[0] for name, values in parse_qs(http.query_string).items()}
        body = json.loads(text) if (text := await http.text()) else None
        try:
            seen = parsed(http, query, body)
            seen.user = http.headers.get("Authorization", "").removeprefix("Bearer ")
            self.requests.append(seen)
            return await self._with_faults(http, seen, query, body)
        except Refusal as refusal:
            seen.status = refusal.status
            headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
            return web.json_response(refusal.body(), status=refusal.status, headers=headers)
        except LostError as lost:
            lost.strike(http)
            return web.Response()

    async def _with_faults(self, http, seen, query, body):
        after = await suffered(self.faults, seen)
        if seen.plural not in RESOURCES:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        if seen.verb == "watch":
            return await self._watch(http, seen, query)
        try:
            answer = self._do(seen, query, body)
        finally:
            await delivered(after, seen)
        seen.status = 201 if seen.verb == "create" else 200
        return web.json_response(text=self._text(answer), status=seen.status)

    def _text(self, answer):
        text = json.dumps(answer)
        for original, replacement in self.instead.items():
            text = text.replace(original, replacement)
        return text

    def _do(self, seen, query, body):
        where = seen.plural, seen.namespace
        match seen.verb:
            case "get":
                return self.store.get(*where, seen.name)
            case "list":
                if "fieldSelector" in query:
                    self.field_lists.append(query["fieldSelector"])
                items, token = self.store.list(
                    *where, selector=query.get("labelSelector", ""), fields=query.get("fieldSelector", ""),
                    limit=int(query.get("limit", 0)), token=query.get("continue", ""),
                )  # fmt: skip
                resource = RESOURCES[seen.plural]
                metadata = {"resourceVersion": str(self.store.version), "continue": token}
                return {
                    "apiVersion": resource.api_version, "kind": f"{resource.kind}List", "metadata": metadata, "items": items
                }  # fmt: skip
            case "create":
                return self.store.create(*where, body, dry_run=seen.dry_run)
            case "update":
                return self.store.update(*where, seen.name, body, subresource=seen.subresource)
            case "patch":
                return self.store.patch(*where, seen.name, body, subresource=seen.subresource)
            case "delete":
                options = body or {}
                uid = (options.get("preconditions") or {}).get("uid")
                return self.store.delete(*where, seen.name, uid=uid, grace_s=options.get("gracePeriodSeconds"))


async def suffered(faults, seen):
    """Apply the faults that hit a request before it is done; return the faults of its answer.

    Raises:
        LostError: the answer is lost.
        Refusal: the fault is the answer.
    """
    after = []
    for fault in faults:
        if not fault.strikes(seen):
            continue
        if fault.what in ("lose the answer", "slow answer"):
            after.append(fault)
            continue
        if fault.action is not None:
            fault.action(seen)
        match fault.what:
            case "lose the request":
                raise LostError
            case "raw":
                raise LostError(fault.raw)
            case "answer":
                raise Refusal(fault.status, fault.reason, f"injected: {fault.reason}", fault.retry_after, fault.cause)
            case "slow":
                await asyncio.sleep(fault.seconds)
    return after


async def delivered(after, seen):
    """Apply the faults of an answer: it is late, or it is lost.

    Raises:
        LostError: the answer is lost.
    """
    for fault in after:
        if fault.what == "slow answer":
            fault.done.set()
            await (asyncio.sleep(fault.seconds) if fault.until is None else fault.until.wait())
            continue
        if fault.action is not None:
            fault.action(seen)
    if any(fault.what == "lose the answer" for fault in after):
        raise LostError


def parsed(http, query, body):
    """Return the meaning of a request in RBAC's terms."""
    parts = http.path.strip("/").split("/")
    group, parts = ("", parts[2:]) if parts[0] == "api" else (parts[1] if len(parts) > 1 else "", parts[3:])
    namespace = None
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = (*(parts or [""]), None, None)[:3]
    verb = {
        "GET": "get" if name else "watch" if query.get("watch") == "true" else "list",
        "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete",
    }[http.method]  # fmt: skip
    return Seen(verb, plural, namespace, name, subresource, query.get("dryRun") == "All", body=body, group=group)
