"""The `kubectl backfill` command."""

from __future__ import annotations

import click

from backfill_kubectl.commands.about import completion, completions_of, doctor, version
from backfill_kubectl.commands.control import (
    approve,
    pause,
    refresh,
    rescale,
    resume,
    retry,
    suspend,
    throttle,
    unsuspend,
    verify,
)
from backfill_kubectl.commands.history import history
from backfill_kubectl.commands.lint import lint_files
from backfill_kubectl.commands.listing import get, list_jobs
from backfill_kubectl.commands.logs import events, logs
from backfill_kubectl.commands.options import PROGRAM, PluginGroup
from backfill_kubectl.commands.page.ui import ui
from backfill_kubectl.commands.procedures import repair, switch
from backfill_kubectl.commands.report import report
from backfill_kubectl.commands.shown import grid, plan, receipt
from backfill_kubectl.commands.usage_examples import epilog_of


@click.group(cls=PluginGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
def cli(debug: bool) -> None:
    """List, watch and command Backfills of a cluster, with your kubeconfig and your rights."""


for command in (
    list_jobs, get, pause, resume, throttle, rescale, suspend, unsuspend, approve, retry, refresh, switch, repair, verify, plan, receipt, grid, history, logs, events, lint_files, doctor, report, version,
    ui, completion,
):  # fmt: skip
    cli.add_command(command)
for name, command in (("", cli), *cli.commands.items()):
    command.epilog = epilog_of(name)


def main() -> None:
    """Enter from the command line."""
    cli(prog_name=PROGRAM)


def complete(arguments: list[str]) -> None:
    """Print completions for kubectl, which passes the words after `kubectl backfill`."""
    click.echo("\n".join(completions_of(cli, arguments)))


if __name__ == "__main__":
    main()
