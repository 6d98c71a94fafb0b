"""Commands of a Backfill: from the desired controls to numbered commands, and from acknowledgements to the controls in force.

Each command keeps one revision, and revisions only grow. A command is recorded in the status before it is sent,
and is sent again until it is acknowledged. Pause and limit are two dimensions: if both change, two commands with two revisions
follow. The width is a third, and one command has all of its values that differ. A newer command replaces a waiting one of its dimension.

The design is level-based: the desired controls are compared with those that the driver *reports*. So a lost command, a command from
another sender, and a control restored from the target's state are all corrected in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from backfill_api.names import VERIFY_ANNOTATION
from backfill_api.spec.bounds import REVISION_MAX, REVISIONS_AHEAD_MAX, count
from backfill_api.spec.override import ThrottleSpec, Width, given_width
from backfill_api.status.progress import Progress
from backfill_api.status.status import ACKS_MAX, Acknowledgement, Control, PendingCommand
from backfill_api.timestamps import ms_of, rfc3339, rfc3339_ms
from backfill_api.wire import Ack, Command, CommandRequest, PauseCommand, RescaleCommand, ThrottleCommand
from backfill_core.lifecycle.inputs.all_jobs import switch_claim
from backfill_core.lifecycle.inputs.change_claims import new_claim
from backfill_core.lifecycle.inputs.context import TOKEN_CHARACTERS_MAX, Context
from backfill_core.lifecycle.inputs.desired import Desired
from backfill_core.lifecycle.inputs.procedures import requested, wants_receipt

RESEND_S = 1.0
REFUSAL_CHARACTERS_MAX = 1024
_PAUSE = ("Pause", "Resume")

Limit = tuple[int | None, int | None, int | None]
"""Rows a second, bytes a second, and the end in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class CommandPlan:
    """The control state after a decision, and the commands to send."""

    control: Control
    decided: bool
    """True if there is a new command, which must be on record before it is sent."""

    requests: tuple[CommandRequest, ...]

    def revision_of(self, type_: str) -> int | None:
        """Return the revision of a pending command; `None` if no command of this type is pending."""
        return next((pending.revision for pending in self.control.pending if pending.command.type == type_), None)


def plan_commands(context: Context, number: int, *, stop: bool, steer: bool) -> CommandPlan:
    """Process the acknowledgements, number the new commands, and return the commands to send now.

    Args:
        context: The classified observation.
        number: The number of the attempt in flight.
        stop: True to stop the driver. This is requested once; later decisions find the stop in the status.
        steer: True if other commands are allowed: the driver does not stop, and the spec is readable.
    """
    context = _of_attempt(context)
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
        elif wants_receipt(context, control):
            new.append(Command(type="Verify"))
        # A command above corrects each difference, so from here on these are the requested controls.
        control = control.model_copy(update=context.desired.controls | {"then": context.desired.then})
    if new:
        control = _with(control, new, context)
    if stop or (steer and requested(context) is None):
        # A change that needs no command uses its claim up, too. A procedure that waits for the target uses it later.
        claim = new_claim(context.observation.annotations, control.claim_of)
        control = control.model_copy(update={"claim_of": claim.claim_of or control.claim_of})
    return CommandPlan(control, decided=bool(new), requests=_requests(context, control, number))


def carried_over(control: Control) -> Control:
    """Keep only a requested receipt for the next driver, which gets pause and limit when it starts."""
    kept = tuple(pending for pending in control.pending if pending.command.type == "Verify")
    return control.model_copy(update={"pending": kept, "pending_since": control.pending_since if kept else None})


def refusals(context: Context, control: Control) -> str:
    """Describe pending commands that the driver rejects; empty if it rejects none.

    The driver's version is too old for them, or its source does not support the limit.
    """
    waiting = {pending.revision: pending.command.type for pending in control.pending}
    refused = (
        ack for ack in _answers(context, control.attempt) if ack.outcome == "Refused" and ack.revision in waiting
    )
    messages = (f"{waiting[ack.revision]} (revision {ack.revision}): {ack.message}" for ack in refused)
    return "; ".join(messages)[:REFUSAL_CHARACTERS_MAX]


def settled(context: Context, control: Control) -> bool:
    """Return whether the desired controls are in force, as far as the status shows. Verify and Stop are not controls, and do not count."""
    if any(pending.command.type in (*_PAUSE, "Throttle", "Rescale") for pending in control.pending):
        return False
    context = _of_attempt(context)
    desired = context.desired
    sent = control.paused == desired.paused and not _differing(desired.width, given_width(control))
    if not sent or not limit_follows(context, control, _sent(control)):
        return False
    progress = context.progress
    if progress is None or progress.revision < control.acked_revision:
        return True
    rescaled = not _differing(desired.width, given_width(progress))
    return rescaled and progress.paused == desired.paused and limit_follows(context, control, reported_limit(progress))


