"""The page on a real port, and a client of it that sends the headers that a test chooses."""

import http.client
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode

from backfill_page.server.access import HOST
from backfill_page.server.serve import listen, page_server

TIMEOUT_S = 60


@dataclass
class PageClient:
    """Client of a page; it keeps the cookie of its session."""

    port: int
    link: str
    cookie: str = ""
    csrf: str = ""
    extra: dict = field(default_factory=dict)
    """Headers of every request."""

    @property
    def origin(self):
        """Return the origin of the page."""
        return f"http://{HOST}:{self.port}"

    def send(self, method, path, body=None, **headers):
        """Return the answer with `text`; a header that is `None` is left out."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=TIMEOUT_S)
        given = (
            {"Cookie": self.cookie} | self.extra | {name.replace("_", "-"): value for name, value in headers.items()}
        )
        connection.request(method, path, body, {name: value for name, value in given.items() if value is not None})
        answer = connection.getresponse()
        if "event-stream" in answer.headers.get("Content-Type", ""):
            answer.connection = connection  # the stream stays open
            return answer
        answer.text = answer.read().decode()
        connection.close()
        return answer

    def get(self, path, **headers):
        """Return the answer to a GET."""
        return self.send("GET", path, **headers)

    def open(self):
        """Follow the link, and keep its session."""
        answer = self.get(self.link.removeprefix(self.origin))
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        self.csrf = self.get("/").text.partition('"X-Backfill-CSRF": "')[2].partition('"')[0]
        return answer

    def act(self, key, verb, *, path="/act", body=None, headers=None, **fields):
        """Send the form of an action as the page does; return the answer."""
        form = urlencode({"key": key, "verb": verb, **{name.rstrip("_"): value for name, value in fields.items()}})
        given = {
            "Origin": self.origin, "X-Backfill-CSRF": self.csrf, "Content-Type": "application/x-www-form-urlencoded",
        }  # fmt: skip
        return self.send("POST", path, form if body is None else body, **given | (headers or {}))

    @contextmanager
    def events(self, path):
        """Yield an iterator over the messages of a stream."""
        answer = self.get(path)
        assert answer.status == 200, answer.read()
        try:
            yield (json.loads(line[6:]) for line in answer if line.startswith(b"data: "))
        finally:
            answer.close()
            answer.connection.close()


@contextmanager
def serving(source):
    """Yield a client of the page about a source; it has no session yet."""
    opened = listen(0)
    server, access = page_server(source, opened)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        yield PageClient(opened.getsockname()[1], access.link)
    finally:
        server.should_exit = True
        thread.join()
        opened.close()
