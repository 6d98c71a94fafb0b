"""Prometheus and promtool for tests, compiled from the Go module proxy once and kept in the user's cache; no web interface, no discovery."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from support.unused_ports import unused_ports

MODULE, VERSION = "github.com/prometheus/prometheus", "v0.316.0"
BUILD_S = 3000
UP_S = 60


class NoPrometheusError(Exception):
    """Prometheus is not available and cannot be compiled; the message has the reason."""


def program(name):
    """Return the path of `prometheus` or `promtool`: on the path, or compiled here.

    Raises:
        NoPrometheusError: the program is missing and cannot be compiled.
    """
    installed = shutil.which(name)
    if installed:
        return Path(installed)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "backfill-prometheus"
    made = cache / name
    if made.is_file():
        return made
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise NoPrometheusError(f"there is no {name} on the path, and no go to compile it")
    environ = {**os.environ, "GOBIN": str(cache), "GOFLAGS": ""}
    # The tag leaves out the discovery of targets in clouds, which would be most of the code.
    command = [go, "install", "-tags", "remove_all_sd", f"{MODULE}/cmd/{name}@{VERSION}"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=BUILD_S)
    if done.returncode:
        raise NoPrometheusError(f"{name} could not be compiled:\n" + "\n".join(done.stderr.splitlines()[-10:]))
    return made


def promtool(*arguments, folder):
    """Run promtool in a folder; return the result."""
    command = [str(program("promtool")), *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


class Prometheus:
    """One server that scrapes one target every second."""

    def __init__(self, folder, target, rules):
        self._folder = folder
        (self.port,) = unused_ports("127.0.0.1", 1)
        # As the ServiceMonitor of the chart does it.
        scrape = {
            "job_name": "backfill-operator-metrics", "scrape_interval": "1s", "scrape_timeout": "1s", "honor_labels": True,
            "static_configs": [{"targets": [target], "labels": {"namespace": "backfill-system"}}],
        }  # fmt: skip
        config = {"global": {"evaluation_interval": "1s"}, "rule_files": [str(rules)], "scrape_configs": [scrape]}
        (folder / "prometheus.yml").write_text(json.dumps(config))

    async def __aenter__(self):
        command = [
            str(program("prometheus")), f"--config.file={self._folder / 'prometheus.yml'}", f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn",
        ]  # fmt: skip
        self._log = (self._folder / "log").open("wb")
        self._process = await asyncio.create_subprocess_exec(*command, stdout=self._log, stderr=self._log)
        deadline = time.monotonic() + UP_S
        while not await asyncio.to_thread(self._is_ready):
            assert self._process.returncode is None, (self._folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, "Prometheus is not ready"
            await asyncio.sleep(0.1)
        return self

    async def __aexit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        await self._process.wait()
        self._log.close()

    def _is_ready(self):
        url = f"http://127.0.0.1:{self.port}/-/ready"
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
        return False

    def _get(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    async def query(self, expression):
        """Return the samples of an expression as (labels, value)."""
        data = await asyncio.to_thread(self._get, "query", query=expression)
        return [(sample["metric"], float(sample["value"][1])) for sample in data["result"]]

    async def until(self, expression, within_s=60):
        """Wait until an expression has a sample; return the samples."""
        deadline = time.monotonic() + within_s
        while not (samples := await self.query(expression)):
            assert time.monotonic() < deadline, f"{expression} has no sample"
            await asyncio.sleep(0.2)
        return samples

    async def rules(self):
        """Return every rule with its health."""
        data = await asyncio.to_thread(self._get, "rules")
        return [rule for group in data["groups"] for rule in group["rules"]]
