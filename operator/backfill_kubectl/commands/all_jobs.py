"""`pause --all-jobs` and `resume --all-jobs`: the switch of an operator for all its jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from backfill_api.plain_text import printable
from backfill_api.spec.change_claim import PauseAll
from backfill_console.commands.acknowledgements import acknowledged
from backfill_core.command_errors import CommandRefusedError, NotAcknowledgedError
from backfill_kubectl.cluster.all_jobs import SwitchedJobs, await_switch, scope_of, stored_switch, write_switch
from backfill_kubectl.commands.changes import claim_of
from backfill_kubectl.commands.options import (
    OPERATOR_NAMESPACE,
    OPERATOR_NAMESPACE_DEFAULT,
    PROGRAM,
    Session,
    print_value,
)
from backfill_kubectl.decisions.acknowledgement import InForce, Rejected
from backfill_kubectl.decisions.all_jobs import CHART, describe_missing, summary
from backfill_kubectl.decisions.stored import StoredBackfill


def all_jobs_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--all-jobs` and `--operator-namespace` to a command."""
    flag = click.option("--all-jobs", is_flag=True, help="All jobs of an operator; new launches wait during the pause.")
    return flag(OPERATOR_NAMESPACE(command))


def switch_all(session: Session, *, enabled: bool, operator_namespace: str, name: str | None, **options: Any) -> None:
    """Set or lift the pause of all jobs; wait for the acknowledgement of each running job that the user may list.

    Raises:
        click.UsageError: An option for a single Backfill is given.
        NotAcknowledgedError: Jobs have not acknowledged in time.
        CommandRefusedError: Drivers refuse.
    """
    if name is not None or options.get("how") is not None:
        raise click.UsageError("--all-jobs is for all jobs: leave NAME and --how out.")
    api, namespace = session.connect()
    claim = claim_of(options["by"], options["note"])
    switch = PauseAll(enabled=enabled, by=claim.by, note=claim.note, time=claim.time)
    before, output, wait_s = stored_switch(api, operator_namespace), options["output"], options["wait_s"]
    if before is not None and not before.enabled and not enabled:
        if output is None:
            click.echo("no pause of all jobs is in force; nothing was changed")
        else:
            _answer(switch, SwitchedJobs(), "", output, waited=False)
        return
    scope = scope_of(api, namespace, operator_namespace)
    at_s = write_switch(api, operator_namespace, switch)
    if before is not None and before.enabled and before.by == CHART and not enabled:
        click.echo(
            "set pauseAll.enabled: false in the chart's values, or the next upgrade pauses all jobs again", err=True
        )
    if scope is None:
        click.echo("you may not list Backfills, so no acknowledgement is awaited", err=True)
    elif scope.partial:
        click.echo(f"you may not list Backfills of all namespaces; only those of {namespace} are awaited", err=True)
    jobs = SwitchedJobs()
    waited = scope is not None and wait_s > 0
    if scope is not None and waited:
        jobs = await_switch(
            api, scope, switch, at_s=at_s, wait_s=wait_s, on_answer=_say if output is None else lambda *_: None
        )
    _answer(switch, jobs, _undo(operator_namespace, enabled=enabled), output, waited=waited)
    _raise_missing(jobs, wait_s)


def _undo(operator_namespace: str, *, enabled: bool) -> str:
    default = operator_namespace == OPERATOR_NAMESPACE_DEFAULT
    place = "" if default else f" --operator-namespace {operator_namespace}"
    return f"{PROGRAM} {'resume' if enabled else 'pause'} --all-jobs{place}"


def _say(job: StoredBackfill, answer: InForce, seconds: float) -> None:
    click.echo(printable(acknowledged(f"{job.key}: {answer.state}", proof=answer.proof, seconds=seconds)))


def _answer(switch: PauseAll, jobs: SwitchedJobs, undo: str, output: str | None, *, waited: bool) -> None:
    if output == "name":
        click.echo("configmap/backfill-all-jobs")
    elif output is not None:
        answers = [
            {"job": key, "acknowledged": True, "state": answer.state, "proof": answer.proof}
            for key, answer in sorted(jobs.acknowledged.items())
        ] + [
            {"job": key, "acknowledged": False, "state": answer.why, "proof": ""}
            for key, answer in sorted(jobs.missing.items())
        ]
        fields = {
            "enabled": switch.enabled, "jobs": answers, "withoutDriver": sorted(jobs.held), "seconds": round(jobs.seconds, 3),
            "undo": undo,
        }  # fmt: skip
        print_value(fields, output)
    elif not jobs.missing:
        state = (
            summary(switch, len(jobs.acknowledged), len(jobs.held), jobs.seconds) if waited else "recorded, not awaited"
        )
        click.echo(acknowledged(state, undo=undo))


def _raise_missing(jobs: SwitchedJobs, wait_s: float) -> None:
    refused = {key: answer for key, answer in jobs.missing.items() if isinstance(answer, Rejected)}
    if refused:
        raise CommandRefusedError(
            f"{len(refused):,} drivers refuse: {describe_missing(refused.items())}.",
            hint=next(iter(refused.values())).hint,
        )
    if jobs.missing:
        number, total = len(jobs.missing), len(jobs.missing) + len(jobs.acknowledged)
        raise NotAcknowledgedError(
            f"{number:,} of {total:,} running jobs have not acknowledged in {wait_s:g} s: {describe_missing(jobs.missing.items())}.",
            hint=f"The switch is set and stays set; follow with `{PROGRAM} list -A`, or wait longer with --timeout.",
        )
