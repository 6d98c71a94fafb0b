"""The page shows the age of its data, also while a watch has lost its connection without an error."""

import json
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler

import pytest
from support.plugin.objects import raw
from support.plugin.small_server import Answers, api_of, serving_api

from backfill_kubectl.commands.options import now
from backfill_kubectl.commands.page import cluster_jobs, cluster_switch
from backfill_kubectl.commands.page.cluster_jobs import ClusterJobs


class Server(Answers, BaseHTTPRequestHandler):
    """Has one Backfill; a watch sends one change, which ends the job, and then stays open without events."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        """Answer a list or a watch; nothing at all once the network is lost."""
        if self.server.lost.is_set():
            self.close_connection = True
            return
        if "watch=true" in self.path:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            change = json.dumps({"type": "MODIFIED", "object": raw(status={"phase": "Succeeded"})}).encode() + b"\n"
            self.wfile.write(b"%x\r\n%b\r\n" % (len(change), change))
            self.server.over.wait()
            self.close_connection = True
            return
        self.answer(200, {"metadata": {"resourceVersion": "7"}, "items": [raw()]})

    def do_POST(self):
        """Permit all actions."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()


@pytest.fixture
def server():
    """An API server on loopback."""
    with serving_api(Server, lost=threading.Event(), over=threading.Event()) as made:
        yield made
        made.over.set()


def test_list_of_a_silent_server_becomes_old(server, monkeypatch):
    """The dot said `live` for two minutes after a VPN was gone, and a user did not see that a job continued."""
    monkeypatch.setattr(cluster_switch, "READ_EVERY_S", 0.0)
    monkeypatch.setattr(cluster_jobs, "LIST_EVERY_S", 0.1)
    jobs, over = (
        ClusterJobs(api_of(server), "shop", everywhere=False),
        threading.Event(),
    )
    with closing(jobs.watch_jobs(over)) as listings:
        began = now()
        assert next(listings).at >= began
        # By then the watch has its answer: an answer after the loss would be newer than the loss.
        assert any(row.state == "Succeeded" for listing in listings for row in listing.rows)
        server.lost.set()
        lost_at = now()
        later = [next(listings) for _ in range(2)]
        over.set()

    assert [row.key for row in later[-1].rows] == ["shop/orders"]
    assert later[-1].at <= lost_at
