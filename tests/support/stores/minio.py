"""A real S3 server for tests: one process on a free port, with buckets that exist from the start.

It is compiled from the Go module proxy once (three minutes of two cores), and kept in the user's cache.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from support.unused_ports import unused_ports

MODULE = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
BUILD_S = 1500
UP_S = 60
ACCESS_KEY, SECRET_KEY = "reader", "the secret of a reader"
BUCKETS = ("here", "there")


class NoStoreError(Exception):
    """No S3 server is available, and none can be made; the message has the reason."""


def program():
    """Return the path of the server's program: on the path, or compiled here.

    Raises:
        NoStoreError: the program is missing and cannot be compiled.
    """
    return compiled("minio", MODULE)


def compiled(name, module, package=""):
    """Return the path of a program: on the path, or compiled from its Go module and kept in the user's cache.

    Args:
        name: Name of the program.
        module: The module with its version.
        package: Package of the program, if it is not the module.

    Raises:
        NoStoreError: the program is missing and cannot be compiled.
    """
    installed = shutil.which(name)
    if installed:
        return Path(installed)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"backfill-{name}"
    made = cache / name
    if made.is_file():
        return made
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise NoStoreError(f"there is no {name} on the path, and no go to compile it")
    required, _, version = module.partition("@")
    cache.mkdir(parents=True, exist_ok=True)
    # A module of ours that requires the program: `go install` also asks for the list of versions, which some proxies do not serve.
    (cache / "go.mod").write_text(f"module build\n\ngo 1.21\n\nrequire {required} {version}\n")
    command = [go, "build", "-mod=mod", "-o", made, package or required]
    environ = {**os.environ, "GOFLAGS": ""}
    done = subprocess.run(command, cwd=cache, env=environ, capture_output=True, text=True, check=False, timeout=BUILD_S)
    if done.returncode:
        raise NoStoreError(f"{name} could not be compiled:\n" + "\n".join(done.stderr.splitlines()[-10:]))
    return made


class Store:
    """One server with one folder; it can be stopped and started, on the same port, with the same data."""

    def __init__(self, folder, host="127.0.0.1", **settings):
        """Prepare the folder of a new server at an address of this machine, with further variables; starts nothing."""
        self._program, self._folder, self._host, self._settings = program(), folder, host, settings
        for bucket in BUCKETS:
            (folder / "data" / bucket).mkdir(parents=True)
        (self.port,) = unused_ports(host, 1)
        self._process = None

    @property
    def endpoint(self):
        """URL of the server."""
        return f"http://{self._host}:{self.port}"

    @property
    def pid(self):
        """Process id of the running server."""
        return self._process.pid

    def start(self):
        """Start it; return when it answers."""
        environ = {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY, "HOME": str(self._folder),
                   "MINIO_BROWSER": "off", "PATH": os.environ["PATH"], **self._settings}  # fmt: skip
        log = (self._folder / "log").open("ab")
        command = [self._program, "server", self._folder / "data", "--address", f"{self._host}:{self.port}", "--quiet"]
        self._process = subprocess.Popen([str(argument) for argument in command], env=environ, stdout=log, stderr=log)
        deadline = time.monotonic() + UP_S
        while not _answers(f"{self.endpoint}/minio/health/ready"):
            log_tail = (self._folder / "log").read_text()[-2000:]
            assert self._process.poll() is None, f"the server ended: {log_tail}"
            assert time.monotonic() < deadline, f"the server is not ready: {log_tail}"
            time.sleep(0.05)

    def stop(self):
        """End it at once, as a machine that loses power does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


@contextmanager
def running_store(folder, host="127.0.0.1", **settings):
    """Give a server while the block runs; `settings`: further variables of its environment."""
    store = Store(folder, host, **settings)
    store.start()
    try:
        yield store
    finally:
        store.stop()


def credentials(access=ACCESS_KEY, secret=SECRET_KEY):
    """Return the credentials in a driver's environment."""
    return {"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret}


def for_spark(endpoint):
    """Return the settings by which Spark finds the server, without secrets."""
    return {
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }


def for_delta_rs(endpoint):
    """Return the same for the independent reader."""
    return {
        **credentials(),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": str(urlsplit(endpoint).scheme == "http").lower(),
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        "aws_conditional_put": "etag",
    }


def _answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False
