"""`logs` of a driver, and `events` of a Backfill and its driver."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
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
from backfill_kubectl.decisions.stored import Json, StoredBackfill, read_stored
from backfill_kubectl.drawing.table import short_seconds
from backfill_kubectl.errors import ApiServerSilentError, BackfillNotFoundError

CONTAINER: Final = "driver"
START_S: Final = 1.0
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*\Z")
HEADINGS: Final = ("AGE", "TYPE", "REASON", "COUNT", "OBJECT", "MESSAGE")


@click.command()
@NAME
@click.option("-f", "--follow", "follows", is_flag=True, help="Wait for new lines, also of the next attempts.")
@click.option("--tail", type=click.IntRange(min=0), metavar="LINES", help="Only the last lines.")
@click.option("--since", metavar="DURATION", help="Only lines of the last 10m, 2h.")
@click.option(
    "--attempt", type=click.IntRange(min=1), help="Number of an attempt whose pod exists; default: the newest."
)
@click.option(
    "--insecure-skip-tls-verify-backend",
    "unverified",
    is_flag=True,
    help="The API server does not check the certificate of the node, as with kubectl logs.",
)
@cluster_options
def logs(
    session: Session,
    name: str,
    follows: bool,
    tail: int | None,
    since: str | None,
    attempt: int | None,
    unverified: bool,
) -> None:
    """Print the log of the driver: a JSON object a line, at each change and else every 10 seconds."""
    api, namespace, job = session.find(name)
    query = {"container": CONTAINER} | ({} if tail is None else {"tailLines": str(tail)})
    query |= {"insecureSkipTLSVerifyBackend": "true"} if unverified else {}
    if since is not None:
        try:
            query["sinceSeconds"] = str(parse_duration_s(since))
        except ValueError as error:
            raise click.BadParameter(f"{error}.", param_hint="--since") from error
    backfill = read_stored(api.get(BACKFILLS, namespace, job))
    number = attempt or (backfill.status.attempt.number if backfill.status.attempt is not None else None)
    if number is None:
        raise NotRunningError(f"{backfill.key} had no attempt yet.", hint=f"See `{PROGRAM} get {backfill.key}`.")
    if not follows:
        if not _print(api.log(namespace, driver_name(job, number), query)):
            click.echo(f"{backfill.key}: the log of attempt {number} is empty", err=True)
        return
    _follow(api, backfill, number, query, last=attempt is not None)


def _print(lines: Iterator[bytes]) -> bool:
    """Print lines without characters that control a terminal; return whether there are any."""
    any_line = False
    for line in lines:
        any_line = True
        click.echo(printable(line.decode(errors="replace").rstrip()))
    return any_line


def _follow(api: ApiServer, backfill: StoredBackfill, number: int, query: dict[str, str], *, last: bool) -> None:
    """Print the logs of an attempt and of those that follow it, until the job ends."""
    while True:
        _follow_attempt(api, backfill, number, query)
        query = _of_all_lines(query)
        click.echo(f"{backfill.key}: the log of attempt {number} has ended", err=True)
        if last or (following := _next(api, backfill, number)) is None:
            return
        number = following


def _follow_attempt(api: ApiServer, backfill: StoredBackfill, number: int, query: dict[str, str]) -> None:
    """Print each line of an attempt once, until the attempt has ended; a connection may end, or break, before."""
    pause, told, log, answered = threading.Event(), "", OneLog(), False
    pod, following = driver_name(backfill.name, number), {"follow": "true", "timestamps": "true"}
    while True:
        over, waiting = False, ""
        begin = _of_all_lines(query) | {"sinceTime": log.time} if log.time else query
        try:
            over, answered = not _runs(api, backfill, number), True
            log.print(api.log(backfill.namespace, pod, begin | following, quiet_s=None))
        except NotRunningError as starting:
            waiting = starting.message
        except BackfillNotFoundError:
            if over and not log.time:
                raise
        except ApiServerSilentError as silent:
            if not answered:
                raise
            over, waiting = False, silent.message
        if over:
            return
        # The log of a pod without a node is empty, and ends at once.
        waiting = waiting or ("" if log.time else f"the log of attempt {number} has not begun")
        if waiting and waiting != told:
            click.echo(f"{backfill.key}: waiting: {printable(waiting)}", err=True)
        told = waiting
        pause.wait(START_S)


def _of_all_lines(query: dict[str, str]) -> dict[str, str]:
    """Return a query without `--tail` and `--since`, which select lines of the first connection."""
    return {field: value for field, value in query.items() if field not in ("tailLines", "sinceSeconds")}


class OneLog:
    """Prints the lines of one log over several connections, each line once. A server begins again with those of the last second."""

    def __init__(self) -> None:
        """Nothing is printed yet."""
        self.time = ""
        """Time of the last printed line; empty if there is none."""

        self._same = 0
        """Number of printed lines with that time: a runtime gives all lines of one write the same time."""

    def print(self, lines: Iterator[bytes]) -> None:
        """Print the lines of a connection that follow the printed ones."""
        last, repeated = self.time, self._same
        for line in lines:
            time, text = _time_and_text(line.decode(errors="replace").rstrip())
            if time and (time < last or (time == last and repeated > 0)):
                repeated -= time == last
                continue
            if time:
                last = ""  # the rest is new, also if the clock of the node goes back
                self.time, self._same = time, self._same + 1 if time == self.time else 1
            click.echo(printable(text))


def _time_and_text(line: str) -> tuple[str, str]:
    """Return the time that the server puts before a line, and the line; a message of the server itself has no time."""
    time, _, text = line.partition(" ")
    return (time, text) if TIME.match(time) else ("", line)


def _runs(api: ApiServer, backfill: StoredBackfill, number: int) -> bool:
    """Return whether an attempt has not ended; that of a deleted Backfill has."""
    try:
        attempt = read_stored(api.get(BACKFILLS, backfill.namespace, backfill.name)).status.attempt
    except BackfillNotFoundError:
        return False
    return attempt is not None and attempt.number == number and attempt.state != "Ended"


def _next(api: ApiServer, backfill: StoredBackfill, number: int) -> int | None:
    """Wait for the next attempt; `None` if the job has ended, or was deleted."""
    with suppress(BackfillNotFoundError):
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
    api, namespace, job = session.find(name)
    backfill = read_stored(api.get(BACKFILLS, namespace, job))
    raw = read_events(api, backfill)
    if output in ("json", "yaml"):
        print_value({"apiVersion": "v1", "kind": "List", "items": [without_managers(item) for item in raw]}, output)
        return
    shown = event_rows(raw)
    if not shown:
        click.echo(f"{backfill.key}: no events; the cluster keeps them for about an hour")
        return
    say(shown)


def event_rows(raw: Iterable[Json]) -> list[str]:
    """Return the table of events, the oldest first; empty without events."""
    events = event_lines(raw)
    return aligned(HEADINGS, [_cells(event) for event in events]) if events else []


def _cells(event: EventLine) -> tuple[str, ...]:
    age: Any = None if event.time is None else max(0, round((now() - event.time).total_seconds()))
    return short_seconds(age), event.type, event.reason, str(event.count), event.object, event.message
