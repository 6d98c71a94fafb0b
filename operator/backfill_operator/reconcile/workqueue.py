"""Keys to look at, each at most once at a time: the loop that every level-based controller turns on.

A key that is added twice before it is taken is taken once. A key that is added while it is worked on is taken again
afterwards, never beside. A key that fails waits twice as long each time, alone: others are not held up by it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from backfill_operator.kube.rate import jittered

BACKOFF_FIRST_S: Final = 0.25
BACKOFF_MAX_S: Final = 300.0
STALE_MAX: Final = 64
"""So many out-of-date entries of the heap, beside one for each delayed key, are cheaper than cleaning up."""

K = TypeVar("K", bound=Hashable)

Work = Callable[[K], Awaitable[float | None]]
"""Looks at one key; returns after how many seconds it wants to be looked at again, None: when something changes."""


class RetryLaterError(Exception):
    """The look came to nothing, through nobody's fault; it is tried again with growing delay, and is no error."""

    def __init__(self, message: str, *, after_s: float = 0.0) -> None:
        """Say why, and after how long at the earliest."""
        super().__init__(message)
        self.after_s = after_s


class WorkQueue(Generic[K]):
    """A keyed, de-duplicating queue with per-key backoff and a delay per key; for one event loop."""

    def __init__(
        self,
        *,
        chance: Callable[[], float] = random.random,
        on_waited: Callable[[float], None] = lambda _: None,
        on_failed: Callable[[K, Exception], None] = lambda _key, _error: None,
    ) -> None:
        """Start empty.

        Args:
            chance: Spreads delays; a test gives its own.
            on_waited: Told how long each key lay ready before it was taken.
            on_failed: Told of every look that raised; must not raise.
        """
        self._chance = chance
        self._on_waited = on_waited
        self._on_failed = on_failed
        self._ready: OrderedDict[K, float] = OrderedDict()
        self._working: set[K] = set()
        self._added_while_working: dict[K, float] = {}
        """Keys that were added while they were worked on, and since when."""

        self._due: dict[K, float] = {}
        """When a delayed key is due; what the heap says beside it is out of date."""

        self._heap: list[tuple[float, int, K]] = []
        self._number = itertools.count()
        self._failures: dict[K, int] = {}
        self._changed = asyncio.Event()

    # ------------------------------------------------------------ what is in it
    def __len__(self) -> int:
        """Keys that are ready to be taken."""
        return len(self._ready)

    @property
    def busy(self) -> int:
        """Keys that are worked on."""
        return len(self._working)

    @property
    def delayed(self) -> int:
        """Keys that wait for their time."""
        return len(self._due)

    @property
    def remembered(self) -> int:
        """Delays that are kept, those out of date included."""
        return len(self._heap)

    def failures(self, key: K) -> int:
        """Return how often a key failed since it last did not."""
        return self._failures.get(key, 0)

    # ------------------------------------------------------------ in
    def add(self, key: K) -> None:
        """Have a key looked at as soon as a worker is free; a delay that it waits for is over."""
        now = asyncio.get_running_loop().time()
        self._due.pop(key, None)
        if key in self._working:
            self._added_while_working.setdefault(key, now)
        elif key not in self._ready:
            self._ready[key] = now
            self._changed.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Have a key looked at after this long, or when it is already due earlier, then."""
        if key in self._ready or key in self._added_while_working:
            return
        due = asyncio.get_running_loop().time() + max(0.0, seconds)
        if self._due.get(key, due) >= due:
            self._due[key] = due
            heapq.heappush(self._heap, (due, next(self._number), key))
            self._compact()
            self._changed.set()

    def _compact(self) -> None:
        """Drop what the heap says of keys that were added meanwhile; a busy key would fill it."""
        if len(self._heap) > 2 * len(self._due) + STALE_MAX:
            self._heap = [(due, number, key) for due, number, key in self._heap if self._due.get(key) == due]
            heapq.heapify(self._heap)

    # ------------------------------------------------------------ out
    async def run(self, work: Work[K], workers: int) -> None:
        """Look at keys until cancelled, so many at a time.

        What `work` raises is told to `on_failed`, and the key waits; only cancellation ends a worker.
        """
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(self._worker(work), name=f"worker {number}")

    async def _worker(self, work: Work[K]) -> None:
        while True:
            key = await self._take()
            delay: float | None = None
            try:
                delay = await work(key)
                self._failures.pop(key, None)
            except Exception as error:  # noqa: BLE001 - one Backfill must never end the loop of all
                delay = self._backoff(key, error)
                self._on_failed(key, error)
            finally:
                self._give_back(key, delay)

    async def _take(self) -> K:
        loop = asyncio.get_running_loop()
        while True:
            self._promote(loop.time())
            if self._ready:
                key, since = self._ready.popitem(last=False)
                self._working.add(key)
                self._on_waited(loop.time() - since)
                return key
            self._changed.clear()
            try:
                async with asyncio.timeout_at(self._heap[0][0] if self._heap else None):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _promote(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                self.add(key)

    def _give_back(self, key: K, delay: float | None) -> None:
        self._working.discard(key)
        since = self._added_while_working.pop(key, None)
        if since is not None and not self.failures(key):
            self._ready[key] = since
            self._changed.set()
        elif delay is not None:
            self.add_after(key, delay)

    def _backoff(self, key: K, error: Exception) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(failures, 32))
        earliest = error.after_s if isinstance(error, RetryLaterError) else 0.0
        return max(earliest, jittered(delay, chance=self._chance))
