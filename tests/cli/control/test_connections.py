"""Clients without the token cost the control server little, are disconnected soon, and never lock out a client with it."""

import http.client
import json
import os
import socket
import ssl
import threading
import time
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import pytest
from support.cluster.certificates import certificate
from support.drivers.fake_driver import ScriptedJob

from backfill_spark.control import connections
from backfill_spark.control.connections import (
    CONNECTIONS_MAX,
    HEADER_BYTES_MAX,
    HEADER_S,
    REQUEST_S,
    ControlConnections,
)

BUSY_S = 60.0
"""A step of a test takes less, also on a busy machine."""

UNAUTHENTICATED = 3 * CONNECTIONS_MAX
CUT_OFF = ConnectionError, ssl.SSLEOFError
"""The errors of a client that still writes when the server closes the connection: without TLS, and with it."""


class ObservedConnections(ControlConnections):
    """Connections that report each complete header."""

    def __init__(self, **limits):
        super().__init__(**limits)
        self.headers = threading.Semaphore(0)

    def header_read(self, connection, *, authenticated):
        super().header_read(connection, authenticated=authenticated)
        self.headers.release()


class Clock:
    """A clock that the test moves."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture(params=["http", "https"])
def context(request, tmp_path):
    """A server without and with TLS: a client may stop in the handshake."""
    if request.param == "http":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(tmp_path, "driver"))
    return context


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def limits(clock):
    return ObservedConnections(monotonic=clock)


@pytest.fixture
def job(context, limits):
    with ScriptedJob(ssl_context=context, connections=limits) as scripted:
        yield scripted


@pytest.fixture
def crowd():
    with ExitStack() as stack:
        yield stack


def unauthenticated(job, crowd, sent=b""):
    """Connect, send an incomplete header, and then nothing more."""
    place = urlsplit(job.server.url)
    connection = crowd.enter_context(socket.create_connection((place.hostname, place.port), timeout=BUSY_S))
    connection.sendall(sent)
    return connection


def client(job, crowd):
    """Return a connection that stays open."""
    place = urlsplit(job.server.url)
    if place.scheme == "http":
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=BUSY_S)
    else:
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(place.hostname, place.port, timeout=BUSY_S, context=unchecked)
    crowd.callback(connection.close)
    return connection


def read_progress(job, connection):
    connection.request("GET", "/v1/progress", headers={"Authorization": f"Bearer {job.token}"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())["rowsDone"]


def is_closed(connection):
    """Wait until the other side has closed a connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def until(holds):
    """Wait until a condition holds."""
    deadline_s = time.monotonic() + BUSY_S
    while not holds():
        assert time.monotonic() < deadline_s


class TestTooMany:
    def test_the_oldest_unauthenticated_connections_are_closed(self, job, crowd, monkeypatch):
        """A connection costs a thread and a TLS state. Without a limit, any pod in the cluster could exhaust the driver."""
        monkeypatch.setattr(connections, "ROOM_S", BUSY_S)
        threads = threading.active_count()
        before = client(job, crowd)
        assert read_progress(job, before) == (200, 1000)

        silent = [unauthenticated(job, crowd) for _ in range(UNAUTHENTICATED)]

        assert all(is_closed(connection) for connection in silent[: UNAUTHENTICATED - CONNECTIONS_MAX])
        assert len(job.server.connections) <= CONNECTIONS_MAX
        # The thread of an evicted connection ends shortly after the connection.
        until(lambda: threading.active_count() <= threads + CONNECTIONS_MAX + 1)
        assert read_progress(job, before) == (200, 1000)
        assert read_progress(job, client(job, crowd)) == (200, 1000)

    def test_an_unauthenticated_request_closes_its_connection(self, job, crowd):
        """Probes need no token, so a probe must not keep a connection open."""
        connection = client(job, crowd)
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert (answer.status, answer.read(), answer.headers["Connection"]) == (200, b"ok\n", "close")


class TestAHeader:
    """Limits that hold for each port are tested in tests/control_plane/process/test_ports.py."""

    def test_each_request_has_its_own_header_limit(self, job, crowd):
        """A client that polls keeps its connection for hours."""
        connection = client(job, crowd)
        answers = set()
        for _ in range(5):
            headers = {"Authorization": f"Bearer {job.token}", "X-Long": "x" * (HEADER_BYTES_MAX // 2)}
            connection.request("GET", "/v1/progress", headers=headers)
            answer = connection.getresponse()
            answers.add((answer.status, bool(answer.read())))
        assert answers == {(200, True)}


class TestTooSlow:
    @pytest.mark.parametrize(
        "sent",
        [b"", b"\x16\x03\x01", b"GET /healthz HTTP/1.1\r\nHost"],
        ids=["nothing", "half a hello", "half a header"],
    )
    def test_a_slow_header_meets_its_deadline(self, job, clock, crowd, sent):
        """A client that sends one byte in four seconds is not silent."""
        connection = unauthenticated(job, crowd, sent)
        read_progress(job, client(job, crowd))  # by now the server has accepted the connection before it
        clock.now_s = HEADER_S - 1
        with suppress(*CUT_OFF):  # the server closes a connection without TLS at once
            connection.sendall(b"\x01" if sent else b"")
        clock.now_s = HEADER_S + 1
        assert is_closed(connection)

    def test_a_slow_request_meets_its_deadline(self, job, clock, limits, crowd):
        """A body that arrives slowly, with the token, may take as long as the longest wait for an acknowledgement."""
        connection = client(job, crowd)
        connection.putrequest("POST", "/v1/command")
        connection.putheader("Authorization", f"Bearer {job.token}")
        connection.putheader("Content-Length", "100")
        connection.endheaders(b"{")
        assert limits.headers.acquire(timeout=BUSY_S)  # otherwise the deadline of the header may end it
        clock.now_s = HEADER_S + 1
        assert read_progress(job, client(job, crowd)) == (200, 1000)
        connection.send(b" ")
        clock.now_s = HEADER_S + REQUEST_S + 2
        with pytest.raises((http.client.HTTPException, ConnectionError, ssl.SSLError)):
            connection.getresponse()


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="this machine has no IPv6")
class TestItsAddress:
    def test_the_server_listens_on_ipv6(self, crowd):
        """A pod in an IPv6 cluster has no other address."""
        with ScriptedJob(host="::1") as job:
            assert urlsplit(job.server.url).hostname == "::1"
            assert read_progress(job, client(job, crowd)) == (200, 1000)
