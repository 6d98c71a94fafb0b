"""Commands to a running driver: pause, resume, throttle, verify, stop."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from backfill.control import Client, CommandRefusedError, NotAcknowledgedError, NotRunningError, find
from backfill_api.status.receipt import Receipt
from backfill_api.wire import Ack, Command, PauseCommand, StopCommand, ThrottleCommand
from backfill_cli.commands.options import FILE, JOB, WAIT, beside, job_of, leave, parsed, read, spark_settings
from backfill_cli.terminal.amounts import parse_duration_s, parse_rate
from backfill_cli.terminal.view import show_receipt
from backfill_core.errors import VerificationFailedError
from backfill_spark.control.local_registry import running
from backfill_spark.settings import DriverSettings

RECEIPT_WAIT_S = 3600.0
RECEIPT_LOOK_S = 0.2


def send(client: Client, command: Command, wait_s: float, *, err: bool = False) -> Ack:
    """Send a command, wait for its acknowledgement, and say it.

    Raises:
        NotAcknowledgedError: there is none yet.
        CommandRefusedError: it is not in force, and will not be.
        NotRunningError: the driver ended.
    """
    began_s = time.monotonic()
    ack = client.command(command, wait_s)
    took_ms = round((time.monotonic() - began_s) * 1000)
    if ack.outcome == "Applied":
        where = f"epoch {ack.epoch} (attempt {ack.attempt}, revision {ack.revision})"
        click.echo(f"acknowledged at {where} in {took_ms} ms", err=err)
        return ack
    if ack.outcome == "Pending":
        raise NotAcknowledgedError(
            f"no acknowledgement of revision {ack.revision} within {wait_s:g} s; the driver has the command.",
            hint="See with `backfill status` when it is in force.",
        )
    raise CommandRefusedError(f"{ack.outcome}: {ack.message}", hint="Look with `backfill status`, and try again.")


def _send(file: Path | None, job: str | None, wait_s: float, command: Command) -> None:
    send(find(DriverSettings.from_environ().state_dir, job_of(file, job)), command, wait_s)


@click.command()
@FILE
@JOB
@WAIT
@click.option("--all", "everything", is_flag=True, help="Hold changes too, not only the snapshot.")
@click.option("--force", is_flag=True, help="Cancel what runs instead of waiting for it.")
def pause(file: Path | None, job: str | None, wait_s: float, everything: bool, force: bool) -> None:
    """Hold the snapshot (or everything) from the next barrier on."""
    scope: Any = "All" if everything else "History"
    _send(file, job, wait_s, Command(type="Pause", pause=PauseCommand(scope=scope, force=force)))


@click.command()
@FILE
@JOB
@WAIT
def resume(file: Path | None, job: str | None, wait_s: float) -> None:
    """Undo a pause."""
    _send(file, job, wait_s, Command(type="Resume"))


@click.command(context_settings={"ignore_unknown_options": True})  # "-5" is a bad rate, not an unknown option
@click.argument("rate", callback=parsed(parse_rate))
@FILE
@JOB
@WAIT
@click.option(
    "--for", "for_s", callback=parsed(parse_duration_s), metavar="DURATION", help="90s, 30m, 2h; then what was before."
)
def throttle(rate: int | None, file: Path | None, job: str | None, wait_s: float, for_s: int | None) -> None:
    """Limit the snapshot to RATE rows a second: 50000, 200k, 1.5M, 0 (none at all), none (no limit)."""
    limit = ThrottleCommand(rows_per_second=rate, for_seconds=for_s)
    _send(file, job, wait_s, Command(type="Throttle", throttle=limit))


@click.command()
@FILE
@JOB
@WAIT
@click.option("--force", is_flag=True, help="Cancel what runs instead of waiting for it.")
def stop(file: Path | None, job: str | None, wait_s: float, force: bool) -> None:
    """End the attempt at a barrier; running the job again goes on from there."""
    _send(file, job, wait_s, Command(type="Stop", stop=StopCommand(force=force)))


@click.command()
@FILE
@JOB
@WAIT
@click.option("--explain", is_flag=True, help="Show rows that differ.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@spark_settings
def verify(file: Path | None, job: str | None, wait_s: float, explain: bool, output: str, conf: dict[str, str]) -> None:
    """Compare source and target by vnode, now: through the running driver, or without one."""
    settings = DriverSettings.from_environ()
    backfill = None if file is None else read(file, conf=conf)
    job_id = job if backfill is None else backfill.job_id
    examples: list[tuple[str, dict[str, Any]]] = []
    receipt: Receipt | None = None
    if any(job_id in (None, one.job_id) for one in running(settings.state_dir)) or backfill is None:
        try:
            receipt = _verify_running(find(settings.state_dir, job_id), wait_s)
        except NotRunningError as gone:
            if backfill is None:
                raise
            click.echo(f"{gone.message}; the tables are compared without it", err=True)
    if receipt is None or (explain and receipt.mismatches):
        if backfill is None:
            click.echo("rows that differ are shown with -f FILE", err=True)
        else:
            from backfill_spark.driver.offline_verify import verify_offline

            # A driver says which vnodes differ; to show rows the tables are compared here.
            with beside(file):
                receipt, examples = verify_offline(backfill, settings=settings, explain=explain)
    assert receipt is not None
    if output == "json":
        click.echo(receipt.model_dump_json(by_alias=True))
    else:
        Console().print(show_receipt(receipt))
    for side, row in examples:
        click.echo(f"{side}: {row}", err=output == "json")
    if receipt.mismatches:
        leave(VerificationFailedError.exit_code)


def _verify_running(client: Client, wait_s: float) -> Receipt:
    before = client.receipt()
    send(client, Command(type="Verify"), wait_s, err=True)  # standard output is for the receipt
    deadline_s = time.monotonic() + RECEIPT_WAIT_S
    while (receipt := client.receipt()) is None or receipt == before:
        if time.monotonic() > deadline_s:
            raise NotAcknowledgedError(f"no receipt within {RECEIPT_WAIT_S:g} s.", hint="Look with `backfill status`.")
        threading.Event().wait(RECEIPT_LOOK_S)
    return receipt
