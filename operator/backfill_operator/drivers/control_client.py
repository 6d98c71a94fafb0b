"""Talks to drivers: HTTPS with a pinned certificate and a token, one request each, every answer small and in time.

The pin is checked when the connection stands and before the first byte of a request: a token is never shown to anybody
but the driver that it was made for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import aiohttp
from pydantic import ValidationError
from pydantic_core import from_json

from backfill_api.status.progress import Progress
from backfill_api.status.receipt import Receipt
from backfill_api.wire import Ack, CommandRequest

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""256 acknowledgements of the longest message are less."""

CONNECTIONS_MAX: Final = 512


class DriverUnreachableError(Exception):
    """There was no answer, or none of a driver of ours; the message says which."""


@dataclass(frozen=True, slots=True)
class DriverAddress:
    """Where the driver of one attempt is, and how it is known."""

    attempt: int
    url: str
    """`https://host:port`."""

    token: str = field(repr=False)
    fingerprint: bytes = field(repr=False)
    """SHA-256 of its certificate."""


class ControlClient:
    """Asks drivers; any number of them, at the same time."""

    def __init__(self, timeout_s: float, *, answer_bytes_max: int = ANSWER_BYTES_MAX) -> None:
        """Must be made inside the event loop.

        Args:
            timeout_s: How long an answer may take, beside what a command waits for.
            answer_bytes_max: A longer answer is none.
        """
        self._timeout_s = timeout_s
        self._bytes_max = answer_bytes_max
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX, limit_per_host=4),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A proxy of the environment must never see a request for a driver.
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        """Nothing to do: the first request connects."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self._http.close()

    async def progress(self, driver: DriverAddress) -> Progress:
        """Ask how far it is.

        Raises:
            DriverUnreachableError: no answer that could be used.
        """
        words = await self._call(driver, "GET", "/v1/progress")
        # A driver of a later version may say more; what is not known is not shown.
        known = {name: value for name, value in _mapping(words).items() if name in _PROGRESS_FIELDS}
        return _read(Progress, known)

    async def receipt(self, driver: DriverAddress) -> Receipt | None:
        """Ask for the newest receipt; None: there is none yet.

        Raises:
            DriverUnreachableError: no answer that could be used.
        """
        words = await self._call(driver, "GET", "/v1/receipt")
        return None if words is None else _read(Receipt, words)

    async def acks(self, driver: DriverAddress, after: int = 0) -> tuple[Ack, ...]:
        """Ask what was acknowledged above a revision, oldest first.

        Raises:
            DriverUnreachableError: no answer that could be used.
        """
        words = _mapping(await self._call(driver, "GET", f"/v1/acks?after={after}"))
        acks = words.get("acks")
        return tuple(_read(Ack, one) for one in acks) if isinstance(acks, list) else ()

    async def command(self, driver: DriverAddress, request: CommandRequest, wait_s: float) -> Ack:
        """Send a command and wait so long for its acknowledgement; `Pending`: it has the command and not sealed it.

        Sending the same request again is harmless: a driver applies a revision once.

        Raises:
            DriverUnreachableError: no answer that could be used; it may have the command all the same.
        """
        body = request.model_dump_json(by_alias=True, exclude_none=True).encode()
        path = f"/v1/command?wait={wait_s:.3f}"
        return _read(Ack, await self._call(driver, "POST", path, body, wait_s=wait_s, good=(200, 202, 409)))

    async def _call(
        self,
        driver: DriverAddress,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        wait_s: float = 0.0,
        good: tuple[int, ...] = (200,),
    ) -> Any:
        try:
            async with self._http.request(
                method,
                driver.url + path,
                data=body,
                headers={"Authorization": f"Bearer {driver.token}", "Content-Type": "application/json"},
                ssl=aiohttp.Fingerprint(driver.fingerprint),
                timeout=aiohttp.ClientTimeout(total=self._timeout_s + wait_s),
                allow_redirects=False,
            ) as answer:
                text = await self._text(answer)
                if answer.status not in good:
                    words = text[:200].decode(errors="replace")
                    raise DriverUnreachableError(f"{driver.url}{path} answered {answer.status}: {words}")
                return from_json(text, allow_inf_nan=False)
        except aiohttp.ServerFingerprintMismatch as error:
            raise DriverUnreachableError(f"{driver.url} is not the driver of attempt {driver.attempt}") from error
        except TimeoutError as error:
            raise DriverUnreachableError(
                f"{driver.url} did not answer within {self._timeout_s + wait_s:g} s"
            ) from error
        except (aiohttp.ClientError, ValueError, OSError) as error:
            # aiohttp's own words have an address in memory in them, and were new each time.
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            raise DriverUnreachableError(f"{driver.url}: {type(error).__name__}: {cause}") from error

    async def _text(self, answer: aiohttp.ClientResponse) -> bytes:
        text = b""
        async for chunk in answer.content.iter_any():
            text += chunk
            if len(text) > self._bytes_max:
                answer.close()
                raise DriverUnreachableError(f"{answer.url} answers more than {self._bytes_max:,} bytes")
        return text


M = TypeVar("M", Progress, Receipt, Ack)
_PROGRESS_FIELDS: Final = frozenset(one.alias or name for name, one in Progress.model_fields.items())


def _mapping(words: Any) -> dict[str, Any]:
    if not isinstance(words, dict):
        raise DriverUnreachableError(f"the driver answers {type(words).__name__}, not an object")
    return words


def _read(model: type[M], words: Any) -> M:
    try:
        return model.model_validate(words)
    except ValidationError as error:
        raise DriverUnreachableError(f"the driver's words are none of ours: {error.error_count()} errors") from error
