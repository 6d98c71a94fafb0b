"""Threads that are never waited for: they are kept, because each has a thread of Java's, and end with the process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

R = TypeVar("R")


class Workers:
    """Runs each task on a free thread. A thread pool of the standard library would delay the end of the process."""

    def __init__(self, most: int, name: str) -> None:
        """Start none before there is work."""
        self._most = most
        self._name = name
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._free = threading.Semaphore(0)
        self._count = 0

    def submit(self, run: Callable[[], None]) -> None:
        """Run it soon; it must raise nothing. Only one thread may call this."""
        self._waiting.put(run)
        if not self._free.acquire(blocking=False) and self._count < self._most:
            self._count += 1
            threading.Thread(target=self._run, name=f"{self._name} {self._count}", daemon=True).start()

    def close(self) -> None:
        """End each thread once it is free; the process may outlive the job. Nothing may be submitted afterwards."""
        for _ in range(self._count):
            self._waiting.put(None)

    def _run(self) -> None:
        while (run := self._waiting.get()) is not None:
            run()
            self._free.release()


def at_once(tasks: Sequence[Callable[[], R]], most: int) -> list[R]:
    """Run tasks, at most so many at once, and return what they return, in their order.

    Raises:
        The error of the first task that failed, once all that began have ended; no task begins after it.
    """
    numbers, found, failed = iter(range(len(tasks))), dict[int, R](), threading.Event()
    done = queue.SimpleQueue[BaseException | None]()

    def work() -> None:
        error = None
        try:
            while not failed.is_set() and (number := next(numbers, None)) is not None:
                found[number] = tasks[number]()
        except BaseException as raised:  # noqa: BLE001 - a thread's border; raised below
            error = raised
            failed.set()
        done.put(error)

    threads = min(most, len(tasks))
    for number in range(threads):
        threading.Thread(target=work, name=f"copy {number}", daemon=True).start()
    errors = [error for error in (done.get() for _ in range(threads)) if error is not None]
    if errors:
        raise errors[0]
    return [found[number] for number in range(len(tasks))]
