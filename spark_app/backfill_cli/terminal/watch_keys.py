"""Keys of `backfill status --watch`: each one commands the job or shows another view."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from backfill_console.commands.key_screen import KEYS, KeyCommand, KeyScreen, Quit, answered, press

if TYPE_CHECKING:
    from backfill_console.commands.keyboard import Keyboard


class WatchKeys:
    """State of the keys, and the threads that send commands; only the thread that draws calls its methods."""

    def __init__(self, send: Callable[[KeyCommand], str]) -> None:
        """Take a function that sends a command, waits for its acknowledgement, and returns the answer."""
        self._send = send
        self._answers: SimpleQueue[str] = SimpleQueue()
        self._keyboard: Keyboard | None = None
        self._screen = KeyScreen()
        self.news = threading.Event()
        """Set after a key or an answer."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read keys if standard input is a terminal; the end of the block restores its mode."""
        if sys.platform == "win32":  # without `termios`
            yield
            return
        from backfill_console.commands.keyboard import Keyboard, has_keys

        if not has_keys():
            yield
            return
        with Keyboard(self.news.set) as self._keyboard:
            yield

    @property
    def known(self) -> tuple[tuple[str, str], ...]:
        """Keys that a person can press."""
        return () if self._keyboard is None else KEYS

    @property
    def screen(self) -> KeyScreen:
        """The view that a person chose, and the message to the user."""
        return self._screen

    @property
    def unanswered(self) -> str:
        """Name of the command that is not acknowledged yet; empty if none is."""
        return self._screen.waits_for

    def go_on(self) -> bool:
        """Apply keys, and answers that have arrived; return False if a person quits."""
        try:
            while True:
                self._screen = answered(self._screen, self._answers.get_nowait())
        except Empty:
            pass
        for key in () if self._keyboard is None else self._keyboard.pressed():
            self._screen, requested = press(self._screen, key)
            if isinstance(requested, Quit):
                return False
            if requested is not None:
                threading.Thread(target=self._answer, args=(requested,), daemon=True).start()
        return True

    def _answer(self, command: KeyCommand) -> None:
        self._answers.put(self._send(command))
        self.news.set()