def reported_limit(progress: Progress) -> Limit:
    """Return the limit that a driver reports."""
    rows, size_bytes = progress.throttle_rows_per_second, progress.throttle_bytes_per_second
    return rows, size_bytes, ms_of(progress.throttle_until)


def limit_follows(context: Context, control: Control, limit: Limit) -> bool:
    """Return whether a driver's limit is the desired one, or becomes or was it at an `until` that is about now.

    The driver ends a limit itself, by its own clock and at a barrier. A command at that time would repeat an old limit, or replace
    the end with another one. Only a driver that was asked for the desired limit can have ended it already.
    """
    desired, tolerance_ms = context.desired, context.policy.ack_timeout_ms
    if limit == desired.limit:
        return True
    if limit[2] is not None and limit[2] <= context.now_ms:
        return context.now_ms - limit[2] < tolerance_ms
    if desired.until_ms is None or _sent(control) != desired.limit or limit != _limit_of(desired.then):
        return False
    return desired.until_ms - context.now_ms < tolerance_ms


def _limit_of(throttle: ThrottleSpec | None) -> Limit:
    throttle = throttle or ThrottleSpec()
    return throttle.rows_per_second, throttle.bytes_per_second, throttle.until_ms


def limit_ends_in_ms(context: Context) -> int | None:
    """Return the milliseconds until the desired limit ends, or the driver's is late to end; `None` if neither is awaited."""
    progress, now_ms = context.progress, context.now_ms
    if context.desired.until_ms is not None:
        return context.desired.until_ms - now_ms
    until_ms = None if progress is None else ms_of(progress.throttle_until)
    if until_ms is None or until_ms > now_ms:
        return None
    late_ms = until_ms + context.policy.ack_timeout_ms - now_ms
    return late_ms if late_ms > 0 else None


def _sent(control: Control) -> Limit:
    return control.rows_per_second, control.bytes_per_second, ms_of(control.until)


def _believed(context: Context, control: Control) -> Control:
    """Return the control state; without its commands if a user edited a revision so high that no command could follow it."""
    if context.progress is None:
        return control
    newest = max(
        control.desired_revision, control.acked_revision, *(pending.revision for pending in control.pending), 0
    )
    if newest <= context.progress.revision + REVISIONS_AHEAD_MAX:
        return control
    # Controls that differ from the desired ones are requested again.
    fresh = {"desired_revision": 0, "acked_revision": 0, "pending": (), "pending_since": None}
    return control.model_copy(update=fresh)


def _acknowledged(context: Context, control: Control, number: int) -> tuple[Control, list[Command]]:
    """Return the control state after the acknowledgements, and the commands that need a new revision."""
    if control.attempt != number:
        # A new driver starts with its controls, or is corrected. Only a requested receipt must be requested again.
        lost = [pending.command for pending in control.pending if pending.command.type == "Verify"]
        if control.verify_epoch is not None and not lost:
            lost = [Command(type="Verify")]
        owed = None
        if lost and context.attempt is not None and context.attempt.procedure is not None:
            # A procedure takes no receipt: the next driver of the job gets the request.
            owed, lost = control.epoch if control.verify_epoch is None else control.verify_epoch, []
        reported = context.progress.revision if context.progress else 0
        fresh = {"attempt": number, "pending": (), "pending_since": None, "verify_epoch": owed}
        # The target may be a new one, whose state contains no revision.
        return control.model_copy(update=fresh | {"acked_revision": min(control.acked_revision, reported)}), lost
    acks = {ack.revision: ack for ack in _answers(context, number)}
    again: list[Command] = []
    kept: list[PendingCommand] = []
    for pending in control.pending:
        ack = acks.get(pending.revision)
        if ack is None or ack.outcome not in ("Applied", "Superseded"):
            kept.append(pending)
        elif ack.outcome == "Superseded":
            again += [pending.command] if pending.command.type in ("Verify", "Stop") else []
        else:
            control = control.model_copy(
                update={
                    "acked_revision": max(control.acked_revision, pending.revision),
                    "epoch": max(control.epoch, ack.epoch),
                    "last_ack_time": context.timestamp,
                    "acks": (*control.acks, _acknowledgement(context, pending, ack))[-ACKS_MAX:],
                    "verify_epoch": ack.epoch if pending.command.type == "Verify" else control.verify_epoch,
                }
            )
    if len(kept) == len(control.pending):
        return control, again
    return control.model_copy(
        update={"pending": tuple(kept), "pending_since": control.pending_since if kept else None}
    ), again


