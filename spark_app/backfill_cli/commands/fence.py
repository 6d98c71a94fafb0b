"""`backfill fence` and `backfill unfence`: make the source of a job read-only for all writers, and writable again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from backfill.fences import FENCE_WAIT_S, SWITCH
from backfill_api.plain_text import printable
from backfill_cli.commands.options import FILE, in_folder_of, read, spark_settings
from backfill_cli.terminal.steps import steps_shown

OUTPUT = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
WAIT = click.option(
    "--timeout", "wait_s", type=click.FloatRange(min=0), default=FENCE_WAIT_S, show_default=True, metavar="SECONDS",
    help="Seconds to try again while other writers commit.",
)  # fmt: skip


@click.command()
@FILE
@click.option("--reason", default=SWITCH, show_default=True, help="For operators who meet the fence; a table property.")
@WAIT
@OUTPUT
@spark_settings
def fence(file: Path | None, reason: str, wait_s: float, output: str, conf: dict[str, str]) -> None:
    """Make the source read-only for all writers; readers are not affected. Undo: `backfill unfence`."""
    job = read(file, conf=conf)
    with in_folder_of(file), steps_shown(job) as on_step:
        done = job.fence(reason=reason, wait_s=wait_s, on_step=on_step)
    if output == "json":
        click.echo(json.dumps({"path": done.path, "protocol": done.protocol, **asdict(done.fence)}))
        return
    held = "is fenced" if done.entries else "was already fenced"
    # An existing fence is a property of the table, which another user may have written.
    click.echo(
        printable(f"{done.path} {held} at version {done.fence.version} by job {done.fence.job}, {done.fence.time}")
    )
    click.echo(printable(f"reason: {done.fence.reason}"))
    if done.entries:
        click.echo(f"protocol: {done.protocol_before} -> {done.protocol}")
    click.echo("Writers fail with a message that names backfill.fenced. Undo: backfill unfence")


@click.command()
@FILE
@click.option("--force", is_flag=True, help="Lift the fence of another job too.")
@WAIT
@OUTPUT
@spark_settings
def unfence(file: Path | None, force: bool, wait_s: float, output: str, conf: dict[str, str]) -> None:
    """Let writers change the source again: lift the fence that this job set."""
    job = read(file, conf=conf)
    with in_folder_of(file), steps_shown(job) as on_step:
        done = job.unfence(force=force, wait_s=wait_s, on_step=on_step)
    if output == "json":
        lifted = None if done.lifted is None else asdict(done.lifted)
        fields = {"path": done.path, "version": done.version, "protocol": done.protocol, "lifted": lifted}
        click.echo(json.dumps(fields))
        return
    if not done.entries:
        click.echo(f"{done.path} has no fence at version {done.version}; nothing was changed")
        return
    held = "" if done.lifted is None else f"; the fence was held by {done.lifted}"
    click.echo(printable(f"{done.path} accepts writes since version {done.version}{held}"))
    click.echo(f"protocol: {done.protocol}")
