"""The `backfill` command."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import yaml
from rich.console import Console
from rich.table import Table

from backfill_api.load import SpecError, load_backfill
from backfill_api.spec import Backfill
from backfill_api.wire import Command, PauseCommand, StopCommand, ThrottleCommand
from backfill_cli.amounts import parse_duration_s, parse_rate, show_rows, show_seconds
from backfill_cli.client import find
from backfill_cli.view import one_line, show_progress, show_receipt
from backfill_core.errors import BackfillError, InvalidSpecError
from backfill_spark.settings import DriverSettings

FILE = click.option("-f", "--file", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
JOB = click.option("--job", help="Job id, when several run and there is no file.")
WAIT = click.option("--timeout", "wait_s", type=float, default=20.0, show_default=True, help="Seconds to wait for the answer.")
OUTPUT = click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)


class _Commands(click.Group):
    """Says our errors on two lines, and ends with their exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except SpecError as error:
            for one in error.errors:
                click.secho(f"error: {InvalidSpecError.reason}: {one}", fg="red", err=True)
            ctx.exit(InvalidSpecError.exit_code)
        except BackfillError as error:
            fail(error.reason, error.message, error.cure)
            ctx.exit(error.exit_code)


def fail(reason: str, message: str, cure: str) -> None:
    """Say what is wrong and what helps."""
    click.secho(f"error: {reason}: {message}", fg="red", err=True)
    if cure:
        click.secho(f"cure: {cure}", err=True)


@click.group(cls=_Commands)
@click.version_option(package_name="backfill-operator")
def cli() -> None:
    """Fill a Delta table from another one that keeps changing: exactly once, sealed every second, under control."""


def read(file: Path | None) -> Backfill:
    """Load a file that must be there."""
    if file is None:
        raise click.UsageError("give the Backfill with -f FILE")
    return load_backfill(file.read_text())


def job_of(file: Path | None, job: str | None) -> str | None:
    """Return which job is meant; None: the only one."""
    return read(file).job_id if file else job


@cli.command()
@FILE
def validate(file: Path | None) -> None:
    """Check a file without touching any table."""
    backfill = read(file)
    click.echo(f"{backfill.job_id}: valid ({backfill.spec.strategy.type}, {backfill.spec.target.delta.write_mode})")


@cli.command()
@FILE
@OUTPUT
@click.option("--check-unique", is_flag=True, help="Prove that the key is unique; reads the key columns once.")
def plan(file: Path | None, output: str, *, check_unique: bool) -> None:
    """Say what would happen, and how long it would take here. Writes nothing to source or target."""
    backfill = read(file)
    from backfill_spark.plan import plan_job  # noqa: PLC0415 - pyspark loads slowly

    made = plan_job(backfill, settings=DriverSettings.from_environ(), check_unique=check_unique)
    words = made.model_dump(mode="json", by_alias=True)
    if output != "table":
        click.echo(json.dumps(words, indent=2) if output == "json" else yaml.safe_dump(words, sort_keys=False))
        return
    table = Table.grid(padding=(0, 2))
    table.add_row("rows", f"{show_rows(made.rows)} in {made.files} files, {made.bytes / 1e6:,.1f} MB")
    table.add_row("version", str(made.version))
    low, high = made.estimated_seconds_low, made.estimated_seconds_high
    table.add_row("time", f"about {show_seconds(made.estimated_seconds)} ({low} to {high} s), {made.splits} splits")
    unique = {None: "not checked (--check-unique)", True: "yes", False: "NO"}[made.key_unique]
    table.add_row("key", f"{', '.join(made.key_columns) or 'none'}; unique: {unique}")
    table.add_row("change feed", "yes" if made.change_feed else "no: appends only")
    table.add_row("target", "is there" if made.target_exists else "will be made")
    for one in made.warnings:
        table.add_row(f"[yellow]{one.reason}[/]", f"{one.message} {one.cure}")
    Console().print(table)


@cli.command()
@FILE
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--cores", type=int, help="Threads of the embedded Spark.")
@click.option("--memory", help="Heap of the embedded Spark, as 4g.")
def run(file: Path | None, output: str, cores: int | None, memory: str | None) -> None:
    """Run the job on an embedded Spark. Ctrl-C stops at a barrier, a second one at once."""
    backfill = read(file)
    given = {name: value for name, value in (("cores", cores), ("memory", memory)) if value is not None}
    settings = DriverSettings.from_environ().model_copy(update=given)
    from backfill_cli.running import run_job  # noqa: PLC0415 - pyspark loads slowly

    sys.exit(run_job(backfill, settings, output))


def _send(file: Path | None, job: str | None, wait_s: float, command: Command) -> None:
    client = find(DriverSettings.from_environ().state_dir, job_of(file, job))
    began_s = time.monotonic()
    ack = client.command(command, wait_s)
    took_ms = round((time.monotonic() - began_s) * 1000)
    if ack.outcome == "Applied":
        click.echo(f"acknowledged at epoch {ack.epoch} (attempt {ack.attempt}, revision {ack.revision}) after {took_ms} ms")
        return
    fail(ack.outcome, ack.message or f"no acknowledgement within {wait_s:.0f} s", "Ask again with `backfill status`.")
    sys.exit(5)


