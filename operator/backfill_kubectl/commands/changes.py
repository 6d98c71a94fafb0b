"""Author of a change, and the answer to it."""

from __future__ import annotations

import getpass
from typing import Final

import click
from pydantic import ValidationError

from backfill_api.plain_text import printable
from backfill_api.spec.change_claim import ChangeClaim
from backfill_console.commands.acknowledgements import acknowledged
from backfill_kubectl.cluster.writer import Written
from backfill_kubectl.commands.options import PROGRAM, now
from backfill_kubectl.decisions.acknowledgement import InForce, Recorded
from backfill_kubectl.decisions.undo import undo_of

BY_CHARACTERS_MAX: Final = 64


def claim_of(by: str | None, note: str) -> ChangeClaim:
    """Return the claim of a change; its time makes the request new.

    Raises:
        click.BadParameter: the note is too long.
    """
    moment = now().isoformat(timespec="microseconds").replace("+00:00", "Z")
    try:
        return ChangeClaim(by=_author(by), note=note, time=moment)
    except ValidationError as error:
        raise click.BadParameter("is longer than 256 characters.", param_hint="--note") from error


def _author(by: str | None) -> str:
    if by is None:
        try:
            by = getpass.getuser()
        except (OSError, KeyError):  # a container may have no entry for its user
            by = ""
    return by[:BY_CHARACTERS_MAX]


def undo_command(written: Written) -> str:
    """Return the words after the program's name that undo a change; empty if none do."""
    return undo_of(written.change, written.before, round(now().timestamp() * 1000))


def answer_line(written: Written, answer: InForce | Recorded, seconds: float) -> str:
    """Return the state that holds now, then the proof, then the command that undoes it."""
    place = f", {written.write.reason}" if written.write.reason else ""
    undo = undo_command(written)
    confirmed = isinstance(answer, InForce)
    return printable(
        acknowledged(
            f"{written.after.key}: {answer.state}{place}",
            proof=answer.proof if isinstance(answer, InForce) else "",
            seconds=seconds if confirmed else None,
            undo=f"{PROGRAM} {undo}" if undo else "",
        )
    )
