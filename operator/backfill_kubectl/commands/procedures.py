"""Commands for a switch-over and a repair, which an attempt of its own performs."""

from __future__ import annotations

from typing import Any, Final

import click

from backfill_kubectl.commands.control import change_options, request_change
from backfill_kubectl.commands.options import Session
from backfill_kubectl.decisions.changes import RepairTarget, SwitchOver

PROCEDURE_WAIT_S: Final = 3600.0


@click.command()
@click.option("--undo", is_flag=True, help="Return readers and writers to the source.")
@click.option("--complete", is_flag=True, help="Lift the fence of the source; there is no undo afterwards.")
@change_options(PROCEDURE_WAIT_S, placed=False)
def switch(session: Session, name: str, undo: bool, complete: bool, **options: Any) -> None:
    """Move readers and writers to the target, once it has caught up."""
    if undo and complete:
        raise click.UsageError("give --undo or --complete, not both.")
    request_change(session, name, SwitchOver("Undo" if undo else "Complete" if complete else "Switch"), **options)


@click.command()
@change_options(PROCEDURE_WAIT_S, placed=False)
def repair(session: Session, name: str, **options: Any) -> None:
    """Replace the rows and files of the target that differ from the source."""
    request_change(session, name, RepairTarget(), **options)
