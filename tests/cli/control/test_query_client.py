"""The client of a monitoring system, against servers on loopback that answer in every way."""

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from backfill_spark.control.query_client import query

BUSY_S = 60.0
"""A server that answers does so earlier, also on a busy machine."""

ANSWER = json.dumps(
    {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "7"]}]}}
).encode()


@contextmanager
def monitoring(respond):
    """Give the address of a server, and the paths of its requests; `respond` answers one request."""
    paths, over = [], threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            paths.append(self.path)
            respond(self, over)

        def log_message(self, *_):
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", paths
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


def send(handler, status=200, body=ANSWER, **headers):
    """Answer with a status and a body."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def drip(handler, over):
    """Send a byte of the body at a time, and never all."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    while not over.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def megabytes(handler, over):
    """Send more than anyone reads."""
    handler.send_response(200)
    handler.end_headers()
    while not over.is_set():
        handler.wfile.write(b"x" * 65_536)


class TestAnAnswer:
    def test_of_a_number_is_its_value(self):
        """The expression is a parameter, below the path of the address; the spec has no other way to shape the request."""
        expression = 'max(rate(a{b="c & d"}[1m]))'
        with monitoring(lambda handler, _: send(handler)) as (url, paths):
            answer = query(f"{url}/prometheus/", expression)

        assert (answer.value, answer.problem) == (7.0, "")
        assert urlsplit(paths[0]).path == "/prometheus/api/v1/query"
        assert parse_qs(urlsplit(paths[0]).query) == {"query": [expression]}

    @pytest.mark.parametrize(
        ("respond", "timeout_s", "problem"),
        [
            (lambda handler, over: over.wait(30), 0.5, "no answer from 127.0.0.1:"),
            (drip, 0.5, "no answer from 127.0.0.1:"),
            (megabytes, BUSY_S, "the answer is larger than 64 KiB"),
            (lambda handler, _: send(handler, 500, b"oops"), BUSY_S, "HTTP 500"),
            (lambda handler, _: handler.wfile.write(b"SSH-2.0-x\r\n\r\n"), BUSY_S, "does not answer: "),
            (lambda handler, _: handler.connection.close(), BUSY_S, "does not answer: "),
        ],
        ids=["hangs", "drips", "is endless", "is an error", "is no HTTP", "is an end"],
    )
    def test_without_a_number_has_a_reason_in_time(self, respond, timeout_s, problem):
        """A thread that waits forever would measure nothing any more."""
        with monitoring(respond) as (url, _):
            answer = query(url, "up", timeout_s=timeout_s)

        assert answer.value is None
        assert problem in answer.problem

    def test_that_redirects_is_not_followed(self):
        """An allowed address must not lead to one that is not allowed."""

        def redirect(handler, _):
            send(handler, 302, b"", Location=other)

        with monitoring(lambda handler, _: send(handler)) as (other, followed), monitoring(redirect) as (url, _):
            answer = query(url, "up")

        assert answer.problem == "HTTP 302: a redirect, which is not followed"
        assert followed == []

    def test_of_a_closed_port_is_a_reason(self):
        """The system calls it refused."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]

        assert (
            query(f"http://127.0.0.1:{port}", "up").problem == f"127.0.0.1:{port} does not answer: Connection refused"
        )
