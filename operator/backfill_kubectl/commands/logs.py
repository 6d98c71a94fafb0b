"""`logs` of a driver, and `events` of a Backfill and its driver."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Final

import click

from backfill_api.plain_text import printable
from backfill_api.resources import BACKFILLS
from backfill_api.typed_amounts import parse_duration_s
from backfill_console.rows import aligned
from backfill_core.command_errors import NotRunningError
from backfill_core.lifecycle.naming import driver_name
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.job_watch import read_events
from backfill_kubectl.cluster.watch import follow
from backfill_kubectl.commands.options import (
    NAME,
    PROGRAM,
    Session,
    cluster_options,
    now,
    output_option,
    print_value,
    say,
    without_managers,
)
from backfill_kubectl.decisions.event_lines import EventLine, event_lines
from backfill_kubectl.decisions.stored import StoredBackfill, read_stored
from backfill_kubectl.drawing.table import short_seconds

CONTAINER: Final = "driver"
START_S: Final = 1.0
HEADINGS: Final = ("AGE", "TYPE", "REASON", "COUNT", "OBJECT", "MESSAGE")


@click.command()
@NAME
@click.option("-f", "--follow", "follows", is_flag=True, help="Wait for new lines, also of the next attempts.")
@click.option("--tail", type=click.IntRange(min=0), metavar="LINES", help="Only the last lines.")
@click.option("--since", metavar="DURATION", help="Only lines of the last 10m, 2h.")
@click.option(
    "--attempt", type=click.IntRange(min=1), help="Number of an attempt whose pod exists; default: the newest."
)
@cluster_options
def logs(session: Session, name: str, follows: bool, tail: int | None, since: str | None, attempt: int | None) -> None:
    """Print the log of the driver: a JSON object a line, at each change and else every 10 seconds."""
    api, namespace, found = session.find(name)
    query = {"container": CONTAINER} | ({} if tail is None else {"tailLines": str(tail)})
    if since is not None:
        try:
            query["sinceSeconds"] = str(parse_duration_s(since))
        except ValueError as error:
            raise click.BadParameter(f"{error}.", param_hint="--since") from error
    backfill = read_stored(api.get(BACKFILLS, namespace, found))
    number = attempt or (backfill.status.attempt.number if backfill.status.attempt is not None else None)
    if number is None:
        raise NotRunningError(f"{backfill.key} had no attempt yet.", hint=f"See `{PROGRAM} get {backfill.key}`.")
    if not follows:
        _print(api.log(namespace, driver_name(found, number), query))
        return
    _follow(api, backfill, number, query, last=attempt is not None)


def _print(lines: Iterator[bytes]) -> None:
    """Print lines without characters that control a terminal."""
    for line in lines:
        click.echo(printable(line.decode(errors="replace").rstrip()))


def _follow(api: ApiServer, backfill: StoredBackfill, number: int, query: dict[str, str], *, last: bool) -> None:
    """Print the logs of an attempt and of those that follow it, until the job ends."""
    pause = threading.Event()
    while True:
        try:
            _print(
                api.log(
                    backfill.namespace, driver_name(backfill.name, number), query | {"follow": "true"}, quiet_s=None
                )
            )
        except NotRunningError as starting:
            click.echo(f"{backfill.key}: waiting: {printable(starting.message)}", err=True)
            pause.wait(START_S)
            continue
        query = {"container": CONTAINER}
        click.echo(f"{backfill.key}: the log of attempt {number} has ended", err=True)
        if last or (following := _next(api, backfill, number)) is None:
            return
        number = following


def _next(api: ApiServer, backfill: StoredBackfill, number: int) -> int | None:
    """Wait for the next attempt; `None` if the job has ended, or was deleted."""
    for raw in follow(api, backfill.namespace, backfill.name):
        if raw is None:
            return None
        seen = read_stored(raw)
        attempt = seen.status.attempt
        if attempt is not None and attempt.number > number and attempt.state == "Created":
            return attempt.number
        if seen.ended or seen.holds("Suspended"):
            return None
    return None


@click.command()
@NAME
@output_option("wide", "json", "yaml")
@cluster_options
def events(session: Session, name: str, output: str | None) -> None:
    """Show the events of a Backfill and of its driver, the oldest first."""
    api, namespace, found = session.find(name)
    backfill = read_stored(api.get(BACKFILLS, namespace, found))
    raw = read_events(api, backfill)
    if output in ("json", "yaml"):
        print_value({"apiVersion": "v1", "kind": "List", "items": [without_managers(item) for item in raw]}, output)
        return
    shown = event_lines(raw)
    if not shown:
        click.echo(f"{backfill.key}: no events; the cluster keeps them for about an hour")
        return
    say(aligned(HEADINGS, [_cells(event) for event in shown]))


def _cells(event: EventLine) -> tuple[str, ...]:
    age: Any = None if event.time is None else max(0, round((now() - event.time).total_seconds()))
    return short_seconds(age), event.type, event.reason, str(event.count), event.object, event.message
