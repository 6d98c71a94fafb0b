"""`history` of one Backfill: its attempts."""

from __future__ import annotations

import shutil
import sys

import click

from backfill_api.resources import BACKFILLS
from backfill_api.status.status import Attempt, PastAttempt
from backfill_console.commands.history import RunRow, history_lines
from backfill_kubectl.commands.options import (
    NAME,
    Session,
    cluster_options,
    now,
    output_option,
    print_value,
    say,
)
from backfill_kubectl.decisions.acknowledgement import describe_receipt
from backfill_kubectl.decisions.stored import StoredBackfill, read_stored


@click.command()
@NAME
@output_option("json", "yaml")
@cluster_options
def history(session: Session, name: str, output: str | None) -> None:
    """List the attempts of a Backfill, oldest first: the last five that ended, and the current one."""
    api, namespace, job = session.find(name)
    backfill = read_stored(api.get(BACKFILLS, namespace, job))
    status = backfill.status
    current = [] if status.attempt is None or status.attempt.state == "Ended" else [status.attempt]
    if output is not None:
        attempts = [
            each.model_dump(mode="json", by_alias=True, exclude_unset=True) for each in (*status.history, *current)
        ]
        print_value(attempts, output)
        return
    runs = [_ended(each) for each in status.history] + [_current(each, backfill) for each in current]
    if not runs:
        click.echo(f"{backfill.key} had no attempt yet")
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    say(history_lines(runs, now(), width))
    if status.attempts > len(runs):
        click.echo(f"{status.attempts:,} attempts in all; a status keeps the last five that ended", err=True)
    if verdict := describe_receipt(backfill):
        click.echo(f"receipt: {verdict}")


def _ended(attempt: PastAttempt) -> RunRow:
    outcome = attempt.reason or "Ended"
    outcome = f"plan: {outcome}" if attempt.kind == "Plan" else outcome
    return RunRow(attempt.start or "", attempt.end or "", outcome, attempt=attempt.number, exit_code=attempt.exit_code)


def _current(attempt: Attempt, backfill: StoredBackfill) -> RunRow:
    rows = None if backfill.status.progress is None else backfill.progress.rows_done
    return RunRow(
        attempt.start_time or "",
        outcome="Running" if attempt.state == "Created" else attempt.state,
        attempt=attempt.number,
        rows=rows,
    )
