"""Feeds: the newest value of a source, which one thread reads while browsers follow it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from backfill_page.ring import Ring
from backfill_page.seen import JobSeen, JobSource, Listing, SourceError

BEAT_S: Final = 2.0
"""Seconds after which a follower gets the same value again, so that a browser notices a dead connection."""

RETRY_S: Final = 2.0
JOBS_WATCHED_MAX: Final = 50
RINGS_MAX: Final = 200
UNEXPECTED: Final = "an unexpected error; the terminal of the page has the details"

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Problem:
    """The source cannot be read now."""

    text: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The job no longer exists."""


class Feed(Generic[T]):
    """The newest value of a source. Its methods belong to the event loop; the reads run on a thread."""

    def __init__(
        self,
        read: Callable[[threading.Event], Iterator[T]],
        on_value: Callable[[T], None] = lambda _: None,
        on_idle: Callable[[], object] = lambda: None,
    ) -> None:
        """Read nothing yet.

        Args:
            read: Yields values until its event is set.
            on_value: Called with each value.
            on_idle: Called when the last follower has gone.
        """
        self._read = read
        self._on_value = on_value
        self._on_idle = on_idle
        self._newest: T | Problem | Gone | None = None
        self._followers: set[asyncio.Event] = set()
        self._over = threading.Event()

    async def follow(self) -> AsyncGenerator[T | Problem | Gone, None]:
        """Yield the newest value after each change, and again after a while without one."""
        news = asyncio.Event()
        if not self._followers:
            self._start(asyncio.get_running_loop())
        self._followers.add(news)
        try:
            if self._newest is not None:
                news.set()
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), BEAT_S)
                news.clear()
                if self._newest is not None:
                    yield self._newest
        finally:
            self._followers.discard(news)
            if not self._followers:
                self._over.set()
                self._on_idle()

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._over, self._newest = threading.Event(), None
        threading.Thread(target=self._run, args=(loop, self._over), name="feed", daemon=True).start()

    def _run(self, loop: asyncio.AbstractEventLoop, over: threading.Event) -> None:
        def publish(value: T | Problem | Gone) -> None:
            with suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(self._publish, value, over)

        while not over.is_set():
            try:
                for value in self._read(over):
                    publish(value)
                    if over.is_set():
                        return
                publish(Gone())  # until a job with the same name is created
            except SourceError as error:
                publish(Problem(str(error)))
            except Exception:  # noqa: BLE001 - border of a thread: the browser shows a failure, and the next read may succeed
                _log.exception("a read of the source failed")
                publish(Problem(UNEXPECTED))
            over.wait(RETRY_S)

    def _publish(self, value: T | Problem | Gone, over: threading.Event) -> None:
        if over.is_set():
            return
        self._newest = value
        if not isinstance(value, Problem | Gone):
            self._on_value(value)
        for news in self._followers:
            news.set()


class Board:
    """The feeds of a source, and the samples of the jobs that browsers watch."""

    def __init__(self, source: JobSource) -> None:
        """Read nothing yet."""
        self.source = source
        self.jobs: Feed[Listing] = Feed(source.watch_jobs)
        self._jobs: dict[str, Feed[JobSeen]] = {}
        self._rings: OrderedDict[str, Ring] = OrderedDict()

    def may_watch(self, key: str) -> bool:
        """Return whether a browser may follow one more job: each one costs a thread, and requests to a cluster."""
        return key in self._jobs or len(self._jobs) < JOBS_WATCHED_MAX

    def job(self, key: str) -> Feed[JobSeen]:
        """Return the feed of one job; it stays until its last follower has gone."""
        if key not in self._jobs:
            self._jobs[key] = Feed(
                lambda over: self.source.watch_job(key, over), self.see, lambda: self._jobs.pop(key, None)
            )
        return self._jobs[key]

    def see(self, seen: JobSeen) -> None:
        """Add a sample of a job to its ring."""
        self._rings[seen.key] = self.ring(seen.key).after(seen.frame, seen.at)
        self._rings.move_to_end(seen.key)
        if len(self._rings) > RINGS_MAX:
            self._rings.popitem(last=False)

    def ring(self, key: str) -> Ring:
        """Return the samples of a job; empty if no browser has watched it."""
        return self._rings.get(key, Ring())
