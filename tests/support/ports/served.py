"""Every port that an operator or a driver opens, with its real server; in this process, or in one that can be measured.

`python -m support.ports.served NAME FOLDER` serves until its input ends, and prints the port first.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from support.cluster.certificates import certificate
from support.cluster.fake_api import FakeApi
from support.drivers.fake_driver import ScriptedJob

from backfill_operator import http_limits
from backfill_operator.health import Health
from backfill_operator.informer.cache import Cache
from backfill_operator.informer.relist import Relist
from backfill_operator.metrics import Metrics
from backfill_operator.settings import OperatorSettings
from backfill_spark.control import connections

NAMES = ("driver, http", "driver, https", "operator, probes", "operator, metrics")
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Port:
    """Address and limits of a port."""

    number: int
    path: str
    """Path that answers 200 without a token."""

    tls: bool = False
    token: str = ""
    """Token of the port; empty if it has none."""

    secret_path: str = ""
    """Path that answers 200 only with the token."""

    connections_max: int = 0
    connection_s: float = 0.0
    """Longest time of a connection without a token."""


@contextmanager
def served(name, folder, deadline_s=None):
    """Serve a port within the block; `deadline_s` replaces the longest time of a connection without a token."""
    with _driver(name, folder, deadline_s) if name.startswith("driver") else _operator(name, deadline_s) as port:
        yield port


@contextmanager
def _driver(name, folder, deadline_s):
    context = None
    if name.endswith("https"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate(folder, "driver"))
    longest_s = connections.HEADER_S if deadline_s is None else deadline_s
    admitted = connections.ControlConnections(header_s=longest_s)
    with ScriptedJob(ssl_context=context, connections=admitted) as job:
        yield Port(
            int(job.server.url.rsplit(":", 1)[1]), "/healthz", tls=context is not None, token=job.token,
            secret_path="/v1/progress", connections_max=connections.CONNECTIONS_MAX, connection_s=longest_s,
        )  # fmt: skip


@contextmanager
def _operator(name, deadline_s):
    longest_s = http_limits.CONNECTION_S if deadline_s is None else deadline_s
    ports, over = [], []
    ready = threading.Event()

    async def live():
        settings = OperatorSettings(identity="a", bind=HOST, health_port=0, metrics_port=0)
        async with FakeApi() as api, api.cluster(settings) as cluster:
            metrics, loop = Metrics(), asyncio.get_running_loop()
            relist = Relist(cluster, Cache(), settings, metrics, enqueue=lambda _: None, monotonic=loop.time)
            health = Health(settings, relist, None, metrics, connection_s=longest_s)
            async with health.served() as open_ports:
                end = asyncio.Event()
                ports.extend(open_ports)
                over.append(lambda: loop.call_soon_threadsafe(end.set))
                ready.set()
                await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    assert ready.wait(30)
    probes, metrics = ports
    port = Port(probes, "/livez") if name.endswith("probes") else Port(metrics, "/metrics")
    try:
        yield replace(port, connections_max=http_limits.CONNECTIONS_MAX, connection_s=longest_s)
    finally:
        over[0]()
        thread.join()


class Measured:
    """A port that a separate process serves within the block."""

    def __init__(self, name, folder):
        self._command = [sys.executable, "-m", "support.ports.served", name, str(folder)]

    def __enter__(self):
        paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
        environ = dict(os.environ, PYTHONPATH=paths)
        self._child = subprocess.Popen(
            self._command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.port = Port(**json.loads(self._child.stdout.readline()))
        return self

    def __exit__(self, *_):
        self._child.stdin.close()
        self._child.wait(30)
        self._child.stdout.close()

    @contextmanager
    def frozen(self):
        """Stop the process within the block; the kernel still accepts connections."""
        self._child.send_signal(signal.SIGSTOP)
        os.waitpid(self._child.pid, os.WUNTRACED)  # a signal stops the other threads a moment later
        try:
            yield
        finally:
            self._child.send_signal(signal.SIGCONT)

    def size_mib(self, name="VmRSS"):
        """Return the memory of the process now, or its peak with `VmHWM`."""
        status = Path(f"/proc/{self._child.pid}/status").read_text()
        return int(re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)[1]) / 1024

    def threads(self):
        """Return the number of its threads."""
        return len(os.listdir(f"/proc/{self._child.pid}/task"))


if __name__ == "__main__":
    with served(sys.argv[1], Path(sys.argv[2])) as opened:
        print(json.dumps(vars(opened)), flush=True)
        sys.stdin.read()
