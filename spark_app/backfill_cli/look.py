"""Commands that only look: validate, plan, status, jobs."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import click
import yaml
from rich.console import Console
from rich.live import Live
from rich.table import Table

from backfill_api.spec import Backfill
from backfill_cli.client import Client, NotRunningError, find
from backfill_cli.options import FILE, JOB, OUTPUT, job_of, read, spark_settings
from backfill_cli.view import one_line, show_plan, show_progress
from backfill_spark.rendezvous import running
from backfill_spark.settings import DriverSettings

WATCH_EVERY_S = 0.5


def say(words: Any, output: str) -> None:
    """Print a value as JSON or YAML."""
    click.echo(json.dumps(words, indent=2) if output == "json" else yaml.safe_dump(words, sort_keys=False).rstrip())


@click.command()
@FILE
def validate(file: Path | None) -> None:
    """Check a file without touching any table."""
    backfill = read(file)
    click.echo(f"{backfill.job_id}: valid ({backfill.spec.strategy.type}, {backfill.spec.target.delta.write_mode})")


@click.command()
@FILE
@OUTPUT
@click.option("--check-unique", is_flag=True, help="Prove that the key is unique; reads the key columns once.")
@spark_settings
def plan(file: Path | None, output: str, check_unique: bool, conf: dict[str, str]) -> None:
    """Say what would happen, and how long it would take here; writes nothing to source or target."""
    backfill = read(file, conf=conf)
    from backfill_spark.plan import plan_job

    made = plan_job(backfill, settings=DriverSettings.from_environ(), check_unique=check_unique)
    if output == "table":
        Console().print(show_plan(backfill.job_id, made))
    else:
        say(made.model_dump(mode="json", by_alias=True), output)


@click.command()
@FILE
@JOB
@OUTPUT
@click.option("--watch", is_flag=True, help="Go on until the driver ends.")
@click.option("--offline", is_flag=True, help="Without a driver: read the state that the target holds (starts Spark).")
@spark_settings
def status(file: Path | None, job: str | None, output: str, watch: bool, offline: bool, conf: dict[str, str]) -> None:
    """Show how far a job is."""
    settings = DriverSettings.from_environ()
    job_id = job_of(file, job)
    try:
        # The driver may end between being found and being asked: that is no driver, too.
        client = find(settings.state_dir, job_id)
        words = _words(client)
        shown = show_progress(client.address.job_id, client.progress(), acks=client.acks())
    except NotRunningError:
        if not offline:
            raise
        _show_stored(read(file, conf=conf), output, settings)
        return
    if watch:
        _watch(client, output)
    elif output == "table":
        Console().print(shown)
    else:
        say(words, output)


def _words(client: Client) -> dict[str, Any]:
    return {
        "jobId": client.address.job_id,
        **client.progress().model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _watch(client: Client, output: str) -> None:
    """Show a job until its driver ends or Ctrl-C."""
    console = Console()
    job = client.address.job_id
    pause = threading.Event()
    try:
        if output != "table" or not console.is_terminal:
            while True:
                click.echo(json.dumps(_words(client)) if output == "json" else one_line(client.progress()))
                pause.wait(WATCH_EVERY_S)
        with Live(show_progress(job, client.progress(), acks=client.acks()), console=console) as live:
            while not pause.wait(WATCH_EVERY_S):
                live.update(show_progress(job, client.progress(), acks=client.acks()))
    except KeyboardInterrupt:
        return
    except NotRunningError:
        click.echo("the driver has ended", err=True)


def _show_stored(backfill: Backfill, output: str, settings: DriverSettings) -> None:
    from backfill_cli.stored import stored_words

    words = stored_words(backfill, settings)
    if output != "table":
        say(words, output)
        return
    table = Table.grid(padding=(0, 2))
    for name, value in words.items():
        table.add_row(f"[dim]{name}[/]", str(value))
    Console().print(table)


@click.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def jobs(output: str) -> None:
    """List the jobs that run on this machine."""
    found = []
    for address in running(DriverSettings.from_environ().state_dir):
        try:
            line = one_line(Client(address).progress())
        except NotRunningError as error:
            line = error.message
        found.append({"jobId": address.job_id, "attempt": address.attempt, "pid": address.pid, "progress": line})
    if output == "json":
        click.echo(json.dumps(found))
    elif not found:
        click.echo("no backfill runs on this machine")
    for one in found if output == "table" else []:
        click.echo(f"{one['jobId']}  attempt {one['attempt']}  pid {one['pid']}  {one['progress']}")