@cli.command()
@FILE
@JOB
@WAIT
@click.option("--all", "everything", is_flag=True, help="Hold changes too, not only history.")
@click.option("--force", is_flag=True, help="Cancel what runs instead of waiting for it.")
def pause(file: Path | None, job: str | None, wait_s: float, *, everything: bool, force: bool) -> None:
    """Hold history (or everything) at the next barrier."""
    scope: Any = "All" if everything else "History"
    _send(file, job, wait_s, Command(type="Pause", pause=PauseCommand(scope=scope, force=force)))


@cli.command()
@FILE
@JOB
@WAIT
def resume(file: Path | None, job: str | None, wait_s: float) -> None:
    """Undo a pause."""
    _send(file, job, wait_s, Command(type="Resume"))


def _parsed(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    def convert(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return convert


@cli.command()
@click.argument("rate", callback=_parsed(parse_rate))
@FILE
@JOB
@WAIT
@click.option("--for", "for_s", callback=_parsed(parse_duration_s), help="End of the limit: 90s, 30m, 2h.")
def throttle(rate: int | None, file: Path | None, job: str | None, wait_s: float, for_s: int | None) -> None:
    """Limit history to RATE rows a second: 50000, 200k, 1.5M, 0 (none at all), none (no limit)."""
    _send(
        file, job, wait_s, Command(type="Throttle", throttle=ThrottleCommand(rows_per_second=rate, for_seconds=for_s))
    )


@cli.command()
@FILE
@JOB
@WAIT
@click.option("--force", is_flag=True, help="Cancel what runs instead of waiting for it.")
def stop(file: Path | None, job: str | None, wait_s: float, *, force: bool) -> None:
    """End the attempt at a barrier; running the job again goes on from there."""
    _send(file, job, wait_s, Command(type="Stop", stop=StopCommand(force=force)))


@cli.command()
@FILE
@JOB
@WAIT
@click.option("--explain", is_flag=True, help="Show rows that differ (when no driver runs).")
def verify(file: Path | None, job: str | None, wait_s: float, *, explain: bool) -> None:
    """Compare source and target by vnode, now: through the running driver, or without one."""
    from backfill_spark.rendezvous import running  # noqa: PLC0415 - pyspark loads slowly

    settings = DriverSettings.from_environ()
    job_id = job_of(file, job)
    if any(job_id in (None, one.job_id) for one in running(settings.state_dir)):
        client = find(settings.state_dir, job_id)
        before = client.receipt()
        _send(file, job, wait_s, Command(type="Verify"))
        deadline_s = time.monotonic() + 600
        while (receipt := client.receipt()) == before and time.monotonic() < deadline_s:
            _wait(0.5)
        if receipt is not None:
            Console().print(show_receipt(receipt))
        return
    from backfill_spark.offline import verify_offline  # noqa: PLC0415 - pyspark loads slowly

    found, examples = verify_offline(read(file), settings=settings, explain=explain)
    Console().print(show_receipt(found))
    for side, row in examples:
        click.echo(f"{side}: {row}")
    sys.exit(48 if found.mismatches else 0)


def _wait(seconds: float) -> None:
    import threading  # noqa: PLC0415 - one line of use

    threading.Event().wait(seconds)


@cli.command()
@FILE
@JOB
@OUTPUT
def status(file: Path | None, job: str | None, output: str) -> None:
    """Show how far the running job is."""
    client = find(DriverSettings.from_environ().state_dir, job_of(file, job))
    progress = client.progress()
    words = {"jobId": client.address.job_id, **progress.model_dump(mode="json", by_alias=True, exclude_none=True)}
    if output == "table":
        Console().print(show_progress(client.address.job_id, progress))
    else:
        click.echo(json.dumps(words) if output == "json" else yaml.safe_dump(words, sort_keys=False))


@cli.command()
def jobs() -> None:
    """List the jobs that run on this machine."""
    from backfill_cli.client import Client  # noqa: PLC0415 - beside its use
    from backfill_spark.rendezvous import running  # noqa: PLC0415

    for address in running(DriverSettings.from_environ().state_dir):
        click.echo(f"{address.job_id}  pid {address.pid}  {one_line(Client(address).progress())}")


@cli.command()
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="Scratch folder; default: a temporary one.")
@click.option("--rows", type=int, default=3_000_000, show_default=True)
def demo(folder: Path | None, rows: int) -> None:
    """Show the product on real tables with real live changes, in about two minutes."""
    from backfill_cli.demo import run_demo  # noqa: PLC0415 - only here

    sys.exit(run_demo(folder, rows))


def main() -> None:
    """Enter from the command line."""
    cli()


if __name__ == "__main__":
    main()
