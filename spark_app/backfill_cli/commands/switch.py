"""`backfill switch`: moves readers and writers from the source of a job to its target, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backfill.errors import EXIT_STOPPED, SwitchBlockedError
from backfill.switching import MAX_LAG_S, SWITCH_TIMEOUT_S
from backfill_api.plain_text import printable
from backfill_api.typed_amounts import parse_duration_s
from backfill_cli.commands.options import FILE, in_folder_of, leave, parsed, read, spark_settings
from backfill_cli.terminal.steps import lines_shown, steps_shown

if TYPE_CHECKING:
    from backfill import Backfill
    from backfill.switching import CopiedBack, SwitchPlan, SwitchResult

STEPS = (
    "compare source and target while the driver follows; the last receipt covers files that did not change since",
    "fence the source: it becomes read-only for all writers; readers continue",
    "wait until the target holds the last version of the source",
    "compare what changed since step 1",
    "stop the driver, and remove the job's state from the target, so that any writer may use it",
)


@click.command()
@FILE
@click.option("--dry-run", is_flag=True, help="Print the steps and each obstacle; change nothing.")
@click.option("--undo", is_flag=True, help="Flip back to the source, which accepts writes again.")
@click.option("--complete", is_flag=True, help="Lift the fence of the source; there is no undo afterwards.")
@click.option(
    "--max-lag", callback=parsed(parse_duration_s), metavar="DURATION", help="Largest lag to begin with; default: 30s."
)
@click.option(
    "--timeout", callback=parsed(parse_duration_s), metavar="DURATION",
    help="Longest time from the fence until the flip begins; default: 5m.",
)  # fmt: skip
@click.option("--full", is_flag=True, help="Compare all rows of both tables after the fence.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@spark_settings
def switch(
    file: Path | None,
    dry_run: bool,
    undo: bool,
    complete: bool,
    max_lag: int | None,
    timeout: int | None,
    full: bool,
    output: str,
    conf: dict[str, str],
) -> None:
    """Move readers and writers from the source to the target, with a fence, a comparison and a flip of the name.

    A killed command is run again: it continues. With `keepSource: Following` it then copies later changes of the target back to
    the source, until another command ends that, or Ctrl-C.
    """
    if sum((dry_run, undo, complete)) > 1:
        raise click.UsageError("give one of --dry-run, --undo and --complete.")
    job = read(file, conf=conf)
    max_lag_s = MAX_LAG_S if max_lag is None else float(max_lag)
    with in_folder_of(file), steps_shown(job) as on_step:
        if dry_run:
            plan = job.plan_switch(max_lag_s=max_lag_s, on_step=on_step)
        elif undo:
            result = job.undo_switch(on_step=on_step)
        elif complete:
            result = job.complete_switch(on_step=on_step)
        else:
            timeout_s = SWITCH_TIMEOUT_S if timeout is None else float(timeout)
            result = job.switch(max_lag_s=max_lag_s, timeout_s=timeout_s, by_rows=full, on_step=on_step)
    if dry_run:
        _show_plan(job, plan, output)
    else:
        _show_result(job, result, output)
        if result.end == "Switched" and job.spec.switch.keep_source == "Following":
            _follow_back(job, file, output)


def _follow_back(job: Backfill, file: Path | None, output: str) -> None:
    """Keep the old source up to date until another command ends that; an interrupt is a normal end."""

    def line(state: CopiedBack) -> str:
        if output == "json":
            fields = {"state": "Following", "targetVersion": state.version, "sourceVersion": state.source_version}
            return json.dumps(fields)
        return f"{state.source} holds version {state.version} of {state.target}"

    try:
        with in_folder_of(file), lines_shown(job) as show:
            reason = job.follow_back(on_copied=lambda state: show(line(state)))
    except KeyboardInterrupt:
        click.echo("stopped; `backfill switch` continues", err=True)
        leave(EXIT_STOPPED)
    if output == "json":
        click.echo(json.dumps({"state": "Ended", "reason": reason}))
    else:
        click.echo(printable(f"ended: {reason}"))


def _show_plan(job: Backfill, plan: SwitchPlan, output: str) -> None:
    """Print the plan; end with an error if there is an obstacle."""
    if output == "json":
        fields = {
            "source": plan.source, "target": plan.target, "sourceVersion": plan.findings.source.version,
            "lagVersions": plan.findings.behind, "lagSeconds": round(plan.findings.lag_s),
            "receiptSeconds": plan.findings.receipt_s, "flip": plan.flip, "obstacles": plan.obstacles,
        }  # fmt: skip
        click.echo(json.dumps(fields))
    else:
        for number, line in enumerate((*STEPS, *plan.flip), start=1):
            click.echo(f"{number}. {line}")
        kept = job.spec.switch.keep_source
        click.echo(f"source: {plan.source} at version {plan.findings.source.version}; afterwards: {kept}")
        click.echo(f"target: {plan.target}, {_lag(plan)}")
        click.echo(f"last receipt: {_receipt(plan)}")
        for obstacle in plan.obstacles:
            click.echo(printable(f"obstacle: {obstacle}"))
        click.echo("nothing was changed")
    if plan.obstacles:
        leave(SwitchBlockedError.exit_code)


def _lag(plan: SwitchPlan) -> str:
    behind = plan.findings.behind
    if behind is None:
        return "the history is not complete"
    return f"{behind} versions behind, {plan.findings.lag_s:.0f} s"


def _receipt(plan: SwitchPlan) -> str:
    seconds, age_s = plan.findings.receipt_s, plan.findings.receipt_age_s
    if seconds is None:
        return "none, so the duration of the comparison is unknown"
    return f"took {seconds:.1f} s" if age_s is None else f"took {seconds:.1f} s, {age_s:.0f} s ago"


def _show_result(job: Backfill, result: SwitchResult, output: str) -> None:
    """Print the end of a command."""
    if output == "json":
        receipt = result.receipt
        fields = {
            "state": str(result.end), "source": result.source, "target": result.target,
            "version": None if result.fence is None else result.fence.version,
            "rows": None if receipt is None else receipt.rows, "digest": None if receipt is None else receipt.digest,
            "unavailableSeconds": result.unavailable_s, "stepSeconds": dict(result.seconds),
            "compared": list(result.compared),
        }  # fmt: skip
        click.echo(json.dumps(fields))
        return
    click.echo(f"{result.end.lower()}: {_sentence(job, result)}")
    if result.receipt is not None and result.fence is not None:
        click.echo(
            f"source at version {result.fence.version} and target are equal: {result.receipt.rows:,} rows, digest {result.receipt.digest[:12]}"
        )
    for line in result.compared:
        click.echo(line)
    if result.unavailable_s is not None:
        click.echo(f"writers were refused for {result.unavailable_s:.1f} s")
    click.echo(", ".join(f"{step} {step_s:.1f} s" for step, step_s in result.seconds.items()) or "no step was left")
    if result.end == "Switched":
        for line in result.flip:
            click.echo(f"flip: {line}")


def _sentence(job: Backfill, result: SwitchResult) -> str:
    match result.end:
        case "Switched" if job.spec.switch.keep_source == "Released":
            return f"use {result.target}; {result.source} accepts writes, which the target does not get"
        case "Switched" if job.spec.switch.keep_source == "Following":
            return f"use {result.target}; {result.source} is read-only, and follows it while this command runs"
        case "Switched":
            return f"use {result.target}; {result.source} is read-only. Then: backfill switch --complete, or --undo"
        case "Completed":
            return f"{result.source} accepts writes, and there is no undo"
        case _:
            return f"{result.source} accepts writes. `backfill run` follows it again"
