"""From what is wanted to numbered commands, and from acknowledgements to what is in force.

One command, one revision; revisions only grow, and one revision stands for one command for ever. A command is on record
in the status before it is sent, and is sent again until it is acknowledged. Pause and limit are two dimensions: when both
change at once that is two commands with two revisions. A newer command of a dimension takes the place of one that waits.

Level-based: what the driver *says* that is in force is compared with what is wanted. So a command that was lost, one that
somebody else gave, and one that the target's state brought back after a restart are all repaired in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from backfill_api.names import VERIFY_ANNOTATION
from backfill_api.status.status import Control, PendingCommand
from backfill_api.wire import Ack, Command, CommandRequest, PauseCommand, ThrottleCommand
from backfill_core.lifecycle.inputs.context import Context

RESEND_S = 1.0
TOKEN_CHARACTERS_MAX = 256
_PAUSE = ("Pause", "Resume")


@dataclass(frozen=True, slots=True)
class Exchange:
    """What becomes of the control state in this round."""

    control: Control
    decided: bool
    """Is there a new command, which must be on record before it leaves?"""

    requests: tuple[CommandRequest, ...]

    def revision_of(self, type_: str) -> int | None:
        """Return the number of a pending command."""
        return next((one.revision for one in self.control.pending if one.command.type == type_), None)


def exchange(context: Context, number: int, *, stop: bool, steer: bool) -> Exchange:
    """Take the acknowledgements, decide what is to be commanded, and say what is to be sent now.

    Args:
        context: The classified observation.
        number: The attempt in flight.
        stop: Must the driver be told to stop? Asked once; later rounds know it from the status.
        steer: May it be told anything else? Not while it stops, and not under a spec that cannot be read.
    """
    control = context.status.control or Control()
    if control.attempt != number and context.progress is None:
        return Exchange(control, decided=False, requests=())  # nobody has been heard who could be told
    control, again = _acknowledged(context, control, number)
    if context.progress is None:
        return Exchange(control, decided=False, requests=_requests(context, control, number))
    wishes = [*again]
    if stop and all(one.type != "Stop" for one in wishes):
        wishes.append(Command(type="Stop"))
    token = context.observation.annotations.get(VERIFY_ANNOTATION, "")[:TOKEN_CHARACTERS_MAX]
    if steer:
        wishes += _corrections(context, control)
        if token and token != control.verify_token:
            wishes.append(Command(type="Verify"))
            control = control.model_copy(update={"verify_token": token})
        # What differed is corrected by a wish above, so from here on this is what was asked for.
        asked = {"paused": context.desired.paused, "rows_per_second": context.desired.rows_per_second}
        control = control.model_copy(update=asked)
    if wishes:
        control = _with(control, wishes, context)
    return Exchange(control, decided=bool(wishes), requests=_requests(context, control, number))


def settled(context: Context, control: Control) -> bool:
    """Is what is wanted in force, as far as anybody can tell? Deeds that wait (Verify, Stop) do not count."""
    if any(one.command.type in (*_PAUSE, "Throttle") for one in control.pending):
        return False
    desired = (context.desired.paused, context.desired.rows_per_second)
    if (control.paused, control.rows_per_second) != desired:
        return False
    progress = context.progress
    if progress is None or progress.revision < control.acked_revision:
        return True
    return (progress.paused, progress.throttle_rows_per_second) == desired


def _acknowledged(context: Context, control: Control, number: int) -> tuple[Control, list[Command]]:
    """Take the answers; return also the deeds that must be asked for again under a new number."""
    if control.attempt != number:
        # A new driver has its controls from its start, or is corrected; only deeds have to be asked for again.
        lost = [one.command for one in control.pending if one.command.type == "Verify"]
        told = context.progress.revision if context.progress else 0
        fresh = {"attempt": number, "pending": (), "pending_since": None}
        # The target may be a new one, whose state knows of no command.
        return control.model_copy(update=fresh | {"acked_revision": min(control.acked_revision, told)}), lost
    acks = {ack.revision: ack for ack in _answers(context, number)}
    again: list[Command] = []
    kept: list[PendingCommand] = []
    for one in control.pending:
        ack = acks.get(one.revision)
        if ack is None or ack.outcome not in ("Applied", "Superseded"):
            kept.append(one)
        elif ack.outcome == "Superseded":
            again += [one.command] if one.command.type in ("Verify", "Stop") else []
        else:
            control = control.model_copy(
                update={
                    "acked_revision": max(control.acked_revision, one.revision),
                    "epoch": max(control.epoch, ack.epoch),
                    "last_ack_time": context.timestamp,
                }
            )
    if len(kept) == len(control.pending):
        return control, again
    return control.model_copy(
        update={"pending": tuple(kept), "pending_since": control.pending_since if kept else None}
    ), again


def _answers(context: Context, number: int) -> Iterator[Ack]:
    for ack in context.look.acks if context.look else ():
        if ack.attempt == number:
            yield ack


def _corrections(context: Context, control: Control) -> list[Command]:
    """Compare what is, or will be once all is acknowledged, with what is wanted."""
    progress, desired = context.progress, context.desired
    # A progress from before the newest acknowledgement says nothing about now.
    known = progress is not None and progress.revision >= control.acked_revision
    paused = progress.paused if progress is not None and known else control.paused
    rate = progress.throttle_rows_per_second if progress is not None and known else control.rows_per_second
    for one in control.pending:
        match one.command.type:
            case "Pause" | "Resume":
                paused = None if one.command.pause is None else one.command.pause.scope
            case "Throttle":
                rate = None if one.command.throttle is None else one.command.throttle.rows_per_second
            case _:
                pass
    commands: list[Command] = []
    if paused != desired.paused:
        commands.append(
            Command(type="Resume")
            if desired.paused is None
            else Command(type="Pause", pause=PauseCommand(scope=desired.paused))
        )
    if rate != desired.rows_per_second:
        commands.append(Command(type="Throttle", throttle=ThrottleCommand(rows_per_second=desired.rows_per_second)))
    return commands


def _with(control: Control, wishes: list[Command], context: Context) -> Control:
    """Number the wishes above everything that was ever heard of, each in place of one of its kind that waits."""
    told = context.progress.revision if context.progress else 0
    revision = max(control.desired_revision, control.acked_revision, told, 0)
    pending = [
        one for one in control.pending if not any(_kind(one.command.type) == _kind(wish.type) for wish in wishes)
    ]
    for offset, wish in enumerate(wishes, start=1):
        pending.append(PendingCommand(revision=revision + offset, command=wish))
    return control.model_copy(
        update={
            "desired_revision": revision + len(wishes),
            "pending": tuple(pending),
            "pending_since": context.timestamp,
        }
    )


def _kind(type_: str) -> str:
    return "Pause" if type_ in _PAUSE else type_


def _requests(context: Context, control: Control, number: int) -> tuple[CommandRequest, ...]:
    """Return what waits, in order; to a driver that was never heard of nothing is sent."""
    if context.look is None or number < 1 or control.attempt != number:
        return ()
    return tuple(
        CommandRequest(attempt=number, revision=one.revision, command=one.command)
        for one in control.pending
        if one.revision >= 1
    )
