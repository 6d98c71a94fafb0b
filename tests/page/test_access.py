"""Only the browser that opened the link reads the page and sends actions."""

import re

import pytest
from support.page.scripted_source import ScriptedSource, seen
from support.page.serving import serving

PATHS = ["/", "/job?key=shop/orders", "/events", "/events/job?key=shop/orders", "/static/page.js", "/nothing"]


@pytest.fixture(scope="module")
def source():
    """One job, of which each action succeeds."""
    return ScriptedSource(seen())


@pytest.fixture(scope="module")
def page(source):
    """A client with a session."""
    with serving(source) as client:
        client.open()
        yield client


class TestTheLink:
    """The command prints a link with a token that is valid once."""

    def test_link_opens_a_session_without_its_token(self):
        """The token would stay in the history of the browser, and in logs of extensions."""
        with serving(ScriptedSource()) as client:
            answer = client.open()

            assert (answer.status, answer.headers["Location"]) == (303, "/")
            assert re.fullmatch(
                rf"backfill-{client.port}=[\w-]{{40,}}; HttpOnly; Path=/; SameSite=strict", answer.headers["Set-Cookie"]
            )
            assert client.get("/").status == 200

    def test_second_browser_gets_no_session(self, page):
        """A link from the scrollback of a terminal, or from the list of processes, is worth nothing."""
        answer = page.get(page.link.removeprefix(page.origin), Cookie=None)

        assert answer.status == 401
        assert "Set-Cookie" not in answer.headers

    def test_first_browser_may_follow_the_link_again(self, page):
        """Users click the old link in their terminal."""
        answer = page.get(page.link.removeprefix(page.origin))

        assert (answer.status, answer.headers["Location"]) == (303, "/")

    @pytest.mark.parametrize("foreign", ['prefs={"dark": true}', "a,b=1", "name=two words", "x[0]=1", "bare", "é=é"])
    def test_cookies_of_other_programs_do_not_end_the_session(self, page, foreign):
        """A browser sends the cookies of all ports of this machine, the oldest first, and not all of them are well-formed."""
        answer = page.get("/", Cookie=f"{foreign}; {page.cookie}".encode())

        assert answer.status == 200

    @pytest.mark.parametrize("token", ["", "guess", "é", "x" * 5000])
    def test_wrong_token_opens_nothing(self, token):
        """Odd characters are a wrong token, too."""
        from urllib.parse import quote

        with serving(ScriptedSource()) as client:
            assert client.get(f"/open?token={quote(token)}").status == 401
            assert client.open().status == 303


class TestAStolenAddress:
    """Other users of the machine reach the port."""

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("cookie", [None, "backfill=x", "backfill-1=x", "a=\x01;;==", "theme=dark"])
    def test_no_path_answers_without_the_cookie(self, page, path, cookie):
        """The answer does not tell whether a job exists."""
        answer = page.get(path, Cookie=cookie)

        assert answer.status == 401
        assert "orders" not in answer.text
        assert "Start the command again" in answer.text

    def test_action_without_the_cookie_is_not_sent(self, page, source):
        """The value of the form's header is not enough."""
        assert page.act("shop/orders", "pause", headers={"Cookie": None}).status == 401
        assert source.acted == []


class TestAForeignPage:
    """A page of another origin in the same browser sends requests, and reads none of the answers."""

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": None}, {"Origin": "http://127.0.0.1:1"},
            {"X-Backfill-CSRF": None}, {"X-Backfill-CSRF": "0" * 64}, {"X-Backfill-CSRF": "é"},
            {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
        ],
        ids=str,
    )  # fmt: skip
    def test_its_action_is_rejected(self, page, source, headers):
        """The cookie of the session is not enough for an action."""
        encoded = {name: None if value is None else value.encode("utf-8") for name, value in headers.items()}

        assert page.act("shop/orders", "pause", headers=encoded).status == 403
        assert source.acted == []

    @pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
    def test_other_methods_send_no_action(self, page, source, method):
        """An image or a preflight request is no action."""
        assert page.send(method, "/act?verb=pause&key=shop/orders").status in (403, 405)
        assert source.acted == []

    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""]
    )
    @pytest.mark.parametrize("path", ["/", "/open?token=x", "/static/page.js"])
    def test_foreign_name_of_this_machine_is_not_served(self, page, host, path):
        """A name that resolves to 127.0.0.1 makes a foreign page same-origin (DNS rebinding)."""
        answer = page.get(path, Host=host.format(port=page.port))

        assert answer.status == 421
        assert "orders" not in answer.text

    @pytest.mark.parametrize("path", ["/", "/job?key=shop/orders", "/static/page.js", "/nothing"])
    def test_every_answer_forbids_inline_scripts_frames_and_foreign_sources(self, page, path):
        """Escaping is the first line, this policy the second."""
        answer = page.get(path)
        policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["Content-Security-Policy"].split(";"))

        assert policy["default-src"] == "'none'"
        assert {policy[name] for name in ("script-src", "style-src", "connect-src", "form-action")} == {"'self'"}
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Server" not in answer.headers
        assert "Access-Control-Allow-Origin" not in answer.headers

    def test_no_path_leaves_the_folder_of_assets(self, page):
        """The server may read files that the browser must not see."""
        for path in ("/static/../seen.py", "/static/%2e%2e/seen.py", "/static/..%2fseen.py", "/static//etc/passwd"):
            assert page.get(path).status == 404
