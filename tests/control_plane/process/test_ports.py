"""Every port of an operator or a driver has the same limits for clients without a token (ADR 0035)."""

import re
import select
from contextlib import ExitStack, suppress

import pytest
from support.ports.clients import (
    CUT_OFF,
    ask,
    becomes_ready,
    connect,
    half_close,
    is_ended,
    look,
    look_with_token,
    request,
    sent,
    statuses,
    until_ended,
)
from support.ports.flood import Flood
from support.ports.served import NAMES, Measured, served
from support.repository import ROOT

SHORT_S = 1.0
"""Maximum lifetime of a connection, for tests that wait for its end."""

LONG_S = 600.0
"""Maximum lifetime of a connection, for tests in which only another cause may end it."""

MIB = 1 << 20
TAKEN_MAX = 32 * MIB
"""Number of bytes that a client may write before its connection is aborted."""

UNREAD_MAX = MIB // 2
"""Number of a connection's bytes in kernel buffers, including the client's buffer."""

ELSEWHERE = "127.0.0.2"
"""An address that differs from that of the other clients."""

NOT_SUPPORTED = 501, 505
"""Requests with an invalid method, version, header or path."""

GROWTH_MAX_MIB = 32
FLOOD_S = 1

OPENS = re.compile(r"HTTPServer\b|create_server\(|start_server\(|TCPSite\(|SockSite\(|\.listen\(|\brun_app\(")
WHERE_PORTS_ARE_OPENED = {
    "operator/backfill_operator/health.py",
    "spark_app/backfill_spark/control/connections.py",
}
ON_LOOPBACK = {"spark_app/backfill_page/server/serve.py"}
"""The page of `backfill ui` runs on the machine of its only user, not in a pod; tests/page/test_access.py is its suite."""

GARBAGE = {
    "zeros": b"\0" * 1000,
    "half a TLS hello": b"\x16\x03\x01\x02\x00\x01",
    "empty lines": b"\r\n" * 1000,
    "a line without a path": b"GET\r\n\r\n",
    "a version that does not exist": b"GET /nothing HTTP/9.9\r\n\r\n",
    "a version that is no number": b"GET /nothing HTTP/x.y\r\n\r\n",
    "a header without a colon": b"GET /nothing HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
    "a header of zeros": b"GET /nothing HTTP/1.1\r\nHost: a\r\nX: \0\0\r\n\r\n",
    "a header that is no text": b"GET /nothing HTTP/1.1\r\nHost: a\r\nAuthorization: \xff\xfe\r\n\r\n",
    "a path that is no text": b"GET /\xff\xfe%00%ff HTTP/1.1\r\nHost: a\r\n\r\n",
    "a path that is no URL": b"GET http://[::1/nothing HTTP/1.1\r\nHost: a\r\n\r\n",
    "a method that does not exist": b"BREW /nothing HTTP/1.1\r\nHost: a\r\n\r\n",
    "a length below zero": b"POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    "a length that is no number": b"POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n",
    "two lengths": b"POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "chunks of no size": b"POST /nothing HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "an upgrade": b"GET /nothing HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + b"x" * 70_000,
}  # fmt: skip


@pytest.fixture(params=NAMES)
def name(request):
    """Return the name of each port."""
    return request.param


@pytest.fixture
def port(name, tmp_path):
    """Yield a port with its production limits."""
    with served(name, tmp_path) as opened:
        yield opened


@pytest.fixture
def short(name, tmp_path):
    """Yield a port whose connections without a token end soon."""
    with served(name, tmp_path, SHORT_S) as opened:
        yield opened


@pytest.fixture
def crowd():
    """Yield a list of connections that stay open until the end of the test."""
    with ExitStack() as stack:
        yield lambda port, **options: stack.enter_context(connect(port, **options))


