"""The control server over TLS, as in a pod: unauthenticated clients can neither command nor delay it."""

import http.client
import json
import socket
import ssl
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from support.cluster.certificates import certificate
from support.drivers.fake_driver import ScriptedJob


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    return {name: certificate(folder, name) for name in ("driver", "another")}


@pytest.fixture
def job(files):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files["driver"])
    with ScriptedJob(ssl_context=context) as scripted:
        yield scripted


@pytest.fixture
def ask(job, files):
    """Send a request as a client that trusts a certificate."""

    def request(method, path, body=None, *, trusting="driver", token=job.token):
        trusted = ssl.create_default_context(cafile=files[trusting][0])
        address = urlsplit(job.server.url)
        connection = http.client.HTTPSConnection(address.hostname, address.port, context=trusted, timeout=20)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    return request


class TestItSpeaksTls:
    def test_the_address_is_https(self, job):
        """A client reads the address to learn how to connect."""
        assert urlsplit(job.server.url).scheme == "https"

    def test_reads_and_commands_work(self, ask):
        """The answers are the same as on loopback."""
        assert ask("GET", "/v1/progress")[1]["rowsDone"] == 1000
        body = json.dumps({"attempt": 1, "revision": 1, "command": {"type": "Pause"}})
        status, ack = ask("POST", "/v1/command?wait=5", body)
        assert (status, ack["outcome"]) == (200, "Applied")

    def test_the_token_is_required(self, ask, job):
        """TLS authenticates the server, not the client."""
        assert ask("GET", "/v1/progress", token="wrong")[0] == 401
        assert job.seen == []


class TestOnlyTls:
    @pytest.fixture(autouse=True)
    def quiet(self, capfd):
        """Failed handshakes write nothing to the terminal."""
        yield
        assert capfd.readouterr() == ("", "")

    def test_another_certificate_is_not_trusted(self, ask, job):
        """A machine in the middle would read the token."""
        with pytest.raises(ssl.SSLCertVerificationError):
            ask("GET", "/v1/progress", trusting="another")
        assert ask("GET", "/v1/progress")[0] == 200

    def test_plain_http_gets_no_answer(self, ask, job):
        """A client that sends its token unencrypted must get no data, and the server must continue."""
        address = urlsplit(job.server.url)
        with socket.create_connection((address.hostname, address.port), timeout=20) as plain:
            plain.sendall(f"GET /v1/progress HTTP/1.1\r\nAuthorization: Bearer {job.token}\r\n\r\n".encode())
            received = b""
            try:
                while part := plain.recv(4096):
                    received += part
            except ConnectionError:
                pass
        assert b"rowsDone" not in received
        assert ask("GET", "/v1/progress")[0] == 200

    def test_a_client_that_only_connects_delays_no_other(self, ask, job):
        """It may be a port scan or a TCP health check; a separate thread waits for its handshake."""
        address = urlsplit(job.server.url)
        with ExitStack() as silent:
            for _ in range(20):
                silent.enter_context(socket.create_connection((address.hostname, address.port), timeout=20))
            assert ask("GET", "/v1/progress")[0] == 200

    def test_a_silent_client_does_not_delay_the_end(self, job):
        """The driver's exit must not wait for an unauthenticated client."""
        address = urlsplit(job.server.url)
        with socket.create_connection((address.hostname, address.port), timeout=20) as silent:
            job.server.close()
            with pytest.raises(OSError):
                socket.create_connection((address.hostname, address.port), timeout=1).close()
            assert silent.fileno() >= 0
