"""`plan`, `receipt` and `grid` of one Backfill."""

from __future__ import annotations

from typing import Any

import click

from backfill_api.resources import BACKFILLS
from backfill_console.bars import show_grid
from backfill_console.commands.key_views import partition_texts
from backfill_console.plans import plan_lines
from backfill_console.receipts import map_lines
from backfill_core.command_errors import NotRunningError
from backfill_core.errors import VerificationFailedError
from backfill_kubectl.commands.options import (
    NAME,
    PROGRAM,
    Session,
    cluster_options,
    columns,
    output_option,
    print_value,
    say,
)
from backfill_kubectl.decisions.acknowledgement import describe_receipt
from backfill_kubectl.decisions.stored import StoredBackfill, read_stored

FORMATS = output_option("json", "yaml")


def _read(session: Session, name: str) -> StoredBackfill:
    api, namespace, job = session.find(name)
    return read_stored(api.get(BACKFILLS, namespace, job))


def _fields(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True, exclude_unset=True)


@click.command()
@NAME
@FORMATS
@cluster_options
def plan(session: Session, name: str, output: str | None) -> None:
    """Show the newest plan of a Backfill, and the command that approves it."""
    backfill = _read(session, name)
    made = backfill.status.plan
    if made is None:
        raise NotRunningError(
            f"{backfill.key} has no plan: a plan is made if spec.approval is Manual.",
            hint="Plan a file with `backfill plan -f FILE`.",
        )
    if output is not None:
        print_value({"planOf": backfill.status.plan_of, **_fields(made)}, output)
        return
    say(line.text.rstrip() for line in plan_lines(backfill.key, made, columns()))
    if backfill.holds("AwaitingApproval"):
        click.echo(f"plan {backfill.status.plan_of} waits: {PROGRAM} approve {backfill.key}")


@click.command()
@NAME
@FORMATS
@cluster_options
def receipt(session: Session, name: str, output: str | None) -> None:
    """Show the newest comparison of source and target; exit code 48 if they differ."""
    backfill = _read(session, name)
    taken = backfill.status.receipt
    if taken is None:
        raise NotRunningError(
            f"{backfill.key} has no receipt yet.", hint=f"Take one with `{PROGRAM} verify {backfill.key}`."
        )
    if output is not None:
        print_value(_fields(taken), output)
    else:
        lines = [f"{backfill.key}: {describe_receipt(backfill)}"]
        lines += [f"taken {taken.verified_at}"] if taken.verified_at else []
        lines += [f"file {file.path}: {file.what}" for file in taken.mismatched_files]
        if taken.mismatch_map and not taken.equal:
            lines += [line.text.rstrip() for line in map_lines(taken)]
        say(lines)
    if not taken.equal:
        raise VerificationFailedError(
            f"{backfill.key}: {describe_receipt(backfill)}.", hint="Keep the target as evidence."
        )


@click.command()
@NAME
@FORMATS
@cluster_options
def grid(session: Session, name: str, output: str | None) -> None:
    """Show the finished parts of the snapshot, and the partitions of the source."""
    backfill = _read(session, name)
    progress = backfill.progress
    if output is not None:
        print_value(
            {part: value for part, value in _fields(progress).items() if part in ("grid", "partitions")}, output
        )
        return
    if not progress.grid and not progress.partitions:
        raise NotRunningError(
            f"{backfill.key} reports no parts of a snapshot.",
            hint="It has not begun, its source is a topic, or its driver is older than this field.",
        )
    if progress.grid:
        click.echo(f"{backfill.key}: {progress.percent} %, the snapshot in {len(progress.grid)} parts")
        click.echo(show_grid(progress.grid))
    if partitions := partition_texts(progress):
        say(partitions)
