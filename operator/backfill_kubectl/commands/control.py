"""Commands that change a Backfill: pause, resume, throttle, rescale, suspend, unsuspend, approve, retry, refresh, verify."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any, Final, Self

import click
from click.core import ParameterSource

from backfill_api.plain_text import printable
from backfill_api.spec.bounds import CHUNK_ROWS_MAX, EXECUTORS_MAX, IN_FLIGHT_MAX, SPLIT_SECONDS_MAX
from backfill_api.spec.override import WIDTH_FIELDS, Width
from backfill_api.typed_amounts import parse_byte_rate, parse_duration_s, parse_rate, parse_until
from backfill_core.command_errors import NotRunningError
from backfill_core.errors import VerificationFailedError
from backfill_kubectl.cluster.writer import Written, await_acknowledgement, write_change
from backfill_kubectl.commands.all_jobs import all_jobs_options, switch_all
from backfill_kubectl.commands.changes import answer_line, claim_of, undo_command
from backfill_kubectl.commands.options import (
    NAME,
    NAME_OR_NONE,
    PROGRAM,
    Session,
    cluster_options,
    now,
    output_option,
    print_value,
)
from backfill_kubectl.decisions.acknowledgement import InForce, Recorded
from backfill_kubectl.decisions.changes import (
    Approve,
    Change,
    Pause,
    Rescale,
    Resume,
    Retry,
    RunAgain,
    Suspend,
    TakeReceipt,
    Throttle,
    Unsuspend,
)
from backfill_kubectl.decisions.stored import StoredBackfill
from backfill_kubectl.decisions.writes import How

WAIT_S: Final = 30.0
DRAIN_WAIT_S: Final = 300.0
RECEIPT_WAIT_S: Final = 3600.0
QUIET_S: Final = 1.0


def change_options(
    wait_s: float, *, placed: bool, named: Callable[..., Any] = NAME
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of every change.

    Args:
        wait_s: Default of `--timeout`.
        placed: Add `--how`, because spec and override can hold the change.
        named: Argument for the Backfill.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        decorators: list[Callable[..., Any]] = [
            named, cluster_options, output_option("json", "yaml", "name"),
            click.option("--note", "--reason", "note", default="", help="Reason, for others to read."),
            click.option("--by", metavar="NAME", help="Author of the change; default: your user name. It is a claim, not a proof."),
            click.option("--timeout", "wait_s", type=click.FloatRange(min=0), default=wait_s, show_default=True, metavar="SECONDS",
                         help="Seconds to wait for the acknowledgement; 0: do not wait."),
        ]  # fmt: skip
        if placed:
            decorators.append(
                click.option(
                    "--how", type=click.Choice(["spec", "override"]),
                    help="Write the spec, or the override annotation; default: the override if a GitOps tool owns the spec.",
                )
            )  # fmt: skip
        return functools.reduce(lambda decorated, add: add(decorated), decorators, command)

    return decorate


def request_change(
    session: Session, name: str, change: Change, *, how: How | None = None, **options: Any
) -> tuple[InForce | Recorded, StoredBackfill]:
    """Write a change, wait for its acknowledgement, and print what holds now. Return the acknowledgement and the object at the end."""
    api, namespace, job = session.find(name)
    claim = claim_of(options["by"], options["note"])
    written = write_change(api, namespace, job, change, how=how, claim=claim)
    if not options["wait_s"]:
        unawaited = Recorded("recorded, not awaited")
        _answer(written, unawaited, 0.0, options["output"])
        return unawaited, written.after
    with _Waits(written.after.key) as waits:
        acknowledged, shown, seconds = await_acknowledgement(api, written, wait_s=options["wait_s"], on_wait=waits.say)
    _answer(written, acknowledged, seconds, options["output"])
    return acknowledged, shown


class _Waits:
    """Prints the reasons of a wait on standard error, from its first second on."""

    def __init__(self, key: str) -> None:
        """Start the second."""
        self._key, self._why, self._shown = key, "", False
        self._lock = threading.Lock()
        self._timer = threading.Timer(QUIET_S, self._begin)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        """Start the second."""
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._timer.cancel()

    def say(self, why: str) -> None:
        """Keep a new reason, and print it after the first second."""
        with self._lock:
            self._why = why
            if self._shown:
                self._print()

    def _begin(self) -> None:
        with self._lock:
            self._shown = True
            if self._why:
                self._print()

    def _print(self) -> None:
        click.echo(f"{self._key}: waiting: {printable(self._why)}", err=True)


def _answer(written: Written, answer: InForce | Recorded, seconds: float, output: str | None) -> None:
    """Print the state that holds now, then the proof, then the command that undoes it."""
    backfill = written.after
    if output == "name":
        click.echo(f"backfill.backfill.dev/{backfill.name}")
    elif output is None:
        click.echo(answer_line(written, answer, seconds))
    else:
        fields = {
            "namespace": backfill.namespace, "name": backfill.name, "state": answer.state, "written": written.write.place,
            "acknowledged": isinstance(answer, InForce), "proof": answer.proof if isinstance(answer, InForce) else "",
            "seconds": round(seconds, 3), "undo": undo_command(written),
        }  # fmt: skip
        print_value(fields, output)


@click.command()
@click.option("--with-changes", is_flag=True, help="Pause changes too, not only the snapshot.")
@all_jobs_options
@change_options(WAIT_S, placed=True, named=NAME_OR_NONE)
def pause(
    session: Session, name: str | None, with_changes: bool, all_jobs: bool, operator_namespace: str, **options: Any
) -> None:
    """Pause the snapshot at the next barrier; changes continue.

    --all-jobs pauses snapshot and changes of all jobs of an operator, and holds new launches.
    """
    if all_jobs:
        switch_all(session, enabled=True, operator_namespace=operator_namespace, name=name, **options)
        return
    request_change(session, _named(name), Pause("All" if with_changes else "History"), **options)


@click.command()
@all_jobs_options
@change_options(WAIT_S, placed=True, named=NAME_OR_NONE)
def resume(session: Session, name: str | None, all_jobs: bool, operator_namespace: str, **options: Any) -> None:
    """Undo a pause; with --all-jobs, that of all jobs: each one returns to the state of its spec and override."""
    if all_jobs:
        switch_all(session, enabled=False, operator_namespace=operator_namespace, name=name, **options)
        return
    request_change(session, _named(name), Resume(), **options)


def _named(name: str | None) -> str:
    if name is None:
        raise click.UsageError("give the NAME of a Backfill, or --all-jobs.")
    return name


@click.command(context_settings={"ignore_unknown_options": True})  # "-5" is a bad rate, not an unknown option
@change_options(WAIT_S, placed=True)
@click.argument("rate", required=False)
@click.option("--bytes", "byte_rate", metavar="RATE", help="Bytes of the source's files a second: 50MB.")
@click.option("--for", "duration", metavar="DURATION", help="90s, 30m, 2h; then the earlier limit applies again.")
@click.option("--until", "end", metavar="TIME", help="2026-11-26T18:00:00Z, instead of --for.")
@click.pass_context
def throttle(
    ctx: click.Context, /, session: Session, name: str, rate: str | None, byte_rate: str | None, duration: str | None,
    end: str | None, **options: Any,
) -> None:  # fmt: skip
    """Limit the snapshot of NAME to RATE rows a second: 50000, 200k, 1.5M, 0 (none at all), none (no limit)."""
    given = {ctx.get_parameter_source(option) for option in ("rate", "byte_rate")}
    if ParameterSource.COMMANDLINE not in given:
        raise click.UsageError("give a RATE, or --bytes RATE.")
    try:
        rows = None if rate is None else parse_rate(rate)
        size = None if byte_rate is None else parse_byte_rate(byte_rate)
        until = _end(duration, end)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    if until is not None and (rows, size) == (None, None):
        raise click.UsageError("no limit has no end: leave --for and --until out.")
    request_change(session, name, Throttle(rows, size, until), **options)


@click.command()
@change_options(WAIT_S, placed=True)
@click.argument("max_in_flight", metavar="[MAX_IN_FLIGHT]", required=False, type=click.IntRange(1, IN_FLIGHT_MAX))
@click.option(
    "--split-seconds",
    "split_target_seconds",
    type=click.IntRange(1, SPLIT_SECONDS_MAX),
    metavar="N",
    help="Target duration of a split: 1 to 600.",
)
@click.option(
    "--chunk-rows",
    type=click.IntRange(0, CHUNK_ROWS_MAX),
    metavar="N",
    help="Rows of a chunk of strategy Arrangement, at most; 0: as many as take about four seconds.",
)
@click.option("--executors", type=click.IntRange(1, EXECUTORS_MAX), metavar="N", help="Number of executors.")
def rescale(session: Session, name: str, **options: Any) -> None:
    """Read at most MAX_IN_FLIGHT pieces of the snapshot of NAME at the same time: 1 to 64; or change their size, or the executors.

    Pieces that are being read may end. Values that are not given stay.
    """
    width = Width(**{field: options.pop(field) for field in WIDTH_FIELDS})
    if not width.given:
        raise click.UsageError("give MAX_IN_FLIGHT, --split-seconds, --chunk-rows or --executors.")
    request_change(session, name, Rescale(width), **options)


def _end(duration: str | None, end: str | None) -> str | None:
    """Return the end of a limit, RFC 3339; `None` if it has none.

    Raises:
        ValueError: the duration or the time is malformed, past, or far ahead, or both are given.
    """
    if duration is not None and end is not None:
        raise ValueError("give --for or --until, not both")
    until = None
    if duration is not None:
        until = now() + timedelta(seconds=parse_duration_s(duration))
    elif end is not None:
        until = parse_until(end, now()).astimezone(UTC)
    return None if until is None else until.strftime("%Y-%m-%dT%H:%M:%SZ")


@click.command()
@change_options(DRAIN_WAIT_S, placed=True)
def suspend(session: Session, name: str, **options: Any) -> None:
    """End the attempt at a barrier and delete its pods; the Backfill stays."""
    request_change(session, name, Suspend(), **options)


@click.command()
@change_options(WAIT_S, placed=True)
def unsuspend(session: Session, name: str, **options: Any) -> None:
    """Undo a suspension; the next attempt resumes from the last commit."""
    request_change(session, name, Unsuspend(), **options)


@click.command()
@change_options(WAIT_S, placed=False)
def approve(session: Session, name: str, **options: Any) -> None:
    """Approve the plan of a Backfill with approval: Manual, and no later plan."""
    request_change(session, name, Approve(), **options)


@click.command()
@change_options(DRAIN_WAIT_S, placed=False)
def retry(session: Session, name: str, **options: Any) -> None:
    """End the attempt at a barrier and start the next one; a failed job starts again."""
    request_change(session, name, Retry(), **options)


@click.command()
@change_options(WAIT_S, placed=False)
def refresh(session: Session, name: str, **options: Any) -> None:
    """Run a complete job again, with only the later changes of its source."""
    request_change(session, name, RunAgain(), **options)


@click.command()
@change_options(RECEIPT_WAIT_S, placed=False)
def verify(session: Session, name: str, **options: Any) -> None:
    """Compare source and target now; exit code 48 if they differ, 4 if no driver runs."""
    answer, shown = request_change(session, name, TakeReceipt(), **options)
    if not options["wait_s"]:
        return
    if isinstance(answer, Recorded):  # the newest receipt is an earlier one
        raise NotRunningError(
            f"{shown.key}: nothing was compared: no driver runs.",
            hint=f"The next driver takes the receipt; then see `{PROGRAM} receipt {shown.key}`.",
        )
    receipt = shown.status.receipt
    if receipt is not None and not receipt.equal:
        raise VerificationFailedError(
            f"{shown.key}: source and target differ.", hint=f"See `{PROGRAM} receipt {shown.key}`."
        )
