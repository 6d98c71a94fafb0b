"""Buttons below the block of a job that runs in the background of a notebook; only where ipywidgets is installed.

A button sends its command on a separate thread: the kernel stays free for other cells while the driver acknowledges.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from backfill_api.wire import Ack
from backfill_console.facts import show_ms
from backfill_core.errors import BackfillError

if TYPE_CHECKING:
    from backfill.control import Commands

UNCHANGED = -1
"""Value of the list before a choice: the job may have begun with a limit, which its block shows."""

RATES: tuple[tuple[str, int | None], ...] = (
    ("choose", UNCHANGED),
    ("no limit", None),
    ("1 M rows/s", 1_000_000),
    ("100 k rows/s", 100_000),
    ("10 k rows/s", 10_000),
    ("0 rows/s", 0),
)


class Buttons:
    """Pause and resume, a choice of limits, and stop; the answer to the last command is a message next to them."""

    def __init__(self, commands: Commands) -> None:
        """Make the widgets; nothing is shown yet."""
        import ipywidgets

        self._commands = commands
        self.pause = ipywidgets.Button(description="Pause", tooltip="Pause the snapshot; changes are still applied")
        self.resume = ipywidgets.Button(description="Resume", tooltip="Undo a pause")
        self.limit = ipywidgets.Dropdown(options=RATES, value=UNCHANGED, description="limit")
        self.stop = ipywidgets.Button(description="Stop", tooltip="Stop at a barrier; the next run resumes there")
        self.message = ipywidgets.Label()
        self.row = ipywidgets.HBox([self.pause, self.resume, self.limit, self.stop, self.message])
        self.pause.on_click(lambda _: self._send("pause", commands.pause))
        self.resume.on_click(lambda _: self._send("resume", commands.resume))
        self.stop.on_click(lambda _: self._send("stop", commands.stop))
        self.limit.observe(lambda change: self._throttle(change["new"]), "value")

    def _throttle(self, rows_per_second: int | None) -> None:
        if rows_per_second != UNCHANGED:
            self._send("throttle", lambda: self._commands.throttle(rows_per_second))

    def close(self) -> None:
        """Disable the buttons after the end of the attempt."""
        for widget in (self.pause, self.resume, self.limit, self.stop):
            widget.disabled = True

    def _send(self, name: str, command: Callable[[], Ack]) -> None:
        self.message.value = f"{name}: not acknowledged yet"
        threading.Thread(target=self._answer, args=(name, command), name="buttons", daemon=True).start()

    def _answer(self, name: str, command: Callable[[], Ack]) -> None:
        began_s = time.monotonic()
        try:
            ack = command()
        except BackfillError as error:
            self.message.value = f"✖ {name}: {error.message}"
            return
        took = show_ms(round((time.monotonic() - began_s) * 1000))
        self.message.value = f"✔ {name}: acknowledged at epoch {ack.epoch} in {took}"


def buttons_for(commands: Commands, display: Callable[..., Any]) -> Buttons | None:
    """Show the buttons of a job; return `None` without ipywidgets."""
    if find_spec("ipywidgets") is None:
        return None
    buttons = Buttons(commands)
    display(buttons.row)
    return buttons
