"""Waiting and pacing on the event loop's own clock, so that a test can make it virtual."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable


async def wait(seconds: float, until: asyncio.Event | None = None) -> bool:
    """Return after this long, or when the event is set, whichever comes first; say whether it was the event."""
    event = until or asyncio.Event()
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        return False
    return True


def jittered(seconds: float, spread: float = 0.25, *, chance: Callable[[], float] = random.random) -> float:
    """Return a time up to `spread` shorter or longer: what starts together must not stay together."""
    return seconds * (1 + spread * (2 * chance() - 1))


class TokenBucket:
    """At most `rate` a second on average and `burst` at once, in the order of asking."""

    def __init__(self, rate: float, burst: float) -> None:
        """Start full."""
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._filled_at: float | None = None

    @classmethod
    def capped(cls, per_s: float) -> TokenBucket:
        """Return a bucket that gives at most so many tokens in *every* second: what may come at once is part of it."""
        burst = max(1.0, per_s / 10)
        return cls(max(per_s - burst, per_s / 2), burst)

    def delay(self, now: float) -> float:
        """Take a token, if need be one of the future; return how long to wait until it is there."""
        self._fill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    def try_take(self, now: float) -> bool:
        """Take a token if there is one now."""
        self._fill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    async def take(self) -> float:
        """Take a token, waiting for it; return how long that took."""
        delay = self.delay(asyncio.get_running_loop().time())
        if delay > 0:
            await wait(delay)
        return delay

    def _fill(self, now: float) -> None:
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + max(0.0, now - self._filled_at) * self._rate)
        self._filled_at = now