def taken_without_a_reader(connection):
    """Return the number of bytes that the kernel buffers before it accepts no more."""
    taken = 0
    while select.select([], [connection], [], SHORT_S)[1]:
        taken += connection.send(b"x" * 65536)
        if taken > 4 * UNREAD_MAX:
            break
    return taken


def refused(connection):
    """Wait until a connection ends; return whether it did, without a response other than a client error."""
    return all(400 <= status < 500 or status in NOT_SUPPORTED for status in statuses(until_ended(connection)))


class TestThePorts:
    def test_suite_includes_all_ports(self):
        """Through a new port without limits, a pod without any right could end a process."""
        files = [path for root in ("operator", "spark_app", "crds") for path in (ROOT / root).rglob("*.py")]
        opened = {str(path.relative_to(ROOT)) for path in files if OPENS.search(path.read_text(encoding="utf-8"))}

        assert opened == WHERE_PORTS_ARE_OPENED | ON_LOOPBACK


class TestAGoodRequest:
    def test_probe_is_answered_without_a_token(self, port):
        """The other tests of this suite end with this request."""
        assert look(port) == [200]

    def test_other_requests_need_the_token(self, port):
        """The operator's ports have no such requests."""
        if port.token:
            assert look_with_token(port) == [200]
            for wrong in ("", "Authorization: Bearer wrong", f"Authorization: Bearer {port.token[:-1]}"):
                lines = (wrong, "Connection: close") if wrong else ("Connection: close",)
                assert statuses(ask(port, request(port.secret_path, *lines))) == [401]


