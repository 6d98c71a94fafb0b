"""The console of the commands: the width of a pipe, ASCII on request."""

from __future__ import annotations

import sys
from typing import Final

from rich.console import Console

PIPE_COLUMNS: Final = 100


class PluginConsole(Console):
    """A console with optional ASCII symbols; a closed pipe raises `BrokenPipeError`, as `click.echo` does."""

    ascii_only = False

    @property
    def encoding(self) -> str:
        """Return the encoding that decides about symbols."""
        return "ascii" if self.ascii_only else super().encoding

    def on_broken_pipe(self) -> None:
        """Raise the error that rich caught."""
        raise BrokenPipeError


def plugin_console(*, ascii_only: bool) -> PluginConsole:
    """Return a console for standard output; `NO_COLOR` and `TERM=dumb` switch colours off."""
    console = PluginConsole(highlight=False, width=None if sys.stdout.isatty() else PIPE_COLUMNS)
    console.ascii_only = ascii_only
    return console
