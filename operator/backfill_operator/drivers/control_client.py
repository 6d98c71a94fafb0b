"""The client of drivers' control servers: HTTPS with a pinned certificate and a token, a time-out and a size limit.

The pin is checked after the TLS handshake and before the request is sent. So only the driver for which a token was
created receives it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import aiohttp
from pydantic import ValidationError
from pydantic_core import from_json

from backfill_api.model import known
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import Receipt
from backfill_api.wire import Ack, CommandRequest

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""More than 256 acknowledgements with the longest messages."""

CONNECTIONS_MAX: Final = 512
EXCERPT_CHARACTERS: Final = 200


class DriverUnreachableError(Exception):
    """There was no response, or not one of a driver; the message contains the reason."""


@dataclass(frozen=True, slots=True)
class DriverAddress:
    """The address and credentials of one attempt's driver."""

    attempt: int
    url: str
    """`https://host:port`."""

    token: str = field(repr=False)
    fingerprint: bytes = field(repr=False)
    """SHA-256 of its certificate."""


class ControlClient:
    """Sends requests to any number of drivers at the same time."""

    def __init__(self, timeout_s: float, *, answer_bytes_max: int = ANSWER_BYTES_MAX) -> None:
        """Create it inside the event loop.

        Args:
            timeout_s: Time limit for a response, in addition to the wait for an acknowledgement.
            answer_bytes_max: A longer response is refused.
        """
        self._timeout_s = timeout_s
        self._bytes_max = answer_bytes_max
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX, limit_per_host=4),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A proxy from the environment must never see a request to a driver.
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
        """Fetch the progress.

        Raises:
            DriverUnreachableError: there was no usable response.
        """
        return _read(Progress, await self._call(driver, "GET", "/v1/progress"))

    async def receipt(self, driver: DriverAddress) -> Receipt | None:
        """Fetch the newest receipt; `None` if there is none yet.

        Raises:
            DriverUnreachableError: there was no usable response.
        """
        body = await self._call(driver, "GET", "/v1/receipt")
        return None if body is None else _read(Receipt, body)

    async def acks(self, driver: DriverAddress, after: int = 0) -> tuple[Ack, ...]:
        """Fetch the acknowledgements above a revision, oldest first.

        Raises:
            DriverUnreachableError: there was no usable response.
        """
        acks = _mapping(await self._call(driver, "GET", f"/v1/acks?after={after}")).get("acks")
        return tuple(_read(Ack, ack) for ack in acks) if isinstance(acks, list) else ()

    async def command(self, driver: DriverAddress, request: CommandRequest, wait_s: float) -> Ack:
        """Send a command and wait for its acknowledgement; `Pending` means that it is accepted but not committed yet.

        Repeating a request is safe: a driver applies a revision once. Default values are omitted, because an earlier
        driver may not support all fields. A driver that cannot read the other fields answers `Refused`.

        Raises:
            DriverUnreachableError: there was no usable response, but the driver may have received the command.
        """
        body = request.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=True).encode()
        path = f"/v1/command?wait={wait_s:.3f}"
        answer = _mapping(await self._call(driver, "POST", path, body, wait_s=wait_s, good=(200, 202, 400, 409)))
        error = answer.get("error")
        return _read(Ack, answer) if error is None else _refused(request, error)

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
                    excerpt = text[:EXCERPT_CHARACTERS].decode(errors="replace")
                    raise DriverUnreachableError(f"{driver.url}{path} answered {answer.status}: {excerpt}")
                return from_json(text, allow_inf_nan=False)
        except aiohttp.ServerFingerprintMismatch as error:
            raise DriverUnreachableError(f"{driver.url} is not the driver of attempt {driver.attempt}") from error
        except TimeoutError as error:
            raise DriverUnreachableError(
                f"{driver.url} did not answer within {self._timeout_s + wait_s:g} s"
            ) from error
        except (aiohttp.ClientError, ValueError, OSError) as error:
            # aiohttp's own message contains a memory address, so each one would look new.
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


def _mapping(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise DriverUnreachableError(f"the driver answers {type(body).__name__}, not an object")
    return body


def _refused(request: CommandRequest, error: Any) -> Ack:
    """Return the acknowledgement of a driver that cannot read a command, with the driver's own message."""
    given = error if isinstance(error, dict) else {}
    message = ": ".join(
        str(given[field_name])[:EXCERPT_CHARACTERS] for field_name in ("field", "message") if field_name in given
    )
    return Ack(attempt=request.attempt, epoch=0, revision=request.revision, outcome="Refused", message=message)


def _read(model: type[M], body: Any) -> M:
    """Return the response as a model, without unknown fields: a driver of a later version may send more."""
    try:
        return model.model_validate(known(model, _mapping(body)))
    except ValidationError as error:
        raise DriverUnreachableError(f"the driver's response is not valid: {error.error_count()} errors") from error
