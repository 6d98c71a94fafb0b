"""A block of lines at the bottom of a terminal, drawn again in place."""

from __future__ import annotations

import os
from dataclasses import dataclass

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment

SHOW_CURSOR = "\x1b[?25h"
HOME_AND_CLEAR = Control(ControlType.HOME, ControlType.CLEAR)
TO_FIRST_COLUMN = Control(ControlType.CARRIAGE_RETURN)


class Screen:
    """Draws a block over the previous one. Lines end before the last column, where terminals wrap differently."""

    def __init__(self, console: Console) -> None:
        """Take a console that writes to a terminal."""
        self._console = console
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._drawn_at: tuple[int, int] | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Return columns and lines of the terminal, also if standard input and output are redirected."""
        try:
            columns, lines = os.get_terminal_size(self._console.file.fileno())
        except OSError:  # it has been closed
            columns, lines = 0, 0
        return columns or 80, lines or 24

    @property
    def room(self) -> tuple[int, int]:
        """Return the columns and lines that a block may take."""
        columns, lines = self.size
        return max(10, columns - 1), max(1, lines - 1)

    def draw(self, block: RenderableType) -> None:
        """Draw a block over the previous one."""
        size = self.size
        self._console.size = ConsoleDimensions(*self.room)
        self._live.start()
        with self._console:
            # A resized terminal may wrap the old lines: everything is drawn again.
            if self._drawn_at not in {None, size}:
                self._console.control(HOME_AND_CLEAR)
            self._drawn_at = size
            self._live.update(_Left(block), refresh=True)

    def close(self, *, erase: bool = False) -> None:
        """Leave the cursor below the block, or in its place.

        Args:
            erase: Remove the block.
        """
        self._live.transient = erase
        self._live.stop()


@dataclass(frozen=True)
class _Left:
    """A block after which the cursor returns to the first column.

    A terminal echoes keys such as ^C at the cursor: at the end of a full line they would move the block.
    """

    block: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it, without a line break at its end."""
        for number, line in enumerate(console.render_lines(self.block, options, pad=False)):
            yield from [Segment.line()] * bool(number)
            yield from line
        yield TO_FIRST_COLUMN
