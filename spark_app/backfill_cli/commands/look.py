"""Read-only commands: validate, plan, status, jobs."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from backfill import Ack, Backfill, DriverSilentError, NotRunningError, Progress, Receipt, Settings, Status
from backfill.cluster_warnings import cluster_warnings
from backfill.control import Client, drivers, find
from backfill.job import spark_is_installed
from backfill.lines import current_time, log_file
from backfill.status import of_running
from backfill_cli.commands.options import ASCII, FILE, JOB, OUTPUT, in_folder_of, read, spark_settings, terminal
from backfill_cli.page.local_jobs import LocalJobs
from backfill_cli.terminal.redrawn import Redrawn
from backfill_cli.terminal.screen import Screen
from backfill_cli.terminal.steps import steps_shown
from backfill_cli.terminal.streams import Out
from backfill_cli.terminal.watch_keys import WatchKeys
from backfill_cli.terminal.watch_views import WatchedJob, show_view
from backfill_console.commands import key_screen
from backfill_console.commands.key_screen import KeyCommand
from backfill_console.formatting import format_source_head, one_line
from backfill_console.frame import Trend
from backfill_console.frames import RESTING, frame_of_driver
from backfill_console.terminal import show_frame, show_plan
from backfill_page.seen import Action, Pause, Resume, Throttle, Verify

if TYPE_CHECKING:
    from rich.console import Console

    from backfill_api.spec.spec import BackfillSpec

WATCH_EVERY_S = 0.5


def tables_of(job: Backfill) -> list[tuple[str, str]]:
    """Return source and target with their locations; relative paths are resolved from the working directory."""
    ends = (("source", job.spec.source.params), ("target", job.spec.target.params))
    return [(name, _place(end.label) if end.paths else end.label) for name, end in ends]


def _place(path: str) -> str:
    return path if "://" in path or path.startswith("file:") else str(Path(path).expanduser().absolute())


def warn_of_cluster(job: Backfill) -> None:
    """Print on standard error why a cluster would refuse the file; a run on this machine is not affected."""
    for line in cluster_warnings(job.spec):
        click.echo(f"warning: {line}", err=True)


def print_value(value: Any, output: str) -> None:
    """Print a value as JSON or YAML."""
    click.echo(json.dumps(value, indent=2) if output == "json" else yaml.safe_dump(value, sort_keys=False).rstrip())


@click.command()
@FILE
def validate(file: Path | None) -> None:
    """Check a file without opening any table."""
    job = read(file)
    spec, unread = job.spec, job.check_sql()
    click.echo(f"{job.job_id}: valid ({spec.strategy.type}, {spec.write_mode})")
    if unread and (spec.transform.select or spec.transform.where):
        click.echo(f"the SQL was not parsed: {unread}", err=True)
    with in_folder_of(file):
        for name, place in tables_of(job):
            click.echo(f"{name}: {place}")
    warn_of_cluster(job)


@click.command()
@FILE
@OUTPUT
@click.option("--check-unique", is_flag=True, help="Prove that the key is unique; reads the key columns once.")
@click.option(
    "--explain", is_flag=True, help="Show all reasons of copy modes, and what the time of each step depends on."
)
@ASCII
@spark_settings
def plan(
    file: Path | None, output: str, check_unique: bool, explain: bool, ascii_only: bool, conf: dict[str, str]
) -> None:
    """Show the plan of a job with an estimate of its time; writes nothing to source or target."""
    job = read(file, conf=conf)
    with in_folder_of(file):
        places = tables_of(job)
        with steps_shown(job) as on_step:
            made = job.plan(check_unique=check_unique, on_step=on_step)
    if output == "table":
        explained_by = job.spec if explain else None
        terminal(sys.stdout, ascii_only=ascii_only).print(
            show_plan(job.job_id, made, places, explained_by=explained_by)
        )
    else:
        print_value(made.model_dump(mode="json", by_alias=True), output)
    warn_of_cluster(job)


@click.command()
@FILE
@JOB
@OUTPUT
@click.option("--watch", is_flag=True, help="Repeat until the driver ends.")
@click.option("--offline", is_flag=True, help="Read the state in the target, without a driver.")
@click.option("--grid", is_flag=True, help="With -o json or yaml: the parts of the snapshot too.")
@ASCII
@spark_settings
def status(
    file: Path | None,
    job: str | None,
    output: str,
    watch: bool,
    offline: bool,
    grid: bool,
    ascii_only: bool,
    conf: dict[str, str],
) -> None:
    """Show the progress of a job: from its driver, or from the target if none runs (-f FILE; takes seconds)."""
    backfill = None if file is None else read(file, conf=conf)
    if offline and backfill is None:
        raise click.UsageError("give the Backfill with -f FILE")
    try:
        if offline:
            raise NotRunningError("--offline does not look for a driver.")
        # The driver may end between discovery and the request: that counts as no driver, too.
        client = find(Settings.from_environ().state_dir, job if backfill is None else backfill.job_id)
        progress, acks = client.progress(), client.acks()
        running = of_running(client.address.job_id, progress, client.receipt())
    except NotRunningError as gone:
        if backfill is None or not spark_is_installed():
            raise
        click.echo(f"{gone.message.rstrip('.')}; reading the target, which takes seconds", err=True)
        with in_folder_of(file), steps_shown(backfill) as on_step:
            stored = backfill.status(offline=True, on_step=on_step)
        _show_stored(stored, backfill, output, grid=grid, ascii_only=ascii_only)
        return
    spec = None if backfill is None else backfill.spec
    if watch:
        _watch(client, spec, output, grid=grid, ascii_only=ascii_only)
    elif output == "table":
        frame = frame_of_driver(
            running.job_id, progress, now=current_time(), spec=spec, acks=acks, receipt=running.receipt
        )
        terminal(sys.stdout, ascii_only=ascii_only).print(show_frame(frame))
    else:
        print_value(running.to_json(grid=grid), output)


def _watch(client: Client, spec: BackfillSpec | None, output: str, *, grid: bool, ascii_only: bool) -> None:
    """Show a job until its driver ends or Ctrl-C."""
    job = client.address.job_id
    try:
        closed = threading.Event()
        console = terminal(Out(sys.stdout.fileno(), closed.set), ascii_only=ascii_only)
        if output == "table" and console.is_terminal and not console.is_dumb_terminal:
            _draw(client, spec, console, closed)
            return
        while True:
            try:
                progress = client.progress()
                fields = of_running(job, progress, client.receipt()).to_json(grid=grid)
                click.echo(json.dumps(fields) if output == "json" else f"{fields['time']} {job}  {one_line(progress)}")
            except DriverSilentError as silent:
                click.echo(silent.message, err=True)
            threading.Event().wait(WATCH_EVERY_S)
    except KeyboardInterrupt:
        return
    except NotRunningError:
        click.echo("the driver has ended", err=True)


def _draw(client: Client, spec: BackfillSpec | None, console: Console, closed: threading.Event) -> None:
    """Draw the block of a job until its driver ends, the terminal is closed, or a person quits; keys command the job.

    Ctrl-C interrupts the main thread, and another one draws: no block is left half drawn.
    """
    screen, trend = Screen(console), Trend()
    progress, acks = Progress(), list[Ack]()
    receipt: Receipt | None = None
    view: Redrawn[WatchedJob] | None = None
    job, state_dir = client.address.job_id, Settings.from_environ().state_dir
    jobs, log = LocalJobs(state_dir), log_file(state_dir, job)
    keys = WatchKeys(lambda command: jobs.act(job, _action(command)).text)
    try:
        with keys.reading():
            while not closed.is_set() and keys.go_on():
                try:
                    progress, acks, receipt = client.progress(), client.acks(), client.receipt()
                    trend = trend.after(progress, current_time())
                except DriverSilentError as silent:
                    progress = progress.model_copy(update={"reason": silent.message})
                frame = frame_of_driver(
                    job, progress, now=current_time(), spec=spec, acks=acks, receipt=receipt, trend=trend
                )
                seen = WatchedJob(frame, keys.screen, keys.known, log)
                if view is None:
                    view = Redrawn(lambda newest: screen.draw(show_view(newest, screen.room[1])), seen)
                view.see(seen)
                keys.news.wait(WATCH_EVERY_S)
                keys.news.clear()
    finally:
        if view is not None:
            view.close()
        screen.close()
    if keys.unanswered:
        click.echo(f"{keys.unanswered}: not acknowledged yet", err=True)


def _action(command: KeyCommand) -> Action:
    """Return the action that a key requests."""
    match command:
        case key_screen.Pause():
            return Pause()
        case key_screen.Resume():
            return Resume()
        case key_screen.Throttle():
            return Throttle(command.rows_per_second)
        case key_screen.Verify():
            return Verify()


def _show_stored(stored: Status, job: Backfill, output: str, *, grid: bool, ascii_only: bool) -> None:
    """Print a stored status with the same fields and format as the status of a driver."""
    if output != "table":
        print_value(stored.to_json(grid=grid), output)
        return
    console = terminal(sys.stdout, ascii_only=ascii_only)
    if stored.progress is None:
        console.print(f"{stored.job_id}: {RESTING[stored.state]}", markup=False, soft_wrap=True)
        return
    console.print(show_frame(stored.frame(current_time(), job.spec)))
    if newer := format_source_head(stored.source_head):
        console.print(newer, markup=False, soft_wrap=True, style="bold yellow")


@click.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def jobs(output: str) -> None:
    """List the jobs that run on this machine."""
    rows = []
    for driver in drivers(Settings.from_environ().state_dir):
        address = driver.address
        try:
            progress = driver.progress()
            line, fields = one_line(progress), progress.model_dump(mode="json", by_alias=True, exclude={"grid"})
        except (DriverSilentError, NotRunningError) as error:
            line, fields = error.message, None
        about = {"jobId": address.job_id, "attempt": address.attempt, "pid": address.pid}
        rows.append((about, line, {**about, "progress": fields, "message": "" if fields else line}))
    if output == "json":
        click.echo(json.dumps([fields for _, _, fields in rows]))
    elif not rows:
        click.echo("no backfill runs on this machine")
    for about, line, _ in rows if output == "table" else []:
        click.echo(f"{about['jobId']}  attempt {about['attempt']}  pid {about['pid']}  {line}")
