"""The work queue of a level-based controller: keys to reconcile, each at most once at a time.

A key that is added twice before a worker takes it is processed once. A key that is added while a worker processes it is
processed again afterwards, never in parallel. The delay of a failing key doubles each time; other keys do not wait for it.
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
RETRY_MAX_S: Final = 15.0
"""Longest delay after a `RetryLaterError`: the outage that caused it may end at any time, and no watch reports that."""

STALE_MAX: Final = 64
"""Number of outdated heap entries, in addition to one for each delayed key, that cost less than their removal."""

K = TypeVar("K", bound=Hashable)

Work = Callable[[K], Awaitable[float | None]]
"""Reconciles one key; returns the seconds until the next reconcile at the latest, or `None` to wait for a change."""


class RetryLaterError(Exception):
    """The reconcile must be repeated, with a growing delay; the operator has no error."""

    def __init__(self, message: str, *, after_s: float = 0.0) -> None:
        """Take the reason, and the shortest delay in seconds."""
        super().__init__(message)
        self.after_s = after_s


class WorkQueue(Generic[K]):
    """A deduplicating queue of keys with backoff and delay for each key; for one event loop."""

    def __init__(
        self,
        *,
        chance: Callable[[], float] = random.random,
        on_waited: Callable[[float], None] = lambda _: None,
        on_failed: Callable[[K, Exception], None] = lambda _key, _error: None,
    ) -> None:
        """Start empty.

        Args:
            chance: Random numbers from 0 to 1, for jitter.
            on_waited: Called with the seconds that each key waited for a worker.
            on_failed: Called with each error of `work`; must not raise.
        """
        self._chance = chance
        self._on_waited = on_waited
        self._on_failed = on_failed
        self._ready: OrderedDict[K, float] = OrderedDict()
        self._working: set[K] = set()
        self._added_while_working: dict[K, float] = {}
        """Keys that were added while a worker processed them, with the time."""

        self._due: dict[K, float] = {}
        """Due time of each delayed key; other heap entries of the key are outdated."""

        self._heap: list[tuple[float, int, K]] = []
        self._number = itertools.count()
        self._failures: dict[K, int] = {}
        self._changed = asyncio.Event()

    # ------------------------------------------------------------ contents
    def __len__(self) -> int:
        """Return the number of keys that are ready."""
        return len(self._ready)

    @property
    def busy(self) -> int:
        """Number of keys that a worker processes."""
        return len(self._working)

    @property
    def delayed(self) -> int:
        """Number of keys that wait for their due time."""
        return len(self._due)

    @property
    def remembered(self) -> int:
        """Number of heap entries, including outdated ones."""
        return len(self._heap)

    def failures(self, key: K) -> int:
        """Return the number of consecutive failures of a key."""
        return self._failures.get(key, 0)

    # ------------------------------------------------------------ in
    def add(self, key: K) -> None:
        """Make a key ready for the next free worker; this ends its delay."""
        now = asyncio.get_running_loop().time()
        self._due.pop(key, None)
        if key in self._working:
            self._added_while_working.setdefault(key, now)
        elif key not in self._ready:
            self._ready[key] = now
            self._changed.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Make a key ready after this delay, or at its earlier due time."""
        if key in self._ready or key in self._added_while_working:
            return
        due = asyncio.get_running_loop().time() + max(0.0, seconds)
        if self._due.get(key, due) >= due:
            self._due[key] = due
            heapq.heappush(self._heap, (due, next(self._number), key))
            self._compact()
            self._changed.set()

    def _compact(self) -> None:
        """Remove outdated heap entries, because a busy key would fill the heap."""
        if len(self._heap) > 2 * len(self._due) + STALE_MAX:
            self._heap = [(due, number, key) for due, number, key in self._heap if self._due.get(key) == due]
            heapq.heapify(self._heap)

    # ------------------------------------------------------------ out
    async def run(self, work: Work[K], workers: int) -> None:
        """Call `work` for ready keys until cancelled, at most `workers` at a time.

        An error of `work` goes to `on_failed`, and its key waits; only cancellation ends a worker.
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
            except Exception as error:  # noqa: BLE001 - an error of one Backfill must not end the worker
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
        longest, earliest = (RETRY_MAX_S, error.after_s) if isinstance(error, RetryLaterError) else (BACKOFF_MAX_S, 0.0)
        delay = min(longest, BACKOFF_FIRST_S * 2.0 ** min(failures, 32))
        return max(earliest, jittered(delay, chance=self._chance))
