"""`backfill repair`: makes a target that differs from its source equal again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from backfill import Repaired
from backfill.errors import VerificationFailedError
from backfill_api.amounts import counted
from backfill_cli.commands.options import ASCII, FILE, in_folder_of, leave, read, spark_settings, terminal
from backfill_cli.terminal.steps import steps_shown
from backfill_console.formatting import show_bytes
from backfill_console.terminal import show_receipt


@click.command()
@FILE
@click.option("--dry-run", is_flag=True, help="Only count the rows and files that differ; write nothing.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@ASCII
@spark_settings
def repair(file: Path | None, dry_run: bool, output: str, ascii_only: bool, conf: dict[str, str]) -> None:
    """Make the target equal to the source again: replace the rows and files that differ, in one commit."""
    job = read(file, conf=conf)
    with in_folder_of(file), steps_shown(job) as on_step:
        done = job.repair(dry_run=dry_run, on_step=on_step)
    if output == "json":
        click.echo(json.dumps(repair_fields(done, dry_run=dry_run), separators=(",", ":")))
    else:
        click.echo(repair_line(done, dry_run=dry_run))
        if done.version is not None:
            terminal(sys.stdout, ascii_only=ascii_only).print(show_receipt(done.receipt))
    if not (dry_run or done.receipt.equal):
        leave(VerificationFailedError.exit_code)


def repair_line(done: Repaired, *, dry_run: bool) -> str:
    """Describe a repair in one line."""
    if done.before.equal:
        return f"{done.path} equals the source at {done.before.source_position}; nothing to repair"
    rows = done.rows
    parts = [
        f"{number:,} {what}"
        for number, what in ((rows.inserted, "inserted"), (rows.updated, "updated"), (rows.deleted, "deleted"))
    ]
    changes = [f"rows: {', '.join(parts)}"] if any((rows.inserted, rows.updated, rows.deleted)) else []
    if done.files_copied:
        changes.append(f"{counted(done.files_copied, 'file')} copied again ({show_bytes(done.bytes_copied)})")
    if done.files_removed:
        changes.append(f"{counted(done.files_removed, 'file')} of the target replaced")
    begun = "would repair" if dry_run else "repaired"
    at = "" if done.version is None else f" in version {done.version}"
    return f"{begun} {done.path}{at}: {'; '.join(changes) or 'no row or file is known to differ'}"


def repair_fields(done: Repaired, *, dry_run: bool) -> dict[str, object]:
    """Return a repair as JSON."""
    return {
        "path": done.path,
        "dryRun": dry_run,
        "version": done.version,
        "rowsInserted": done.rows.inserted,
        "rowsUpdated": done.rows.updated,
        "rowsDeleted": done.rows.deleted,
        "filesCopied": done.files_copied,
        "bytesCopied": done.bytes_copied,
        "filesRemoved": done.files_removed,
        "receipt": done.receipt.model_dump(mode="json", by_alias=True),
    }
