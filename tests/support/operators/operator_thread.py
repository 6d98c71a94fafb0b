"""One operator process, emulated by a thread with a loop of its own, which can be killed between any two of its lines."""

import asyncio
import contextlib
import ctypes
import threading

from backfill_operator.app import Operator

BUSY_S = 60.0
"""Starting or ending takes less, also on a busy machine."""

KILLED = []
"""Loops and tasks of killed operators, kept from the garbage collector."""

# This reference is never released: at its end the interpreter would run the cleanup of their coroutines, and crash.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(KILLED))


class MortalLoop(asyncio.SelectorEventLoop):
    """An event loop that may be abandoned, as that of a killed process is."""

    def __del__(self):
        """Do not close open sockets: the collector may have taken them first, and then closing them fails."""


class OperatorThread:
    """One operator process, emulated by a thread."""

    def __init__(self, configuration, settings, **options):
        self.configuration, self.settings, self.options = configuration, settings, options
        self.operator = None
        self.error = None
        self._loop = MortalLoop()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._begun = threading.Event()
        self._thread.start()
        self._begun.wait(BUSY_S)

    def _live(self):
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._run())
        except RuntimeError as error:
            if "Event loop stopped" not in str(error):
                self.error = error
                return
            # A killed process runs no cleanup: a collected coroutine would, in the middle of a later test.
            KILLED.append((self._loop, asyncio.all_tasks(self._loop)))
            self._loop.set_exception_handler(lambda *_: None)
        except BaseException as error:
            self.error = error

    async def _run(self):
        self.operator = Operator(self.configuration, self.settings, **self.options)
        self._task = asyncio.current_task()
        self._begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self.operator.run()

    @property
    def alive(self):
        return self._thread.is_alive()

    def kill(self):
        """Stop after the current line, without cleanup; requests that were sent stay sent."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(BUSY_S)
        assert not self._thread.is_alive()

    def halt(self):
        """Stop the loop from its own thread, before it can act on an answer."""
        self._loop.stop()

    async def stop(self):
        """End it as SIGTERM does."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            await asyncio.to_thread(self._thread.join, BUSY_S)
            assert not self._thread.is_alive()
