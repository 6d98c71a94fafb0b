"""Commands to a running driver: pause, resume, throttle, rescale, verify, stop."""

from __future__ import annotations

import json
import math
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from backfill import Ack, Comparison, DriverSilentError, NotRunningError, Progress, Settings
from backfill.control import Client, drivers, find
from backfill.errors import SourceAheadError, VerificationFailedError
from backfill_api.spec.bounds import CHUNK_ROWS_MAX, EXECUTORS_MAX, IN_FLIGHT_MAX, SPLIT_SECONDS_MAX
from backfill_api.typed_amounts import parse_byte_rate, parse_duration_s, parse_rate, parse_until
from backfill_api.wire import Command, PauseCommand, RescaleCommand, StopCommand, ThrottleCommand
from backfill_cli.commands.options import (
    ASCII,
    FILE,
    JOB,
    WAIT,
    in_folder_of,
    job_of,
    leave,
    parsed,
    read,
    spark_settings,
    terminal,
)
from backfill_cli.terminal.steps import steps_shown
from backfill_console.commands.acknowledgements import (
    Controls,
    acknowledged,
    changed_controls,
    controls_after,
    controls_of_driver,
    describe_controls,
    undo_arguments,
)
from backfill_console.formatting import format_source_head, head_json
from backfill_console.terminal import show_receipt


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


def _send(file: Path | None, job: str | None, wait_s: float, command: Command) -> None:
    """Send a command to the driver of a job; print the state that holds now, the proof, and the command that undoes it.

    Raises:
        NotAcknowledgedError: The driver has not acknowledged the command yet.
        CommandRefusedError: The driver refused the command.
        NotRunningError: No driver runs, or it ended.
    """
    driver = find(Settings.from_environ().state_dir, job_of(file, job))
    _await_start(driver, wait_s)
    before = driver.progress()
    began_s = time.monotonic()
    ack = driver.apply(command, wait_s)
    took_s = time.monotonic() - began_s
    after = _progress_after(driver) or before
    in_force = controls_after(command, controls_of_driver(after))
    state = describe_controls(command.type, changed_controls(command, in_force), after)
    undo = undo_arguments(command.type, changed_controls(command, controls_of_driver(before)))
    named = [] if file is None else ["-f", str(file)]
    named += [] if job is None else ["--job", job]
    answer = acknowledged(
        state,
        proof=f"epoch {ack.epoch}",
        seconds=took_s,
        undo=shlex.join(["backfill", *undo, *named]) if undo else "",
        following=f"backfill run -f {'FILE' if file is None else shlex.quote(str(file))}"
        if command.type == "Stop"
        else "",
    )
    click.echo(answer)


def _progress_after(driver: Client) -> Progress | None:
    """Return the progress of a driver after a command; `None` if it has ended, as after a stop, or is silent."""
    try:
        return driver.progress()
    except (DriverSilentError, NotRunningError):
        return None


def _await_start(driver: Client, wait_s: float) -> None:
    """Wait for a driver that starts, and report that.

    Raises:
        DriverStartingError: The driver still starts after `wait_s` seconds.
        NotRunningError: The driver ended while it started.
    """
    if driver.starting:
        click.echo(f"the driver is starting ({driver.address.step}); waiting up to {wait_s:g} s", err=True)
        driver.until_started(wait_s)


def _say_begun(driver: Client, ack: Ack, began_s: float) -> None:
    """Print on standard error that a comparison has begun; standard output is reserved for the receipt."""
    took_s = time.monotonic() - began_s
    state = describe_controls("Verify", Controls(), _progress_after(driver))
    click.echo(acknowledged(state, proof=f"epoch {ack.epoch}", seconds=took_s), err=True)


@click.command()
@FILE
@JOB
@WAIT
@click.option("--with-changes", "with_changes", is_flag=True, help="Pause changes too, not only the snapshot.")
@click.option("--force", is_flag=True, help="Cancel running work instead of waiting for it.")
def pause(file: Path | None, job: str | None, wait_s: float, with_changes: bool, force: bool) -> None:
    """Pause the snapshot at the next barrier, or the snapshot and the changes."""
    scope: Any = "All" if with_changes else "History"
    _send(file, job, wait_s, Command(type="Pause", pause=PauseCommand(scope=scope, force=force)))


@click.command()
@FILE
@JOB
@WAIT
def resume(file: Path | None, job: str | None, wait_s: float) -> None:
    """Undo a pause."""
    _send(file, job, wait_s, Command(type="Resume"))


@click.command(context_settings={"ignore_unknown_options": True})  # "-5" is a bad rate, not an unknown option
@click.argument("rate", callback=parsed(parse_rate), required=False)
@click.option(
    "--bytes",
    "bytes_per_s",
    callback=parsed(parse_byte_rate),
    metavar="RATE",
    help="Bytes of the source's files: 50MB.",
)
@FILE
@JOB
@WAIT
@click.option(
    "--for",
    "for_s",
    callback=parsed(parse_duration_s),
    metavar="DURATION",
    help="90s, 30m, 2h; then the earlier limit applies again.",
)
@click.option(
    "--until",
    callback=parsed(lambda text: parse_until(text, _now())),
    metavar="TIME",
    help="2026-11-26T18:00:00Z, instead of --for.",
)
@click.pass_context
def throttle(
    context: click.Context,
    rate: int | None,
    bytes_per_s: int | None,
    file: Path | None,
    job: str | None,
    wait_s: float,
    for_s: int | None,
    until: datetime | None,
) -> None:
    """Limit the snapshot to RATE rows a second: 50000, 200k, 1.5M, 0 (none at all), none (no limit).

    Or to bytes a second, or to both: the lower limit applies.
    """
    given = {context.get_parameter_source(name) for name in ("rate", "bytes_per_s")}
    if ParameterSource.COMMANDLINE not in given:
        raise click.UsageError("give a RATE, or --bytes RATE.")
    if for_s is not None and until is not None:
        raise click.UsageError("give --for or --until, not both.")
    if until is not None:
        for_s = max(1, math.ceil((until - _now()).total_seconds()))
    limit = ThrottleCommand(rows_per_second=rate, bytes_per_second=bytes_per_s, for_seconds=for_s)
    _send(file, job, wait_s, Command(type="Throttle", throttle=limit))


