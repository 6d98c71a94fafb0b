"""Steps of a command that takes seconds, each with its time, on standard error; the messages of Spark go to a log file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

import click
from rich.console import Console
from rich.text import Text

from backfill import Backfill
from backfill.errors import InvalidSettingError
from backfill_cli.commands.options import LOG_FILE
from backfill_cli.terminal.redrawn import Redrawn
from backfill_cli.terminal.screen import Screen
from backfill_cli.terminal.streams import own_streams

OPENING = "starting Spark"


@dataclass(frozen=True)
class _Step:
    """A step, and the time at which it began."""

    name: str
    began_s: float


class Steps:
    """Draws the steps of a command on a terminal: a line each, the last one with seconds that count up."""

    def __init__(self, console: Console) -> None:
        """Begin with the first step of each command that needs Spark."""
        self._screen = Screen(console)
        self._ended_s: float | None = None
        self._steps: tuple[_Step, ...] = (_Step(OPENING, time.monotonic()),)
        self._redrawn: Redrawn[tuple[_Step, ...]] = Redrawn(self._draw, self._steps)

    def begin(self, name: str) -> None:
        """End the current step, and begin another one."""
        self._steps = (*self._steps, _Step(name, time.monotonic()))
        self._redrawn.see(self._steps)

    def close(self) -> None:
        """Leave all lines on the terminal."""
        self._ended_s = time.monotonic()
        self._redrawn.close()
        self._screen.close()

    def _draw(self, steps: tuple[_Step, ...]) -> None:
        ends = [*(step.began_s for step in steps[1:]), self._ended_s or time.monotonic()]
        lines = [f"{step.name}  {end_s - step.began_s:.0f} s" for step, end_s in zip(steps, ends, strict=True)]
        self._screen.draw(Text("\n".join(lines), style="dim", no_wrap=True, overflow="ellipsis"))


@contextmanager
def steps_shown(job: Backfill) -> Iterator[Callable[[str], None]]:
    """Yield a function that reports the next step; inside the block Spark and the JVM write to the log file of the job."""
    log_file = _log_file(job)
    click.get_current_context().meta[LOG_FILE] = log_file
    with own_streams(log_file, lambda: None) as (_, err):
        console = Console(file=cast("TextIO", err), highlight=False)
        if not console.is_terminal or console.is_dumb_terminal:
            yield lambda _: None
            return
        steps = Steps(console)
        try:
            yield steps.begin
        finally:
            steps.close()


@contextmanager
def lines_shown(job: Backfill) -> Iterator[Callable[[str], None]]:
    """Yield a function that prints a line to standard output at once; inside the block Spark and the JVM write to the log file."""
    log_file = _log_file(job)
    click.get_current_context().meta[LOG_FILE] = log_file
    with own_streams(log_file, lambda: None) as (out, _):
        yield lambda line: print(line, file=out)


def _log_file(job: Backfill) -> Path | None:
    """Return the log file; `None` (standard error) if its folder cannot be made: a status needs no folder."""
    try:
        return job.log_file
    except InvalidSettingError:
        return None
