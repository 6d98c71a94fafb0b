"""A block of lines at the bottom of a terminal, drawn again in place."""

from __future__ import annotations

import os

from rich.console import Console, RenderableType
from rich.segment import Segment

from backfill_cli.terminal.streams import Out

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
ERASE_BELOW, ERASE_TO_END = "\x1b[J", "\x1b[K"
CLEAR = "\x1b[H\x1b[2J"


class Screen:
    """Draws a block over the previous one. Lines end before the last column, where terminals wrap differently."""

    def __init__(self, out: Out, console: Console) -> None:
        """Take a terminal, and a console that writes to it."""
        self._out = out
        self._console = console
        self._lines = 0
        self._drawn_at = (0, 0)

    @property
    def size(self) -> tuple[int, int]:
        """Return columns and lines of the terminal, also if standard input and output are redirected."""
        try:
            columns, lines = os.get_terminal_size(self._out.fileno())
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
        columns, most = self.room
        options = self._console.options.update(width=columns)
        drawn = self._console.render_lines(block, options, pad=False)[:most]
        # A resized terminal may wrap the old lines: everything is drawn again.
        before = HIDE_CURSOR + (CLEAR if self._drawn_at not in {(0, 0), size} else self._back())
        self._drawn_at = size
        lines = [self._styled(line) + ERASE_TO_END for line in drawn]
        # Keys that a terminal echoes (^C) appear at the cursor: at the end of a full line they would move the block.
        self._out.write(before + "\r" + "\r\n".join(lines) + ERASE_BELOW + "\r")
        self._lines = len(lines)

    def close(self) -> None:
        """Leave the block where it is, and the cursor below it."""
        self._out.write(("\r\n" if self._lines else "") + SHOW_CURSOR)

    def erase(self) -> None:
        """Remove the block that `close` left."""
        if self._lines:
            self._out.write(f"\x1b[{self._lines}A\r{ERASE_BELOW}")
        self._lines = 0

    def _back(self) -> str:
        return f"\x1b[{self._lines - 1}A" if self._lines > 1 else ""

    def _styled(self, line: list[Segment]) -> str:
        colours = self._console._color_system  # noqa: SLF001 - rich has no public name for it
        plain = self._console.no_color or colours is None
        return "".join(
            segment.text if plain or segment.style is None else segment.style.render(segment.text, color_system=colours)
            for segment in line
            if not segment.control
        )
