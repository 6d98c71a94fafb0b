"""Waiting and rate limits on the event loop's clock, which a test can replace by a virtual one."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final

RETRY_AFTER_MAX_S: Final = 300.0
"""Upper bound for a Retry-After, because its cause may end much earlier."""

_SECONDS: Final = re.compile(r"\d{1,9}(\.\d{1,9})?", flags=re.ASCII)


def retry_after_s(header: str | None, date: str | None) -> float | None:
    """Return the seconds of a Retry-After header; `None` if it is missing or unreadable.

    Args:
        header: A number of seconds, or an HTTP date.
        date: The `Date` of the same response, to which an HTTP date is relative.
    """
    if header is None:
        return None
    if _SECONDS.fullmatch(header.strip()):
        return min(float(header), RETRY_AFTER_MAX_S)
    until, now = time_of(header), time_of(date)
    return None if until is None or now is None else min(max(0.0, until - now), RETRY_AFTER_MAX_S)


def time_of(date: str | None) -> float | None:
    """Return the seconds since 1970 of an HTTP date; `None` if it cannot be read."""
    try:
        return parsedate_to_datetime(date or "").timestamp()
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None


async def wait(seconds: float, until: asyncio.Event | None = None) -> bool:
    """Wait for this time, or until the event is set; return whether it was set."""
    event = until or asyncio.Event()
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        return False
    return True


def jittered(seconds: float, spread: float = 0.25, *, chance: Callable[[], float] = random.random) -> float:
    """Return a delay that is up to `spread` shorter or longer, so that simultaneous starts drift apart."""
    return seconds * (1 + spread * (2 * chance() - 1))


class RequestBucket:
    """Grants at most `rate` tokens a second on average and `burst` at once, in order of request."""

    def __init__(self, rate: float, burst: float) -> None:
        """Start full."""
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._filled_at: float | None = None

    @classmethod
    def capped(cls, per_s: float) -> RequestBucket:
        """Return a bucket that gives at most this many tokens in any second, bursts included."""
        burst = max(1.0, per_s / 10)
        return cls(max(per_s - burst, per_s / 2), burst)

    def delay(self, now: float) -> float:
        """Take a token, if necessary a future one; return the seconds until it is available."""
        self._fill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    def try_take(self, now: float) -> bool:
        """Take a token if one is available; return whether it was."""
        self._fill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    async def take(self) -> float:
        """Wait for a token and take it; return the seconds waited."""
        delay = self.delay(asyncio.get_running_loop().time())
        if delay > 0:
            await wait(delay)
        return delay

    def _fill(self, now: float) -> None:
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + max(0.0, now - self._filled_at) * self._rate)
        self._filled_at = now
