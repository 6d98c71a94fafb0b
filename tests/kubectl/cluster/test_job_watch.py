"""The watch of one job keeps what its user may not do, once."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from kubernetes.client.configuration import Configuration
from support.plugin.objects import raw, stored

from backfill_kubectl.cluster import job_watch
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.job_watch import JobWatch
from backfill_kubectl.cluster.kubeconfig import Login
from backfill_kubectl.commands.options import now

WAIT_S = 10


class Server(BaseHTTPRequestHandler):
    """Has one Backfill; its user has the role `view`, until the right to patch is given."""

    def do_GET(self):
        """Answer a get, a list or a watch."""
        self._answer(200, raw() if self.path.endswith("/orders") else {"metadata": {}, "items": []})

    def do_PATCH(self):
        """Refuse a write."""
        self.rfile.read(int(self.headers["Content-Length"]))
        permitted = self.server.permitted.is_set()
        (self.server.accepted if permitted else self.server.refused).release()
        self._answer(*((200, raw()) if permitted else (403, {"kind": "Status", "message": "no"})))

    def _answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def server():
    """An API server on loopback."""
    made = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    made.refused, made.accepted, made.permitted = threading.Semaphore(0), threading.Semaphore(0), threading.Event()
    made.daemon_threads = True
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def test_missing_right_is_named_once_and_until_it_is_given(server, monkeypatch):
    """The note below the block became longer every 30 seconds, until it filled the screen."""
    monkeypatch.setattr(job_watch, "RENEW_S", 0.0)
    monkeypatch.setattr(job_watch, "POLL_S", 0.01)
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{server.server_port}"
    with JobWatch(ApiServer(Login(configuration, "shop", "test")), stored(), now) as watch:
        for _ in range(4):
            assert server.refused.acquire(timeout=WAIT_S)
        refused = watch.seen.limits
        server.permitted.set()
        for _ in range(2):
            assert server.accepted.acquire(timeout=WAIT_S)
        permitted = watch.seen.limits

    assert [text.partition(":")[0] for text in refused] == ["progress every 10 s"]
    assert permitted == ()