class TestALargeRequest:
    @pytest.mark.parametrize(
        "header",
        [
            [f"X-{number}: a" for number in range(200)],
            [f"X-{number}: {'x' * 3000}" for number in range(100)],
            ["X: " + "x" * 40_000],
        ],
        ids=["many headers", "long headers", "one header"],
    )
    def test_request_with_a_large_header_is_refused(self, port, crowd, header):
        """Without a limit, a driver grew from 37 to 1,174 MiB in 40 s (fault S4)."""
        connection = crowd(port)
        sent(connection, request(port.path, *header, "Connection: close"))

        assert refused(connection)
        assert look(port) == [200]

    def test_request_with_a_large_first_line_is_refused(self, port, crowd):
        """It is read before any header."""
        connection = crowd(port)
        sent(connection, request(f"{port.path}?{'x' * 40_000}", "Connection: close"))

        assert refused(connection)
        assert look(port) == [200]

    @pytest.mark.parametrize(
        "start",
        ["GET {path} HTTP/1.1\r\nHost: a\r\nX: ", "GET /"],
        ids=["a header", "a request line"],
    )
    def test_request_without_an_end_is_aborted(self, port, crowd, start):
        """The client may write for any time."""
        connection = crowd(port)
        sent(connection, start.format(path=port.path).encode())

        assert not sent(connection, b"x" * TAKEN_MAX)
        assert look(port) == [200]

    @pytest.mark.parametrize("length", ["Content-Length: 999999999999", "Transfer-Encoding: chunked"])
    def test_body_of_a_request_is_not_read(self, port, crowd, length):
        """No request without a token needs a body."""
        connection = crowd(port)
        sent(connection, request("/v1/command", length, method="POST"))
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"

        assert not sent(connection, chunk * (TAKEN_MAX // len(chunk)))
        assert look(port) == [200]


class TestASlowClient:
    @pytest.mark.parametrize("says", [b"", b"GET /livez HTTP/1.1\r\nHost: a\r\n"], ids=["nothing", "half a header"])
    def test_silent_client_is_disconnected(self, short, crowd, says):
        """aiohttp's default keeps it for an hour."""
        with suppress(*CUT_OFF):  # a slower handshake is aborted too
            connection = crowd(short)
            sent(connection, says)

            assert refused(connection)

    def test_client_without_a_handshake_is_disconnected(self, short, crowd):
        """The server has received nothing yet if the port uses TLS."""
        assert refused(crowd(short, tls=False))

    def test_client_that_sends_single_bytes_is_disconnected(self, short, crowd):
        """A time-out between two bytes would not end it."""
        with suppress(*CUT_OFF):
            connection = crowd(short)
            sent(connection, b"GET /livez HTTP/1.1\r\nX: ")
            while not (ended := is_ended(connection, SHORT_S / 10)) and connection.send(b"x"):
                pass

            assert ended

    def test_idle_client_is_disconnected_after_an_answer(self, name, tmp_path, crowd):
        """A connection uses memory and a file descriptor. A driver ends it at once."""
        with served(name, tmp_path, None if name.startswith("driver") else SHORT_S) as port:
            connection = crowd(port)
            sent(connection, request(port.path))

            assert statuses(until_ended(connection)) == [200]

    def test_client_that_reads_no_answer_is_disconnected(self, short, crowd):
        """The answers would fill the memory."""
        with suppress(*CUT_OFF):
            connection = crowd(short)

            while sent(connection, request(short.path) * 100):
                pass


class TestManyClients:
    def test_old_connections_are_closed_for_new_ones(self, port, crowd):
        """A connection uses memory, and a thread in a driver."""
        silent = [crowd(port, tls=False) for _ in range(port.connections_max + 8)]

        assert look(port) == [200]
        assert [until_ended(connection) for connection in silent[:8]] == [b""] * 8

    def test_clients_of_one_address_do_not_disconnect_another(self, name, tmp_path, crowd):
        """If a flood could end a kubelet's probes, the operator or a driver would be restarted."""
        with served(name, tmp_path, LONG_S) as port:
            probe = crowd(port, tls=False, address=ELSEWHERE)
            for _ in range(2 * port.connections_max):
                crowd(port, tls=False)
            assert look(port) == [200]

            assert not is_ended(probe)


class TestGarbage:
    @pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
    def test_garbage_is_refused_or_aborted_and_not_logged(self, port, crowd, data, capfd, caplog):
        """No request of a client is a server error; any pod may send thousands."""
        connection = crowd(port)
        sent(connection, data)
        with suppress(*CUT_OFF, OSError):
            half_close(connection)

        assert refused(connection)
        assert look(port) == [200]
        assert (capfd.readouterr(), caplog.records) == (("", ""), [])


class TestAHalfClosedConnection:
    def test_half_closed_connection_with_a_request_is_answered_or_ended(self, name, port, crowd):
        """A client may close its side after a request. aiohttp treats the client as gone, and ends the connection."""
        connection = crowd(port)
        sent(connection, request(port.path, "Connection: close"))
        half_close(connection)

        assert statuses(until_ended(connection)) in ([200], [] if "operator" in name else [200])

    def test_half_closed_connection_with_half_a_request_is_ended_at_once(self, port, crowd):
        """The other half cannot arrive, so waiting is useless."""
        connection = crowd(port)
        sent(connection, b"GET /livez HTTP/1.1\r\nHost")
        half_close(connection)

        assert refused(connection)


class TestAFlood:
    def test_flood_of_headers_bodies_and_connections_needs_little_memory(self, name, tmp_path):
        """`python tests/benchmarks/control_connections.py --flood 600` runs it for ten minutes (fault S4)."""
        with Measured(name, tmp_path) as process:
            for _ in range(20):
                assert look(process.port) == [200]
            before_mib = process.size_mib()
            with Flood(process.port) as flood:
                flood.lasts(FLOOD_S)
                if process.port.token:
                    assert becomes_ready(process.port, look_with_token)

            assert becomes_ready(process.port)
            assert process.size_mib("VmHWM") - before_mib < GROWTH_MAX_MIB

    def test_unread_flood_waits_in_small_buffers(self, name, tmp_path):
        """The kernel's buffers count toward the memory of a pod: 6 MiB for each connection of a busy process."""
        with Measured(name, tmp_path) as process, process.frozen(), connect(process.port, tls=False) as connection:
            assert taken_without_a_reader(connection) < UNREAD_MAX
