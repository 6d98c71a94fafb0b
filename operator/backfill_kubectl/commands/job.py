"""One Backfill: its block, once or after each change."""

from __future__ import annotations

import click

from backfill_kubectl.cluster.resources import BACKFILLS
from backfill_kubectl.commands.options import Session, now, print_value, say, without_managers
from backfill_kubectl.decisions.attention import job_line
from backfill_kubectl.decisions.stored import read_stored
from backfill_kubectl.drawing.table import job_table


def show_job(session: Session, name: str, *, watch: bool, output: str | None, ascii_only: bool) -> None:
    """Print one Backfill."""
    api, namespace, found = session.find(name)
    raw = api.get(BACKFILLS, namespace, found)
    match output:
        case "name":
            click.echo(f"backfill.backfill.dev/{found}")
        case "json" | "yaml":
            print_value(without_managers(raw), output)
        case _:
            say(job_table([job_line(read_stored(raw), now())], ascii_only=ascii_only, wide=output == "wide"))
