"""The operator as a separate process on one core, measured from outside."""

import asyncio
import contextlib
import os
import sys
import time
import urllib.request
from pathlib import Path

from support.unused_ports import unused_ports

from backfill_operator.settings import PREFIX


class LoneOperator:
    """An operator on the last core of this machine."""

    def __init__(self, kubeconfig, namespace, **settings):
        self.ports = unused_ports("127.0.0.1", 2)
        given = {
            "NAMESPACES": namespace, "LEADER_ELECTION": "false", "HEALTH_PORT": self.ports[0], "METRICS_PORT": self.ports[1],
            "BIND": "127.0.0.1", "LOG_LEVEL": "WARNING",
        } | settings  # fmt: skip
        self.environ = dict(os.environ, KUBECONFIG=str(kubeconfig)) | {PREFIX + k: str(v) for k, v in given.items()}

    async def __aenter__(self):
        self.began = time.monotonic()
        self.child = await asyncio.create_subprocess_exec(sys.executable, "-m", "backfill_operator", env=self.environ)
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(self.child.pid, {cores[-1]})
        return self

    async def __aexit__(self, *_):
        self.child.terminate()
        await self.child.wait()

    def metric(self, name):
        """Return the sum of a metric's samples."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[1]}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + " ", name + "{")))

    async def ready(self, within_s=120):
        def ask():
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"http://127.0.0.1:{self.ports[0]}/readyz", timeout=5),
            ):
                return True
            return False

        deadline = time.monotonic() + within_s
        while not await asyncio.to_thread(ask):
            assert time.monotonic() < deadline, "the operator did not get ready"
            assert self.child.returncode is None, "the operator ended"
            await asyncio.sleep(0.1)

    def rss_mib(self):
        pages = int(Path(f"/proc/{self.child.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    def cpu_s(self):
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
