"""Admits requests to a store, as many at once as `RequestWidth` allows. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from backfill_core.file_copies.request_width import RequestWidth

WAIT_S = 0.25
"""Time between two checks for cancellation while a request waits."""


class RequestGate:
    """Counts the requests under way, and learns the width from their answers."""

    def __init__(self) -> None:
        """Begin with the narrowest width."""
        self._state, self._under_way, self._batches = RequestWidth(), 0, 0
        self._free = threading.Condition()

    @property
    def width(self) -> int:
        """Number of requests that may be under way now."""
        with self._free:
            return self._state.width

    @property
    def share(self) -> int:
        """Number of requests that one of the batches under way may have under way now."""
        with self._free:
            return self._state.share(self._batches)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Count a batch during the block: batches share the width."""
        with self._free:
            self._batches += 1
        try:
            yield
        finally:
            with self._free:
                self._batches -= 1

    @contextmanager
    def slot(self, check: Callable[[], None]) -> Iterator[None]:
        """Wait for admission; `check` is called before and while waiting, and an exception that it raises ends the wait."""
        check()
        with self._free:
            while self._under_way >= self._state.width:
                self._free.wait(WAIT_S)
                check()
            self._under_way += 1
        try:
            yield
        finally:
            with self._free:
                self._under_way -= 1
                self._free.notify()

    def answer(self, seconds: float) -> None:
        """Record the time of an answer to a small request."""
        with self._free:
            self._state = self._state.answer(seconds)
            self._free.notify_all()

    def refuse(self) -> None:
        """Record a refused request."""
        with self._free:
            self._state = self._state.refuse()
