"""An event loop with a jumping clock: if nothing is ready, it jumps to the next timer, so a test of hours takes milliseconds."""

import asyncio
import selectors


class _JumpingSelector(selectors.DefaultSelector):
    """Returns at once instead of waiting for a timer, and adds the skipped time to its clock."""

    def __init__(self, turn_s=0.0):
        super().__init__()
        self.now = 0.0
        self._turn_s = turn_s

    def select(self, timeout=None):
        self.now += self._turn_s
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise AssertionError("deadlock: every task waits, and no timer is pending")
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs without waiting; for code that uses no socket.

    Each turn takes `turn_s` seconds: above zero, timers end between any two steps, as on a slow machine.
    """

    def __init__(self, turn_s=0.0):
        self._jumping = _JumpingSelector(turn_s)
        super().__init__(self._jumping)

    def time(self):
        return self._jumping.now


def run_virtually(coroutine):
    """Return the result of a coroutine, without waiting."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)
