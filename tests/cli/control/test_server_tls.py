"""The control server over TLS, as in a pod: who listens on a network must not be heard, nor held up, by anybody."""

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
    """Ask as a client that trusts a certificate."""

    def request(method, path, body=None, *, trusting="driver", token=job.token):
        trusted = ssl.create_default_context(cafile=files[trusting][0])
        place = urlsplit(job.server.url)
        connection = http.client.HTTPSConnection(place.hostname, place.port, context=trusted, timeout=20)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    return request


class TestItSpeaksTls:
    def test_the_address_says_so(self, job):
        """A client that reads it must learn how to connect."""
        assert urlsplit(job.server.url).scheme == "https"

    def test_looks_and_commands(self, ask):
        """The same words as on loopback."""
        assert ask("GET", "/v1/progress")[1]["rowsDone"] == 1000
        body = json.dumps({"attempt": 1, "revision": 1, "command": {"type": "Pause"}})
        status, ack = ask("POST", "/v1/command?wait=5", body)
        assert (status, ack["outcome"]) == (200, "Applied")

    def test_the_token_is_asked_for_all_the_same(self, ask, job):
        """TLS says who serves, not who asks."""
        assert ask("GET", "/v1/progress", token="wrong")[0] == 401
        assert job.seen == []


class TestOnlyTls:
    @pytest.fixture(autouse=True)
    def quiet(self, capfd):
        """What strangers do is no news for the terminal."""
        yield
        assert capfd.readouterr() == ("", "")

    def test_another_certificate_is_not_trusted(self, ask, job):
        """A machine between both ends would read the token."""
        with pytest.raises(ssl.SSLCertVerificationError):
            ask("GET", "/v1/progress", trusting="another")
        assert ask("GET", "/v1/progress")[0] == 200

    def test_plain_words_get_no_answer(self, ask, job):
        """A token sent in the clear must at least not be rewarded; and the server goes on."""
        place = urlsplit(job.server.url)
        with socket.create_connection((place.hostname, place.port), timeout=20) as plain:
            plain.sendall(f"GET /v1/progress HTTP/1.1\r\nAuthorization: Bearer {job.token}\r\n\r\n".encode())
            said = b""
            try:
                while part := plain.recv(4096):
                    said += part
            except ConnectionError:
                pass
        assert b"rowsDone" not in said
        assert ask("GET", "/v1/progress")[0] == 200

    def test_a_client_that_only_connects_delays_no_other(self, ask, job):
        """A port scan, a health check by TCP: the handshake is awaited by its own thread."""
        place = urlsplit(job.server.url)
        with ExitStack() as silent:
            for _ in range(20):
                silent.enter_context(socket.create_connection((place.hostname, place.port), timeout=20))
            assert ask("GET", "/v1/progress")[0] == 200

    def test_nor_does_he_hold_up_the_end(self, job):
        """The driver's exit must not wait for a stranger."""
        place = urlsplit(job.server.url)
        with socket.create_connection((place.hostname, place.port), timeout=20) as silent:
            job.server.close()
            with pytest.raises(OSError):
                socket.create_connection((place.hostname, place.port), timeout=1).close()
            assert silent.fileno() >= 0
