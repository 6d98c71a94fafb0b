"""Access to the page: the one-time token of the link, the session that it opens, and the checks of each request."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST: Final = "127.0.0.1"
CSRF_HEADER: Final = "x-backfill-csrf"
OPEN_PATH: Final = "/open"
SAFE: Final = frozenset({"GET", "HEAD"})
SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
NO_SESSION: Final = "This page needs the link that the command printed. A link opens one session. Start the command again for a new one.\n"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is not served, and why."""

    status: int
    text: str


class Access:
    """The token of the link, and the session that it opens."""

    def __init__(self, port: int) -> None:
        """Make a token for a server on this port."""
        self.cookie_name = f"backfill-{port}"
        self._hosts = frozenset({f"{HOST}:{port}", f"localhost:{port}"})
        self._token: str | None = secrets.token_urlsafe(32)
        self._session: str | None = None
        self.link = f"http://{HOST}:{port}{OPEN_PATH}?token={self._token}"

    def redeem(self, token: str) -> str | None:
        """Return a session for the token, which is valid once; `None` for another token."""
        if self._token is None or not hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        self._token, self._session = None, secrets.token_urlsafe(32)
        return self._session

    def has_session(self, headers: Headers) -> bool:
        """Return whether a request has the cookie of the session."""
        # The parser of the standard library gives up at the first malformed cookie, which may be that of another program.
        given = cookie_parser(headers.get("cookie", "")).get(self.cookie_name, "")
        return self._session is not None and hmac.compare_digest(given.encode(), self._session.encode())

    @property
    def csrf(self) -> str:
        """Return the value that each POST of the page repeats in a header."""
        return hashlib.sha256(f"csrf:{self._session}".encode()).hexdigest()

    def refusal(self, method: str, path: str, headers: Headers) -> Refusal | None:
        """Return why a request is not served; `None` if it may be.

        A foreign host name that resolves to this machine would make its pages same-origin with this one, so only our own
        names are served. Pages of other origins can send a POST, but cannot read the header's value, and cannot change `Origin`.
        """
        host = headers.get("host", "")
        if host not in self._hosts:
            return Refusal(421, f"This server serves {min(self._hosts)}, not {host!r}.\n")
        if path == OPEN_PATH:
            return None
        if not self.has_session(headers):
            return Refusal(401, NO_SESSION)
        if method in SAFE:
            return None
        if headers.get("origin") != f"http://{host}" or headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return Refusal(403, "The request comes from another page.\n")
        if not hmac.compare_digest(headers.get(CSRF_HEADER, "").encode(), self.csrf.encode()):
            return Refusal(403, f"The header {CSRF_HEADER} is missing or wrong: load the page again.\n")
        return None

    def open(self, token: str, headers: Headers) -> Response:
        """Return the answer to the link: a cookie for its first use; another browser gets no session."""
        session = self.redeem(token)
        if session is None and not self.has_session(headers):
            return PlainTextResponse(NO_SESSION, 401)
        response = RedirectResponse("/", 303)
        if session is not None:
            response.set_cookie(self.cookie_name, session, httponly=True, samesite="strict")
        return response


class Guard:
    """ASGI application that checks each request, and adds the security headers to each answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        """Wrap an application."""
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._access.refusal(scope["method"], scope["path"], Headers(scope=scope))
        app = self._app if refusal is None else PlainTextResponse(refusal.text, refusal.status)
        await app(scope, receive, send_with_headers)