def _acknowledgement(context: Context, pending: PendingCommand, ack: Ack) -> Acknowledgement:
    decided_ms = ms_of(pending.time)
    return Acknowledgement(
        revision=pending.revision,
        type=pending.command.type,
        epoch=ack.epoch,
        ms=None if decided_ms is None else count(context.now_ms - decided_ms),
        time=context.timestamp,
        by=pending.by,
        note=pending.note,
    )


def _with_receipt(context: Context, control: Control) -> Control:
    """Clear a requested receipt once it, or a newer one, has arrived."""
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
    """Return the commands that lead to the desired controls, once all waiting commands are acknowledged."""
    progress, desired = context.progress, context.desired
    # A progress that is older than the newest acknowledgement does not show the current controls.
    current = progress is not None and progress.revision >= control.acked_revision
    paused: str | None = control.paused
    limit, then = _sent(control), control.then
    if progress is not None and current:
        paused, limit = progress.paused, reported_limit(progress)
    for pending in control.pending:
        match pending.command.type:
            case "Pause" | "Resume":
                paused = None if pending.command.pause is None else pending.command.pause.scope
            case "Throttle":
                throttle = pending.command.throttle or ThrottleCommand()
                limit, then = (
                    (throttle.rows_per_second, throttle.bytes_per_second, ms_of(throttle.until)),
                    throttle.then,
                )
            case _:
                pass
    commands: list[Command] = []
    if paused != desired.paused:
        commands.append(
            Command(type="Resume")
            if desired.paused is None
            else Command(type="Pause", pause=PauseCommand(scope=desired.paused))
        )
    # A driver does not report the limit that follows, so the newest one sent counts, until the driver's limit is that one.
    then = None if then is not None and _limit_of(then) == limit else then
    outdated = desired.until_ms is not None and limit == desired.limit and then != desired.then
    if outdated or not limit_follows(context, control, limit):
        commands.append(Command(type="Throttle", throttle=_throttle(desired)))
    width = _rescaled(control, desired.width, progress if current else None)
    if width:
        commands.append(Command(type="Rescale", rescale=RescaleCommand(**width)))
    return commands


def _rescaled(control: Control, desired: Width, progress: Progress | None) -> dict[str, int]:
    """Return the values of the width to send; empty if none differs once all waiting commands are acknowledged.

    The desired values are those that the driver reports. A new command replaces the waiting one, so it has the values of that one too.
    """
    now = given_width(control) | ({} if progress is None else given_width(progress))
    waiting = [pending.command.rescale for pending in control.pending if pending.command.rescale is not None]
    later = now | {name: value for rescale in waiting for name, value in rescale.given.items()}
    differing = _differing(desired, later)
    return _differing(desired, now) | differing if differing else {}


def _of_attempt(context: Context) -> Context:
    """Return the context without desired values of the width that cannot change in this attempt.

    Its driver does not report them: it is of an earlier version, or was launched with a fixed number of executors.
    """
    width, progress = context.desired.width, context.progress
    fixed = set() if progress is None else width.given.keys() - given_width(progress).keys()
    if not fixed:
        return context
    left = width.model_copy(update=dict.fromkeys(fixed))
    return replace(context, desired=replace(context.desired, width=left))


def _differing(desired: Width, known: Mapping[str, int]) -> dict[str, int]:
    """Return the desired values that differ from the known ones."""
    return {name: value for name, value in desired.given.items() if known.get(name, value) != value}


def _throttle(desired: Desired) -> ThrottleCommand:
    return ThrottleCommand(
        rows_per_second=desired.rows_per_second,
        bytes_per_second=desired.bytes_per_second,
        until=None if desired.until_ms is None else rfc3339(desired.until_ms),
        then=desired.then,
    )


def _with(control: Control, new: list[Command], context: Context) -> Control:
    """Add the new commands with revisions above all existing ones; each command replaces an earlier one of its kind."""
    new = list({_kind(command.type): command for command in new}.values())
    reported = context.progress.revision if context.progress else 0
    revision = max(control.desired_revision, control.acked_revision, reported, 0)
    replaced = {_kind(command.type) for command in new}
    pending = [earlier for earlier in control.pending if _kind(earlier.command.type) not in replaced]
    own, time = new_claim(context.observation.annotations, control.claim_of), rfc3339_ms(context.now_ms)
    for offset, command in enumerate(new, start=1):
        claim = switch_claim(context.observation, command.type) or own
        pending.append(
            PendingCommand(revision=revision + offset, command=command, time=time, by=claim.by, note=claim.note)
        )
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
    """Return the waiting commands, in order; a driver that never answered gets none."""
    if context.report is None or number < 1 or control.attempt != number:
        return ()
    return tuple(
        CommandRequest(attempt=number, revision=pending.revision, command=pending.command)
        for pending in control.pending
        if 1 <= pending.revision <= REVISION_MAX
    )
