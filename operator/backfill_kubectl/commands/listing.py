"""`list`, and `get` with or without a name."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import click

from backfill_api.resources import BACKFILLS
from backfill_kubectl.commands.job import show_job
from backfill_kubectl.commands.options import (
    Session,
    cluster_options,
    now,
    output_option,
    print_value,
    say,
    without_managers,
)
from backfill_kubectl.decisions.attention import in_order, job_line, summary
from backfill_kubectl.decisions.stored import read_stored
from backfill_kubectl.drawing.table import job_table

ALL = click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Backfills of all namespaces.")
SELECTOR = click.option("-l", "--selector", default="", metavar="LABELS", help="Label selector: team=shop.")
ASCII = click.option("--ascii", "ascii_only", is_flag=True, help="Use ASCII symbols only.")
FORMATS = output_option("wide", "json", "yaml", "name")


def show_list(session: Session, *, everywhere: bool, selector: str, output: str | None, ascii_only: bool) -> None:
    """Print the Backfills of a namespace or of all: those that need a person first, then by the time left."""
    api, namespace = session.connect()
    where = None if everywhere else namespace
    moment = now()
    items: list[dict[str, Any]] = []
    lines = []
    for page in api.pages(BACKFILLS, where, labels=selector):
        # Only the lines of a table are kept: ten thousand objects are 160 MB.
        lines += [job_line(read_stored(item), moment) for item in page] if output in (None, "wide") else []
        items += [] if output in (None, "wide") else page
    match output:
        case "name":
            say(f"backfill.backfill.dev/{item['metadata']['name']}" for item in items)
        case "json" | "yaml":
            kind = {"apiVersion": BACKFILLS.group + "/" + BACKFILLS.version, "kind": "Backfill"}
            print_value(
                {"apiVersion": "v1", "kind": "List", "items": [kind | without_managers(item) for item in items]}, output
            )
        case _:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
            ordered = in_order(lines)
            table = job_table(ordered, columns=width, wide=output == "wide", ascii_only=ascii_only) if ordered else []
            say([*table, summary(ordered) + ("" if ordered or everywhere else f" in namespace {namespace}")])


@click.command("list")
@ALL
@SELECTOR
@FORMATS
@ASCII
@cluster_options
def list_jobs(session: Session, everywhere: bool, selector: str, output: str | None, ascii_only: bool) -> None:
    """List Backfills: those that need a person first, then by the time left."""
    show_list(session, everywhere=everywhere, selector=selector, output=output, ascii_only=ascii_only)


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option("-w", "--watch", is_flag=True, help="Draw the job again after each change.")
@ALL
@SELECTOR
@FORMATS
@ASCII
@cluster_options
def get(
    session: Session,
    name: str | None,
    watch: bool,
    everywhere: bool,
    selector: str,
    output: str | None,
    ascii_only: bool,
) -> None:
    """Show one Backfill, or list all without a name."""
    if name is None and watch:
        raise click.UsageError("give the NAME of the Backfill to watch.")
    if name is None:
        show_list(session, everywhere=everywhere, selector=selector, output=output, ascii_only=ascii_only)
        return
    if everywhere or selector:
        raise click.UsageError("-A and -l select from a list; leave them out with a NAME.")
    show_job(session, name, watch=watch, output=output, ascii_only=ascii_only)
