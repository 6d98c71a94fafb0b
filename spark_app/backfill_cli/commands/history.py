"""`backfill history`: the runs of jobs on this machine."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from backfill import Settings
from backfill.lines import RecordedRun, current_time, recorded_runs
from backfill_cli.commands.options import FILE, JOB, job_of
from backfill_console.commands.history import RunRow, history_lines, seconds_of


@click.command()
@FILE
@JOB
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def history(file: Path | None, job: str | None, output: str) -> None:
    """List the runs on this machine, oldest first: start, end, duration, outcome, rows, receipt. -f or --job selects one job."""
    state_dir, job_id, now = Settings.from_environ().state_dir, job_of(file, job), current_time()
    runs = recorded_runs(state_dir, job_id)
    if output == "json":
        click.echo(json.dumps([_fields(run, seconds_of(_shown(run), now)) for run in runs]))
    elif not runs:
        click.echo(f"no run of {'a job' if job_id is None else job_id} is recorded in {state_dir}")
    else:
        several = len({run.job_id for run in runs}) > 1
        lines = [_shown(run, run.job_id if several else "") for run in runs]
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        click.echo("\n".join(history_lines(lines, now, width)))


def _shown(run: RecordedRun, job: str = "") -> RunRow:
    """Return a run for the table; a run without an attempt has no rows."""
    began = bool(run.attempt)
    outcome = run.outcome if run.reason in ("", run.outcome) else f"{run.outcome}: {run.reason}"
    return RunRow(
        run.start,
        run.end,
        outcome,
        run.attempt if began else None,
        run.rows_done if began else None,
        run.changes_done if began else None,
        run.receipt,
        run.exit_code,
        "" if run.exit_code == 0 else run.message,
        job,
    )


def _fields(run: RecordedRun, seconds: int | None) -> dict[str, Any]:
    """Return a run in JSON, with the names of `history.jsonl` and its duration; unknown values are null."""
    named = {_camel(name): value for name, value in asdict(run).items()}
    return {name: None if value == "" else value for name, value in named.items()} | {"durationSeconds": seconds}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
