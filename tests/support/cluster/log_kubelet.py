"""The part of a kubelet that serves logs of containers, for a real API server without nodes."""

import contextlib
import ssl
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from kubernetes import client, config
from support.cluster.certificates import certificate

NODE = "node-1"
"""The node to which `Kubelet` binds pods."""


class LogKubelet:
    """Serves the log of each pod, and streams lines that are written later to those who follow."""

    def __init__(self, kubeconfig, folder):
        self._kubeconfig, self._logs, self._changed = kubeconfig, {}, threading.Condition()
        self._cuts = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *accepted: _LogRequest(self, *accepted))
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate(folder, "kubelet"))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def write(self, pod, *lines):
        """Append lines to the log of a pod."""
        with self._changed:
            log = self._logs.setdefault(pod, ([], False))[0]
            log.extend((f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}.{len(log):09}Z", line) for line in lines)
            self._changed.notify_all()

    def cut(self):
        """End all connections; the containers run on."""
        with self._changed:
            self._cuts += 1
            self._changed.notify_all()

    def end(self, pod):
        """End the container, so that no client waits for more lines."""
        with self._changed:
            self._logs[pod] = (self._logs.get(pod, ([],))[0], True)
            self._changed.notify_all()

    def lines(self, pod, *, follow):
        """Yield the time and the text of each line of a pod, until its container ends or the connection is cut."""
        at, cuts = 0, self._cuts
        while True:
            with self._changed:
                if follow:
                    self._changed.wait_for(
                        lambda: len(self._log(pod)[0]) > at or self._log(pod)[1] or self._cuts > cuts, 60
                    )
                if self._cuts > cuts:
                    return
                lines, over = self._log(pod)
                new, at = lines[at:], len(lines)
            yield from new
            if over or not follow:
                return

    def _log(self, pod):
        return self._logs.get(pod, ([], False))

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        with config.new_client_from_config(str(self._kubeconfig)) as api:
            core = client.CoreV1Api(api)
            with contextlib.suppress(client.ApiException):
                core.delete_node(NODE)
            core.create_node({"metadata": {"name": NODE}})
            port = {"kubeletEndpoint": {"Port": self._server.server_address[1]}}
            addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
            core.patch_node_status(NODE, {"status": {"addresses": addresses, "daemonEndpoints": port}})
        return self

    def __exit__(self, *_):
        for pod in list(self._logs):
            self.end(pod)
        with config.new_client_from_config(str(self._kubeconfig)) as api:
            client.CoreV1Api(api).delete_node(NODE)
        self._server.shutdown()
        self._server.server_close()


class _LogRequest(BaseHTTPRequestHandler):
    """`GET /containerLogs/{namespace}/{pod}/{container}`; the end of the connection is that of the log."""

    def __init__(self, kubelet, *accepted):
        self._kubelet = kubelet
        super().__init__(*accepted)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        pod, asked = path.split("/")[3], {name: values[0] for name, values in parse_qs(query).items()}
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        with contextlib.suppress(OSError):
            for time, line in self._kubelet.lines(pod, follow=asked.get("follow") == "true"):
                # The API server passes whole seconds on.
                if time[:19] >= asked.get("sinceTime", "")[:19]:
                    stamp = f"{time} " if asked.get("timestamps") == "true" else ""
                    self.wfile.write(f"{stamp}{line}\n".encode())
                    self.wfile.flush()

    def log_message(self, *_):
        pass
