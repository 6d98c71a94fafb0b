"""One Backfill: its block once, or again after each change."""

from __future__ import annotations

import json
import sys

import click

from backfill_api.plain_text import printable
from backfill_api.resources import BACKFILLS
from backfill_console.formatting import one_line
from backfill_console.object_frames import progress_of_status
from backfill_console.terminal import show_frame
from backfill_kubectl.cluster.job_watch import JobWatch, Seen, look
from backfill_kubectl.commands.options import PROGRAM, Session, now, print_value, say, without_managers
from backfill_kubectl.commands.watched import changes, draw, frame_of
from backfill_kubectl.decisions.attention import job_line
from backfill_kubectl.decisions.stored import StoredBackfill, read_stored
from backfill_kubectl.drawing.console import plugin_console
from backfill_kubectl.drawing.table import job_table
from backfill_kubectl.errors import BackfillNotFoundError

LINE_S = 5.0


def show_job(session: Session, name: str, *, watch: bool, output: str | None, ascii_only: bool) -> None:
    """Print one Backfill once, or after each change until the job ends."""
    api, namespace, job_name = session.find(name)
    raw = api.get(BACKFILLS, namespace, job_name)
    backfill = read_stored(raw)
    if output == "name":
        click.echo(f"backfill.backfill.dev/{job_name}")
    elif watch:
        with JobWatch(api, backfill, now) as job:
            if output is None and sys.stdout.isatty():
                draw(api, job, ascii_only=ascii_only)
            else:
                _print_lines(job, output)
        _say_end(job.seen)
    elif output in ("json", "yaml"):
        print_value(without_managers(raw), output)
    elif output == "wide" or frame_of(Seen(backfill, now())) is None:
        say(job_table([job_line(backfill, now())], ascii_only=ascii_only, wide=output == "wide"))
    else:
        frame = frame_of(look(api, backfill, now()))
        assert frame is not None, "its spec was read above"
        plugin_console(ascii_only=ascii_only).print(show_frame(frame))


def _print_lines(job: JobWatch, output: str | None) -> None:
    """Print a line every five seconds and after a change of the phase; as JSON, one object for each change."""
    shown: StoredBackfill | None = None
    for seen in changes(job, LINE_S):
        backfill = seen.backfill
        if shown is not None and shown.resource_version == backfill.resource_version:
            continue
        if output in ("json", "yaml"):
            fields = backfill.status.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
            fields = {
                "time": now().isoformat(timespec="milliseconds"),
                "namespace": backfill.namespace,
                "name": backfill.name,
            } | fields
            click.echo(json.dumps(fields) if output == "json" else "---\n" + json.dumps(fields))
        elif shown is None or shown.status.phase != backfill.status.phase or _due(shown, backfill):
            click.echo(
                printable(
                    f"{now():%H:%M:%S} {backfill.key}  {backfill.status.phase or 'Pending'}  {one_line(progress_of_status(backfill.status))}"
                )
            )
        else:
            continue
        shown = backfill


def _due(shown: StoredBackfill, backfill: StoredBackfill) -> bool:
    """Return whether progress is worth a line: a new commit or another step."""
    return shown.progress.model_copy(update={"epoch": 0}) != backfill.progress.model_copy(update={"epoch": 0})


def _say_end(seen: Seen) -> None:
    """Name the end of the watch and the next command, on standard error."""
    backfill = seen.backfill
    if seen.error is not None:
        raise seen.error
    if seen.deleted:
        raise BackfillNotFoundError(f"{backfill.key} was deleted.")
    if backfill.ended:
        following = "logs" if backfill.status.phase == "Failed" else "receipt"
        click.echo(f"{backfill.key}: {backfill.status.phase}. Next: {PROGRAM} {following} {backfill.key}", err=True)
