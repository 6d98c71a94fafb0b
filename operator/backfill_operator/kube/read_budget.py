"""Limits the CPU time for reading one object, so that no user's object blocks the operator.

Each reader should take linear time, and sizes are bounded. The budget protects against a reader that does not.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

READ_CPU_S_MAX: Final = 2.0
"""Twenty times the cost of the largest object; a fifth of the lag after which a kubelet restarts the operator."""


class ReadBudgetError(ValueError):
    """The object takes too long to read."""


class _Timer:
    """The process has one timer, so it has one budget at a time."""

    def __init__(self) -> None:
        self.runs = False

    def expire(self, _number: int, _frame: FrameType | None) -> None:
        """Interrupt the reader; a signal after its end has no effect."""
        if self.runs:
            self.runs = False
            raise ReadBudgetError("it takes too long to read")


_timer = _Timer()


@contextmanager
def read_budget(seconds: float = READ_CPU_S_MAX) -> Iterator[None]:
    """Interrupt the block after `seconds` of CPU time; it must not await. An inner block shares the outer budget.

    Signals reach only the main thread, where the operator's event loop runs. In other threads there is no limit.

    Raises:
        ReadBudgetError: the CPU time is used up.
    """
    if _timer.runs or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPROF, _timer.expire)
    _timer.runs = True
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        _timer.runs = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
