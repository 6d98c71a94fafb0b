"""One Backfill: its block once, or again after each change."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import click
from pydantic import ValidationError
from rich.live import Live

from backfill_api.plain_text import printable
from backfill_api.resources import BACKFILLS
from backfill_api.spec.spec import BackfillSpec
from backfill_console.formatting import one_line
from backfill_console.frame import EventNote, JobFrame, Trend
from backfill_console.object_frames import frame_of_object, progress_of_status
from backfill_console.terminal import show_frame
from backfill_kubectl.cluster.job_watch import JobWatch, Seen, look
from backfill_kubectl.commands.options import PROGRAM, Session, now, print_value, say, without_managers
from backfill_kubectl.decisions.attention import job_line
from backfill_kubectl.decisions.event_lines import event_lines
from backfill_kubectl.decisions.pod_notes import pod_notes
from backfill_kubectl.decisions.stored import StoredBackfill, read_stored
from backfill_kubectl.drawing.console import plugin_console
from backfill_kubectl.drawing.table import job_table
from backfill_kubectl.errors import BackfillNotFoundError

DRAW_S = 1.0
LINE_S = 5.0


def show_job(session: Session, name: str, *, watch: bool, output: str | None, ascii_only: bool) -> None:
    """Print one Backfill once, or after each change until the job ends."""
    api, namespace, found = session.find(name)
    raw = api.get(BACKFILLS, namespace, found)
    backfill = read_stored(raw)
    if output == "name":
        click.echo(f"backfill.backfill.dev/{found}")
    elif watch:
        with JobWatch(api, backfill, now) as job:
            if output is None and sys.stdout.isatty():
                _draw(job, ascii_only=ascii_only)
            else:
                _print_lines(job, output)
        _say_end(job.seen)
    elif output in ("json", "yaml"):
        print_value(without_managers(raw), output)
    elif output == "wide" or frame_of(Seen(backfill, now()), Trend()) is None:
        say(job_table([job_line(backfill, now())], ascii_only=ascii_only, wide=output == "wide"))
    else:
        plugin_console(ascii_only=ascii_only).print(show_frame(_readable_frame(look(api, backfill, now()), Trend())))


def frame_of(seen: Seen, trend: Trend) -> JobFrame | None:
    """Return the frame of a job; `None` if this version cannot read its spec."""
    backfill, moment = seen.backfill, now()
    try:
        spec = BackfillSpec.model_validate(backfill.spec, by_alias=True, by_name=False)
    except ValidationError:
        return None
    number = None if backfill.status.attempt is None else backfill.status.attempt.number
    notes = [
        EventNote(
            event.reason, event.message, "Warning" if event.type == "Warning" else "Normal",
            None if event.time is None else event.time.isoformat(), event.count,
        )
        for event in event_lines(seen.events)
    ]  # fmt: skip
    limits = "; ".join((*seen.limits, *(f"{field}: cannot be read" for field in backfill.unreadable)))
    return frame_of_object(
        backfill.namespace, backfill.name, spec, backfill.status, now=moment, pods=pod_notes(seen.pods, number, moment),
        events=notes, trend=trend, updated_at=seen.at, note=limits,
    )  # fmt: skip


def _readable_frame(seen: Seen, trend: Trend) -> JobFrame:
    frame = frame_of(seen, trend)
    assert frame is not None, "the caller has tried it"
    return frame


def _changes(job: JobWatch, every_s: float) -> Iterator[Seen]:
    """Yield the state after each change, at least every so often, and at last the state that ends the watch."""
    while True:
        job.news.wait(every_s)
        job.news.clear()
        seen = job.seen
        yield seen
        if seen.deleted or seen.error is not None or seen.backfill.ended:
            return


def _draw(job: JobWatch, *, ascii_only: bool) -> None:
    """Draw the block of a job on a terminal."""
    console, trend = plugin_console(ascii_only=ascii_only), Trend()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for seen in _changes(job, DRAW_S):
            trend = trend.after(progress_of_status(seen.backfill.status), now())
            frame = frame_of(seen, trend)
            if frame is None:
                live.update("\n".join(job_table([job_line(seen.backfill, now())], ascii_only=ascii_only)), refresh=True)
            else:
                live.update(show_frame(frame, lines=console.height - 1), refresh=True)


def _print_lines(job: JobWatch, output: str | None) -> None:
    """Print a line every five seconds and after a change of the phase; as JSON, one object for each change."""
    shown: StoredBackfill | None = None
    for seen in _changes(job, LINE_S):
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
