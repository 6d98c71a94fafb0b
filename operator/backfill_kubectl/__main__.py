"""The `kubectl backfill` command."""

from __future__ import annotations


import click

from backfill_kubectl.commands.control import approve, pause, resume, retry, suspend, throttle, unsuspend, verify
from backfill_kubectl.commands.listing import get, list_jobs
from backfill_kubectl.commands.options import PROGRAM, PluginGroup


@click.group(cls=PluginGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
def cli(debug: bool) -> None:
    """List, watch and command Backfills of a cluster, with your kubeconfig and your rights."""


for command in (list_jobs, get, pause, resume, throttle, suspend, unsuspend, approve, retry, verify):
    cli.add_command(command)


def main() -> None:
    """Enter from the command line."""
    cli(prog_name=PROGRAM)
