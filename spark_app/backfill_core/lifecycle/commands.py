"""From the desired controls to numbered commands, and from acknowledgements to the controls in force.

Each command has one revision for ever, and revisions only grow. A command is on record in the status before it is sent,
and is sent again until it is acknowledged. Pause and limit are two dimensions: when both change, that is two commands with
two revisions. A newer command replaces one of its dimension that waits.

Level-based: the desired controls are compared with those that the driver *reports*. So a lost command, another sender's
command, and a control that the target's state restored are all repaired in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from backfill_api.names import VERIFY_ANNOTATION
from backfill_api.spec.bounds import REVISION_MAX, REVISIONS_AHEAD_MAX
from backfill_api.status.status import Control, PendingCommand
from backfill_api.wire import Ack, Command, CommandRequest, PauseCommand, ThrottleCommand
from backfill_core.lifecycle.inputs.context import TOKEN_CHARACTERS_MAX, Context

RESEND_S = 1.0
REFUSAL_CHARACTERS_MAX = 1024
_PAUSE = ("Pause", "Resume")


@dataclass(frozen=True, slots=True)
class CommandPlan:
    """The control state after a decision, and the commands to send."""

    control: Control
    decided: bool
    """Is there a new command, which must be on record before it is sent?"""

    requests: tuple[CommandRequest, ...]

    def revision_of(self, type_: str) -> int | None:
        """Return the number of a pending command."""
        return next((one.revision for one in self.control.pending if one.command.type == type_), None)


def plan_commands(context: Context, number: int, *, stop: bool, steer: bool) -> CommandPlan:
    """Take the acknowledgements, number the new commands, and return what is to be sent now.

    Args:
        context: The classified observation.
        number: The number of the attempt in flight.
        stop: Command the driver to stop; asked once, later decisions know it from the status.
        steer: Other commands are allowed: the driver does not stop, and the spec can be read.
    """
    control = context.status.control or Control()
    if control.attempt != number and context.progress is None:
        return CommandPlan(control, decided=False, requests=())  # this attempt's driver has not reported yet
    control, new = _acknowledged(context, _believed(context, control), number)
    control = _with_receipt(context, control)
    if context.progress is None:
        return CommandPlan(control, decided=False, requests=_requests(context, control, number))
    if stop:
        new.append(Command(type="Stop"))
    token = context.observation.annotations.get(VERIFY_ANNOTATION, "")[:TOKEN_CHARACTERS_MAX]
    if steer:
        new += _corrections(context, control)
        if token and token != control.verify_token:
            new.append(Command(type="Verify"))
            control = control.model_copy(update={"verify_token": token})
        # A command above corrects what differed, so from here on these are the controls that were asked for.
        control = control.model_copy(update=context.desired.controls)
    if new:
        control = _with(control, new, context)
    return CommandPlan(control, decided=bool(new), requests=_requests(context, control, number))


def refusals(context: Context, control: Control) -> str:
    """Return what the driver refuses of the commands that wait, for people; empty: nothing.

    It is of an earlier version, and does not know what is asked for; or its source has not what a limit is about.
    """
    waiting = {one.revision: one.command.type for one in control.pending}
    refused = (
        ack for ack in _answers(context, control.attempt) if ack.outcome == "Refused" and ack.revision in waiting
    )
    words = (f"{waiting[one.revision]} (revision {one.revision}): {one.message}" for one in refused)
    return "; ".join(words)[:REFUSAL_CHARACTERS_MAX]


def settled(context: Context, control: Control) -> bool:
    """Are the desired controls in force, as far as is known? Verify and Stop do not count: they are no controls."""
    if any(one.command.type in (*_PAUSE, "Throttle") for one in control.pending):
        return False
    desired = (context.desired.paused, context.desired.rows_per_second, context.desired.bytes_per_second)
    if (control.paused, control.rows_per_second, control.bytes_per_second) != desired:
        return False
    progress = context.progress
    if progress is None or progress.revision < control.acked_revision:
        return True
    return (progress.paused, progress.throttle_rows_per_second, progress.throttle_bytes_per_second) == desired


def _believed(context: Context, control: Control) -> Control:
    """Return the control state; without its commands if a person gave it a revision, which no command could follow."""
    if context.progress is None:
        return control
    newest = max(control.desired_revision, control.acked_revision, *(one.revision for one in control.pending), 0)
    if newest <= context.progress.revision + REVISIONS_AHEAD_MAX:
        return control
    # What differs from the desired controls is asked for again.
    fresh = {"desired_revision": 0, "acked_revision": 0, "pending": (), "pending_since": None}
    return control.model_copy(update=fresh)


def _acknowledged(context: Context, control: Control, number: int) -> tuple[Control, list[Command]]:
    """Return the control state after the acknowledgements, and the commands that need a new revision."""
    if control.attempt != number:
        # A new driver starts with its controls, or is corrected; only a requested receipt must be asked for again.
        lost = [pending.command for pending in control.pending if pending.command.type == "Verify"]
        if control.verify_epoch is not None and not lost:
            lost = [Command(type="Verify")]
        reported = context.progress.revision if context.progress else 0
        fresh = {"attempt": number, "pending": (), "pending_since": None, "verify_epoch": None}
        # The target may be a new one, whose state has no revision.
        return control.model_copy(update=fresh | {"acked_revision": min(control.acked_revision, reported)}), lost
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
                    "verify_epoch": ack.epoch if one.command.type == "Verify" else control.verify_epoch,
                }
            )
    if len(kept) == len(control.pending):
        return control, again
    return control.model_copy(
        update={"pending": tuple(kept), "pending_since": control.pending_since if kept else None}
    ), again


def _with_receipt(context: Context, control: Control) -> Control:
    """Forget a requested receipt once it, or a newer one, is here."""
    taken = context.report.receipt if context.report is not None else None
    epoch = control.verify_epoch
    if epoch is None or taken is None or taken.epoch is None or taken.epoch < epoch:
        return control
    return control.model_copy(update={"verify_epoch": None})


def _answers(context: Context, number: int) -> Iterator[Ack]:
    for ack in context.report.acks if context.report else ():
        if ack.attempt == number:
            yield ack


def _corrections(context: Context, control: Control) -> list[Command]:
    """Return the commands that make the controls, once all that waits is acknowledged, the desired ones."""
    progress, desired = context.progress, context.desired
    # A progress from before the newest acknowledgement does not show the controls of now.
    known = progress is not None and progress.revision >= control.acked_revision
    paused: str | None = control.paused
    limits = (control.rows_per_second, control.bytes_per_second)
    if progress is not None and known:
        paused = progress.paused
        limits = (progress.throttle_rows_per_second, progress.throttle_bytes_per_second)
    for one in control.pending:
        match one.command.type:
            case "Pause" | "Resume":
                paused = None if one.command.pause is None else one.command.pause.scope
            case "Throttle":
                throttle = one.command.throttle or ThrottleCommand()
                limits = (throttle.rows_per_second, throttle.bytes_per_second)
            case _:
                pass
    commands: list[Command] = []
    if paused != desired.paused:
        commands.append(
            Command(type="Resume")
            if desired.paused is None
            else Command(type="Pause", pause=PauseCommand(scope=desired.paused))
        )
    if limits != (desired.rows_per_second, desired.bytes_per_second):
        limit = ThrottleCommand(rows_per_second=desired.rows_per_second, bytes_per_second=desired.bytes_per_second)
        commands.append(Command(type="Throttle", throttle=limit))
    return commands


def _with(control: Control, new: list[Command], context: Context) -> Control:
    """Add the new commands, with revisions above all that are known; each replaces an earlier one of its kind."""
    new = list({_kind(command.type): command for command in new}.values())
    reported = context.progress.revision if context.progress else 0
    revision = max(control.desired_revision, control.acked_revision, reported, 0)
    pending = [
        one for one in control.pending if not any(_kind(one.command.type) == _kind(command.type) for command in new)
    ]
    for offset, command in enumerate(new, start=1):
        pending.append(PendingCommand(revision=revision + offset, command=command))
    return control.model_copy(
        update={
            "desired_revision": revision + len(new),
            "pending": tuple(pending),
            "pending_since": context.timestamp,
        }
    )


def _kind(type_: str) -> str:
    return "Pause" if type_ in _PAUSE else type_


def _requests(context: Context, control: Control, number: int) -> tuple[CommandRequest, ...]:
    """Return what waits, in order; nothing is sent to a driver that never answered."""
    if context.report is None or number < 1 or control.attempt != number:
        return ()
    return tuple(
        CommandRequest(attempt=number, revision=one.revision, command=one.command)
        for one in control.pending
        if 1 <= one.revision <= REVISION_MAX
    )
