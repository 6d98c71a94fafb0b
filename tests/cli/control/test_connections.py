"""Unknown clients at the control server's port cost little, end soon, and never lock out a client with the token."""

import http.client
import json
import os
import socket
import ssl
import threading
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import pytest
from support.cluster.certificates import certificate
from support.drivers.fake_driver import ScriptedJob

from backfill_spark.control.connections import CONNECTIONS_MAX, HEADER_BYTES_MAX, HEADER_S, REQUEST_S, Connections

STRANGERS = 3 * CONNECTIONS_MAX
CUT_OFF = ConnectionError, ssl.SSLEOFError
"""What a client sees that still writes when the server ends the connection: without TLS, and with it."""


class Clock:
    """Time that passes when told to."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture(params=["http", "https"])
def context(request, tmp_path):
    """With and without TLS: a handshake is where a stranger may stop first."""
    if request.param == "http":
        return None
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*certificate(tmp_path, "driver"))
    return made


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def job(context, clock):
    with ScriptedJob(ssl_context=context, connections=Connections(monotonic=clock)) as scripted:
        yield scripted


@pytest.fixture
def crowd():
    with ExitStack() as stack:
        yield stack


def stranger(job, crowd, says=b""):
    """Connect, say something that is no whole header, and nothing more."""
    place = urlsplit(job.server.url)
    one = crowd.enter_context(socket.create_connection((place.hostname, place.port), timeout=20))
    one.sendall(says)
    return one


def known(job, crowd):
    """Return a connection that stays open."""
    place = urlsplit(job.server.url)
    if place.scheme == "http":
        one = http.client.HTTPConnection(place.hostname, place.port, timeout=20)
    else:
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        one = http.client.HTTPSConnection(place.hostname, place.port, timeout=20, context=unchecked)
    crowd.callback(one.close)
    return one


def look(job, one):
    one.request("GET", "/v1/progress", headers={"Authorization": f"Bearer {job.token}"})
    answer = one.getresponse()
    return answer.status, json.loads(answer.read())["rowsDone"]


def is_ended(one):
    """Wait until the other side has ended a connection."""
    try:
        return one.recv(1) == b""
    except ConnectionError:
        return True


class TestTooMany:
    def test_they_make_room_for_each_other_and_for_who_has_the_token(self, job, crowd):
        """A connection costs a thread and a TLS state: without an end to it, a pod without any right ends the driver."""
        threads = threading.active_count()
        before = known(job, crowd)
        assert look(job, before) == (200, 1000)

        silent = [stranger(job, crowd) for _ in range(STRANGERS)]

        assert all(is_ended(one) for one in silent[: STRANGERS - CONNECTIONS_MAX])
        assert len(job.server.connections) <= CONNECTIONS_MAX
        assert threading.active_count() <= threads + CONNECTIONS_MAX + 1
        assert look(job, before) == (200, 1000)
        assert look(job, known(job, crowd)) == (200, 1000)

    def test_a_stranger_s_request_is_its_last(self, job, crowd):
        """Probes need no token, so they must not be a way to stay."""
        one = known(job, crowd)
        one.request("GET", "/healthz")
        answer = one.getresponse()
        assert (answer.status, answer.read(), answer.headers["Connection"]) == (200, b"ok\n", "close")


class TestAHeader:
    """Limits that hold for each port are in tests/control_plane/process/test_ports.py."""

    def test_of_each_request_has_its_own_limit(self, job, crowd):
        """A client that polls keeps its connection for hours."""
        one = known(job, crowd)
        answers = set()
        for _ in range(5):
            headers = {"Authorization": f"Bearer {job.token}", "X-Long": "x" * (HEADER_BYTES_MAX // 2)}
            one.request("GET", "/v1/progress", headers=headers)
            answer = one.getresponse()
            answers.add((answer.status, bool(answer.read())))
        assert answers == {(200, True)}


class TestTooSlow:
    @pytest.mark.parametrize(
        "says",
        [b"", b"\x16\x03\x01", b"GET /healthz HTTP/1.1\r\nHost"],
        ids=["nothing", "half a hello", "half a header"],
    )
    def test_a_header_has_a_deadline_however_it_trickles(self, job, clock, crowd, says):
        """One byte in four seconds is not silence."""
        one = stranger(job, crowd, says)
        look(job, known(job, crowd))  # the one before it was let in
        clock.now_s = HEADER_S - 1
        with suppress(*CUT_OFF):  # what is no TLS at all is ended at once
            one.sendall(b"\x01" if says else b"")
        clock.now_s = HEADER_S + 1
        assert is_ended(one)

    def test_a_request_has_one_for_all_of_it(self, job, clock, crowd):
        """A body that trickles, with the token: the longest wait for an acknowledgement and no more."""
        one = known(job, crowd)
        one.putrequest("POST", "/v1/command")
        one.putheader("Authorization", f"Bearer {job.token}")
        one.putheader("Content-Length", "100")
        one.endheaders(b"{")
        clock.now_s = HEADER_S + 1
        assert look(job, known(job, crowd)) == (200, 1000)
        one.send(b" ")
        clock.now_s = HEADER_S + REQUEST_S + 2
        with pytest.raises((http.client.HTTPException, ConnectionError, ssl.SSLError)):
            one.getresponse()


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="this machine has no IPv6")
class TestItsAddress:
    def test_may_be_of_ipv6(self, crowd):
        """On a cluster of IPv6 a pod has no other."""
        with ScriptedJob(host="::1") as job:
            assert urlsplit(job.server.url).hostname == "::1"
            assert look(job, known(job, crowd)) == (200, 1000)
