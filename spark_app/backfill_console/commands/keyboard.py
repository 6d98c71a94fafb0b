"""Single keys of a terminal, and the terminal's mode, which every exit restores."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final, Self

from backfill_console.commands.key_screen import keys_in

ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that end the process without its `finally` blocks, unless they are handled."""

READ_BYTES_MAX: Final = 1024
EXIT_SIGNAL: Final = 128
SHOW_CURSOR, HIDE_CURSOR = b"\x1b[?25h", b"\x1b[?25l"


class Keyboard:
    """Reads keys without Enter and without echo, from `__enter__` to `__exit__`; Ctrl-C and Ctrl-Z work as always."""

    def __init__(self, on_key: Callable[[], None]) -> None:
        """Take the standard input; `on_key` is called by another thread after each key."""
        self._input = sys.stdin.fileno()
        self._on_key = on_key
        self._keys: SimpleQueue[str] = SimpleQueue()
        self._over, self._wake = os.pipe()
        self._handlers: dict[int, object] = {}
        self._mode = termios.tcgetattr(self._input)

    def __enter__(self) -> Self:
        """Change the mode, and start to read."""
        for number in ENDING:
            self._handlers[number] = signal.signal(number, self._end)
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._pause)
        tty.setcbreak(self._input, termios.TCSANOW)
        threading.Thread(target=self._read, name="keyboard", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the mode and the cursor, and stop to read."""
        os.write(self._wake, b"x")
        self._restore()
        # A signal may have interrupted the library that hides the cursor, so that it does not show it again.
        self._write(SHOW_CURSOR)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def pressed(self) -> list[str]:
        """Return the keys since the last call."""
        keys: list[str] = []
        with suppress(Empty):
            while True:
                keys.append(self._keys.get_nowait())
        return keys

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._input, self._over], [], [])
            if self._over in ready:
                return
            try:
                data = os.read(self._input, READ_BYTES_MAX)
            except OSError:  # the terminal is closed
                return
            if not data:
                return
            for key in keys_in(data.decode(errors="ignore")):
                self._keys.put(key)
            self._on_key()

    def _restore(self) -> None:
        # In the background the system would stop the process; its shell has restored the mode.
        if has_keys():
            with suppress(termios.error):  # the terminal is closed
                termios.tcsetattr(self._input, termios.TCSANOW, self._mode)

    def _end(self, number: int, _frame: FrameType | None) -> None:
        """End by the blocks that restore the screen and the mode."""
        raise SystemExit(EXIT_SIGNAL + number)

    def _pause(self, number: int, _frame: FrameType | None) -> None:
        """Stop as a program without this handler does, with the mode of the shell."""
        self._restore()
        self._write(SHOW_CURSOR)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # returns after `fg`
        signal.signal(number, self._pause)
        if has_keys():  # and not `bg`
            self._write(HIDE_CURSOR)
            tty.setcbreak(self._input, termios.TCSANOW)

    def _write(self, text: bytes) -> None:
        with suppress(OSError):
            os.write(sys.stdout.fileno(), text)


def has_keys() -> bool:
    """Return whether a person can press keys: standard input is a terminal, and this process is in its foreground."""
    if not sys.stdin.isatty():
        return False
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:  # it is not the terminal of this session
        return False