@click.command()
@click.argument("max_in_flight", metavar="[MAX_IN_FLIGHT]", required=False, type=click.IntRange(1, IN_FLIGHT_MAX))
@click.option(
    "--split-seconds",
    "split_target_seconds",
    metavar="N",
    type=click.IntRange(1, SPLIT_SECONDS_MAX),
    help="Target duration of a split, in seconds.",
)
@click.option(
    "--chunk-rows",
    metavar="N",
    type=click.IntRange(0, CHUNK_ROWS_MAX),
    help="Most rows of a chunk of strategy Arrangement; 0: as many as take about four seconds.",
)
@click.option(
    "--executors",
    metavar="N",
    type=click.IntRange(1, EXECUTORS_MAX),
    help="Number of executors that the driver gets from Kubernetes.",
)
@FILE
@JOB
@WAIT
def rescale(file: Path | None, job: str | None, wait_s: float, **values: int | None) -> None:
    """Read at most MAX_IN_FLIGHT pieces of the snapshot at the same time: 1 to 64; or change their size, or the executors.

    Pieces that are being read may end. Values that are not given stay. An edit of a value in the spec takes precedence at the next start.
    """
    if not any(value is not None for value in values.values()):
        raise click.UsageError("give MAX_IN_FLIGHT, --split-seconds, --chunk-rows or --executors.")
    _send(file, job, wait_s, Command(type="Rescale", rescale=RescaleCommand(**values)))


@click.command()
@FILE
@JOB
@WAIT
@click.option("--force", is_flag=True, help="Cancel running work instead of waiting for it.")
def stop(file: Path | None, job: str | None, wait_s: float, force: bool) -> None:
    """End the attempt at a barrier; the next run of the job resumes there."""
    _send(file, job, wait_s, Command(type="Stop", stop=StopCommand(force=force)))


@click.command()
@FILE
@JOB
@WAIT
@click.option("--explain", is_flag=True, help="Show rows that differ.")
@click.option("--rows", is_flag=True, help="Compare all rows; the default compares copied files by their bytes.")
@click.option("--statistics", is_flag=True, help="Compare the statistics of all files of the target with their values.")
@click.option("--head", is_flag=True, help="Exit with 57 if the source has a newer version than the one compared.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@ASCII
@spark_settings
def verify(
    file: Path | None,
    job: str | None,
    wait_s: float,
    explain: bool,
    rows: bool,
    statistics: bool,
    head: bool,
    output: str,
    ascii_only: bool,
    conf: dict[str, str],
) -> None:
    """Compare source and target now, with the running driver or without a driver."""
    here = [name for name, given in (("--rows", rows), ("--statistics", statistics), ("--head", head)) if given]
    if here and file is None:
        raise click.UsageError(f"{here[0]} compares here, and needs -f FILE.")
    named = None if file is None else read(file, conf=conf)
    job_id, state_dir = job if named is None else named.job_id, Settings.from_environ().state_dir
    comparison: Comparison | None = None
    running = not here and any(job_id == driver.address.job_id for driver in drivers(state_dir))
    if named is None or running:
        try:
            driver = find(state_dir, job_id)
            _await_start(driver, wait_s)
            began_s = time.monotonic()
            comparison = Comparison(driver.verify(wait_s, lambda ack: _say_begun(driver, ack, began_s)))
        except NotRunningError as gone:
            if named is None:
                raise
            click.echo(f"{gone.message}; the tables are compared without it", err=True)
    if comparison is None or (explain and not comparison.receipt.equal):
        if named is None:
            click.echo("rows that differ are shown with -f FILE", err=True)
        else:
            # A driver names the vnodes that differ; the rows are compared here.
            with in_folder_of(file), steps_shown(named) as on_step:
                comparison = named.compare(explain=explain, by_rows=rows, statistics=statistics, on_step=on_step)
    assert comparison is not None
    if output == "json":
        receipt = comparison.receipt.model_dump(mode="json", by_alias=True)
        click.echo(json.dumps({**receipt, "sourceHead": head_json(comparison.source_head)}, separators=(",", ":")))
    else:
        terminal(sys.stdout, ascii_only=ascii_only).print(show_receipt(comparison.receipt, comparison.source_head))
    for side, row in comparison.rows:
        click.echo(f"{side}: {row}", err=output == "json")
    if not comparison.receipt.equal:
        click.echo("replace what differs with `backfill repair -f FILE`, or count it with --dry-run", err=True)
        leave(VerificationFailedError.exit_code)
    if head and comparison.source_head is not None and comparison.source_head.behind:
        raise SourceAheadError(
            f"{format_source_head(comparison.source_head)}.",
            hint="Create a new Backfill with after: Follow if the target must keep up.",
        )
