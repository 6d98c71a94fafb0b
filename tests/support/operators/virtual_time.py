"""An event loop with a jumping clock: if nothing is ready, it jumps to the next timer, so a test of hours takes milliseconds."""

import asyncio
import selectors


class _JumpingSelector(selectors.DefaultSelector):
    """Returns at once instead of waiting for a timer, and adds the skipped time to its clock."""

    def __init__(self):
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise AssertionError("deadlock: every task waits, and no timer is pending")
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs without waiting; for code that uses no socket."""

    def __init__(self):
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self):
        return self._jumping.now


def run_virtually(coroutine):
    """Return the result of a coroutine, without waiting."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)
