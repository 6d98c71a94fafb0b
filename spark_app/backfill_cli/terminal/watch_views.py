"""The view of `backfill status --watch` that a person chose: the block, the log, the events, or the parts of the snapshot."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from backfill_api.plain_text import printable
from backfill_console.commands.key_screen import KeyScreen
from backfill_console.commands.key_views import driver_events, parts_lines, view_lines
from backfill_console.frame import JobFrame
from backfill_console.segments import Line, line
from backfill_console.terminal import DrawnLines, show_frame

LOG_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class WatchedJob:
    """A job, and the state of its screen."""

    frame: JobFrame
    screen: KeyScreen
    keys: tuple[tuple[str, str], ...]
    """Keys that a person can press."""

    log: Path
    """The log of the job, unless the run chose another file."""


def show_view(job: WatchedJob, room: int) -> DrawnLines:
    """Return the view of a job for a terminal with this number of lines."""
    if job.screen.view == "job":
        return show_frame(replace(job.frame, note=job.screen.note, keys=job.keys), lines=room)
    return DrawnLines(
        lambda columns: view_lines(job.frame.name, job.screen, _body(job, columns), job.keys, columns, room)
    )


def _body(job: WatchedJob, columns: int) -> list[Line]:
    match job.screen.view:
        case "logs":
            return [line(text) for text in log_texts(job.log)]
        case "events":
            return driver_events(job.frame, columns)
        case _:
            return parts_lines(job.frame.progress, columns)


def log_texts(file: Path) -> list[str]:
    """Return the newest lines of a log, or the reason why there are none."""
    try:
        with file.open("rb") as log:
            start = max(0, log.seek(0, os.SEEK_END) - LOG_BYTES_MAX)
            log.seek(start)
            newest = log.read(LOG_BYTES_MAX)
    except FileNotFoundError:
        return [f"no log at {printable(str(file))}", "`backfill run -v` and `--driver-log FILE` write it elsewhere"]
    except OSError as error:
        return [f"the log {printable(str(file))} cannot be read: {printable(error.strerror or str(error))}"]
    texts = [printable(text) for text in newest.decode(errors="replace").splitlines()]
    # The first line of a part of the file may be cut.
    return (texts[1:] if start else texts) or ["the log is empty"]
