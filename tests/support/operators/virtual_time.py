"""An event loop whose clock jumps: where nothing is ready, the next timer is, and a test of hours takes milliseconds."""

import asyncio
import selectors


class _JumpingSelector(selectors.DefaultSelector):
    """Does not wait for what is timed, and says how long it did not."""

    def __init__(self):
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise AssertionError("everything waits, and for nothing that will come: a deadlock")
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs without waiting; for code that touches no socket."""

    def __init__(self):
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self):
        return self._jumping.now


def run_virtually(coroutine):
    """Return what a coroutine returns, in no time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)
