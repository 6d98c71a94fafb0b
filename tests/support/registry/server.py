"""A real registry for tests: one process with one folder, by TLS, at an address that nodes reach.

It is compiled from the Go module proxy once (two minutes of two cores), and kept in the user's cache.
"""

import base64
import json
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

from support.cluster.harness import end
from support.stores.minio import compiled

MODULE = "github.com/distribution/distribution/v3@v3.1.2"
PACKAGE = "github.com/distribution/distribution/v3/cmd/registry"
UP_S = 60
OK = 200


class Registry:
    """A registry that runs."""

    def __init__(self, folder, address, certificate=None, log=None, *, user=""):
        """Take its folder and address; without a certificate it has no TLS. `user`: name and password, as `name:password`."""
        self.folder, self.address, self.certificate, self._log = folder, address, certificate, log
        self.context = certificate and ssl.create_default_context(cafile=str(certificate))
        self._headers = {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"} if user else {}

    def request(self, path, *, method="GET", content=None, **headers):
        """Send a request below `/v2/`; return status and headers of the answer.

        Args:
            path: Path below `/v2/`, or a URL that the registry gave.
            method: Method of the request.
            content: Bytes, or a file with a `Content-Length` among the headers.
            headers: Headers, with `_` for `-`.
        """
        scheme = "https" if self.certificate else "http"
        url = path if path.startswith(f"{scheme}://") else f"{scheme}://{self.address}/v2/{path}"
        named = self._headers | {name.replace("_", "-"): str(value) for name, value in headers.items()}
        request = urllib.request.Request(url, data=content, method=method, headers=named)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=300) as answer:
                answer.read()
                return answer.status, answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.headers

    def fetched(self, name):
        """Return the digests of the blobs and manifests of a repository that clients fetched, in order, by the log of requests."""
        fetched = []
        for line in self._log.read_text().splitlines():
            entry = json.loads(line) if line.startswith("{") else {}
            uri = entry.get("http.request.uri", "")
            served = (entry.get("http.request.method"), entry.get("http.response.status")) == ("GET", OK)
            if served and f"/{name}/" in uri and "sha256:" in uri:
                fetched.append(uri.rpartition("/")[2])
        return fetched


def registry_program():
    """Return the path of the registry's program.

    Raises:
        NoStoreError: it cannot be compiled; the message has the reason.
    """
    return compiled("registry", MODULE, PACKAGE)


@contextmanager
def running_registry(folder, address, certificate, key):
    """Give a registry while the block runs.

    Args:
        folder: For its content, configuration and log.
        address: Host and port.
        certificate: Its certificate, which is also the authority that clients trust.
        key: The key of the certificate.

    Raises:
        NoStoreError: it cannot be compiled; the message has the reason.
    """
    program = registry_program()
    settings = {
        "version": 0.1, "log": {"level": "info", "formatter": "json"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "content")}},
        "http": {"addr": address, "tls": {"certificate": str(certificate), "key": str(key)}},
    }  # fmt: skip
    (folder / "registry.json").write_text(json.dumps(settings))  # JSON is YAML
    log = folder / "registry.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(program), "serve", str(folder / "registry.json")], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        registry, deadline = Registry(folder, address, certificate, log), time.monotonic() + UP_S
        while not answers(registry):
            assert process.poll() is None, f"the registry ended: {log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"the registry is not ready: {log.read_text()[-2000:]}"
            time.sleep(0.1)
        yield registry
    finally:
        end(process)


def answers(registry):
    """Return whether a registry is ready."""
    try:
        return registry.request("")[0] == OK
    except OSError:
        return False
