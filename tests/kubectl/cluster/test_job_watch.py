"""The watch of one job keeps what its user may not do, once."""

import threading
from http.server import BaseHTTPRequestHandler

import pytest
from support.plugin.objects import raw, stored
from support.plugin.small_server import Answers, api_of, serving_api

from backfill_kubectl.cluster import job_watch
from backfill_kubectl.cluster.job_watch import JobWatch
from backfill_kubectl.commands.options import now

WAIT_S = 30


class Server(Answers, BaseHTTPRequestHandler):
    """Has one Backfill; its user has the role `view`, until the right to patch is given."""

    def do_GET(self):
        """Answer a get, a list or a watch."""
        self.answer(200, raw() if self.path.endswith("/orders") else {"metadata": {}, "items": []})

    def do_PATCH(self):
        """Refuse a write."""
        self.rfile.read(int(self.headers["Content-Length"]))
        permitted = self.server.permitted.is_set()
        (self.server.accepted if permitted else self.server.refused).release()
        self.answer(*((200, raw()) if permitted else (403, {"kind": "Status", "message": "no"})))


@pytest.fixture
def server():
    """An API server on loopback."""
    state = {"refused": threading.Semaphore(0), "accepted": threading.Semaphore(0), "permitted": threading.Event()}
    with serving_api(Server, **state) as made:
        yield made


def test_missing_right_is_named_once_and_until_it_is_given(server, monkeypatch):
    """The note below the block became longer every 30 seconds, until it filled the screen."""
    monkeypatch.setattr(job_watch, "RENEW_S", 0.0)
    monkeypatch.setattr(job_watch, "POLL_S", 0.01)
    with JobWatch(api_of(server), stored(), now) as watch:
        for _ in range(4):
            assert server.refused.acquire(timeout=WAIT_S)
        refused = watch.seen.limits
        server.permitted.set()
        for _ in range(2):
            assert server.accepted.acquire(timeout=WAIT_S)
        permitted = watch.seen.limits

    assert [text.partition(":")[0] for text in refused] == ["progress every 10 s"]
    assert permitted == ()
