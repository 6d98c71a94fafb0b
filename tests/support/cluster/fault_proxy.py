"""A real API server behind the faults of the fake one: the same `Fault`, but the answers are those of a real server.

    async with FaultProxy(kubeconfig) as api:
        api.faults.append(Fault("lose the answer", verb="create", plural="pods"))
        operator = Operator(api.configuration(), settings)

Requests are passed on with the kubeconfig's credentials, and watches are streamed.
"""

import asyncio
import contextlib
import json
import ssl
from urllib.parse import parse_qs

import aiohttp
import yaml
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import load_kube_config
from support.cluster.client_configuration import configuration_of
from support.cluster.fake_api import LostError, delivered, parsed, suffered
from support.cluster.fake_store import Refusal
from yarl import URL

PASSED_ON = ("Accept", "Content-Type")


class FaultProxy:
    """One proxy from `__aenter__` to `__aexit__`, in the running loop."""

    def __init__(self, kubeconfig):
        self._kubeconfig = self.real_kubeconfig = kubeconfig
        self.faults = []
        self.requests = []
        self.silent = False
        """Watches stay open and send nothing."""

        self._watches = set()
        self._expired = set()

    async def __aenter__(self):
        real = Configuration()
        await load_kube_config(config_file=str(self._kubeconfig), client_configuration=real)
        context = ssl.create_default_context(cafile=real.ssl_ca_cert)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if real.cert_file:
            context.load_cert_chain(real.cert_file, real.key_file)
        header = await real.get_api_key_with_prefix("BearerToken", alias="authorization")
        self._headers = {"Authorization": header} if header else {}
        self._host = real.host.rstrip("/")
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0))
        app = web.Application(client_max_size=8 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_):
        self.break_watches()
        await self._runner.cleanup()
        await self._session.close()

    def configuration(self, user="operator"):
        """Return the client configuration of a user of the proxy; faults are for the operator only."""
        return configuration_of(self.url, user)

    def kubeconfig(self, folder):
        """Write a kubeconfig; return its path."""
        named = {"cluster": "proxy", "user": "operator"}
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy", "contexts": [{"name": "proxy", "context": named}],
            "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
            "users": [{"name": "operator", "user": {"token": "operator"}}],
        }  # fmt: skip
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path

    # ------------------------------------------------------------ watches
    def break_watches(self):
        """Close every watch, as a restarted API server does."""
        for over in self._watches:
            over.set()

    def forget(self):
        """Close every watch, and answer 410 to clients that resume from their last version."""
        self._expired |= {"backfills", "pods"}
        self.break_watches()

    async def _watch(self, http, seen, query, answer):
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(http)
        if query.get("resourceVersion") and seen.plural in self._expired:
            self._expired.discard(seen.plural)
            event = {"type": "ERROR", "object": Refusal(410, "Expired", "too old resource version").body()}
            await response.write(json.dumps(event).encode() + b"\n")
            return response
        over = asyncio.Event()
        self._watches.add(over)
        forwarding, ends = asyncio.create_task(self._tell(answer, response)), asyncio.create_task(over.wait())
        try:
            await asyncio.wait({forwarding, ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._watches.discard(over)
            for task in (forwarding, ends):
                task.cancel()
            await asyncio.gather(forwarding, ends, return_exceptions=True)
        return response

    async def _tell(self, answer, response):
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            async for part in answer.content.iter_any():
                if self.silent:
                    # Block for ever: the next bytes may be the second half of a line.
                    await asyncio.Event().wait()
                await response.write(part)

    # ------------------------------------------------------------ one request
    async def _answer(self, http):
        query = {name: values[0] for name, values in parse_qs(http.query_string).items()}
        body = await http.read()
        try:
            seen = parsed(http, query, json.loads(body) if body else None)
            seen.user = http.headers.get("Authorization", "").removeprefix("Bearer ")
            self.requests.append(seen)
            after = await suffered(self.faults, seen)
            headers = {name: http.headers[name] for name in PASSED_ON if name in http.headers} | self._headers
            url = URL(self._host + http.raw_path, encoded=True)
            request = self._session.request(http.method, url, data=body or None, headers=headers)
            async with request as answer:
                if seen.verb == "watch" and answer.status == 200:
                    return await self._watch(http, seen, query, answer)
                content = await answer.read()
                await delivered(after, seen)
                seen.status = answer.status
                return web.Response(body=content, status=answer.status, headers={"Content-Type": answer.content_type})
        except Refusal as refusal:
            headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
            return web.json_response(refusal.body(), status=refusal.status, headers=headers)
        except LostError as lost:
            lost.strike(http)
            return web.Response()
