"""Daemon threads, which end with the process. They are reused, because each of them has a separate Java thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

R = TypeVar("R")


class Workers:
    """Runs each task on a free thread. A thread pool of the standard library would delay the end of the process."""

    def __init__(self, most: int, name: str) -> None:
        """Start no thread before there is work."""
        self._most = most
        self._name = name
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._free = threading.Semaphore(0)
        self._count = 0

    def submit(self, run: Callable[[], None]) -> None:
        """Run a task soon; it must not raise. Only one thread may call this method."""
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
    """Run tasks, at most `most` at the same time, and return their results in order.

    Raises:
        BaseException: the error of the first failed task, after all started tasks have ended; no task starts after a failure.
    """
    numbers, results, failed = iter(range(len(tasks))), dict[int, R](), threading.Event()
    done = queue.SimpleQueue[BaseException | None]()

    def work() -> None:
        error = None
        try:
            while not failed.is_set() and (number := next(numbers, None)) is not None:
                results[number] = tasks[number]()
        except BaseException as raised:  # noqa: BLE001 - thread boundary; raised below
            error = raised
            failed.set()
        done.put(error)

    threads = min(most, len(tasks))
    for number in range(threads):
        threading.Thread(target=work, name=f"copy {number}", daemon=True).start()
    errors = [error for error in (done.get() for _ in range(threads)) if error is not None]
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(tasks))]
