"""`backfill release` and `backfill drop`: remove the state of a job from its target, or the target."""

from __future__ import annotations

import json
from pathlib import Path

import click

from backfill_cli.commands.options import FILE, in_folder_of, read, spark_settings
from backfill_cli.terminal.steps import steps_shown
from backfill_console.formatting import show_bytes

DELETION_VECTORS = "deletionVectors"


@click.command()
@FILE
@click.option("--force", is_flag=True, help="Also for an unfinished job, which can then never resume.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@spark_settings
def release(file: Path | None, force: bool, output: str, conf: dict[str, str]) -> None:
    """Remove the state of a finished job from its target, so that any writer may use the table."""
    job = read(file, conf=conf)
    with in_folder_of(file), steps_shown(job) as on_step:
        done = job.release(force=force, on_step=on_step)
    if output == "json":
        fields = {"path": done.path, "tableVersion": done.table_version, "tableFeatures": list(done.features)}
        click.echo(json.dumps(fields))
        return
    click.echo(f"{job.job_id}: released in version {done.table_version} of {done.path}")
    click.echo(f"table features that writers must support: {', '.join(done.features) or 'none'}")
    if DELETION_VECTORS in done.features:
        click.echo(
            f"{DELETION_VECTORS} is a feature that readers must support, too; docs/after-the-backfill.md drops it"
        )


@click.command()
@FILE
@click.option("--yes", is_flag=True, help="Remove it; without it, the command only shows what it would remove.")
@click.option("--force", is_flag=True, help="Also for an unfinished job.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@spark_settings
def drop(file: Path | None, yes: bool, force: bool, output: str, conf: dict[str, str]) -> None:
    """Remove the target of a job: only if the job created the table and no other writer changed it."""
    job = read(file, conf=conf)
    with in_folder_of(file), steps_shown(job) as on_step:
        do = job.drop if yes else job.plan_drop
        done = do(force=force, on_step=on_step)
    if output == "json":
        click.echo(json.dumps({"path": done.path, "files": done.files, "bytes": done.bytes, "removed": yes}))
        return
    click.echo(f"{job.job_id}: {'removed' if yes else 'would remove'} {done.path}")
    click.echo(f"{done.files:,} files, {show_bytes(done.bytes)}, the log included")
    if not yes:
        click.echo("Nothing was removed. Run the command with --yes to remove it.")
