"""Commands in progress: received, then in force from a barrier on, then acknowledged after its commit (R-SNAP-40).

revision                                      answer
-------------------------------------------   ---------------------------------------------------
of another attempt                            WrongAttempt, at once
in force already                              Applied, at once
received before, and not answered yet         none; the answer to the earlier one follows
older than one in force or in progress        Superseded, at once
newer than all                                Applied, once the commit that holds it is durable
a limit of bytes, of a source without files   Refused, at once
a receipt, of a job without a snapshot        Refused, at once
a value of the width that is fixed            Refused, at once and as a whole
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from backfill_api.spec.override import WIDTH_FIELDS
from backfill_core.protocol.actions import Acknowledge
from backfill_core.protocol.commands import Pause, Rescale, Stop, Throttle, VerifyNow
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import CommandReceived, StopRequested


@dataclass(frozen=True, slots=True)
class Inbox:
    """Commands that no durable commit contains yet."""

    received: tuple[CommandReceived, ...] = ()
    """Commands that take effect at the next barrier."""

    applied: tuple[CommandReceived, ...] = ()
    """Commands in force, for the next commit."""

    stop: StopRequested | None = None
    """Request to end the process."""

    @property
    def empty(self) -> bool:
        """True if no command waits for a barrier or a commit."""
        return not (self.received or self.applied)

    @property
    def waits_for_a_state(self) -> bool:
        """True if commands are in force and a state-only commit can acknowledge them. A receipt needs a commit of rows."""
        return bool(self.applied) and not any(isinstance(event.command, VerifyNow) for event in self.applied)

    def receive(
        self, event: CommandReceived, epoch: Epoch, in_force: int, committing: tuple[CommandReceived, ...]
    ) -> tuple[Inbox, tuple[Acknowledge, ...]]:
        """Take a command, or answer it at once.

        Args:
            event: The command.
            epoch: The open epoch.
            in_force: Newest revision in force.
            committing: Commands in the commit under way.
        """
        attempt, revision = epoch.attempt, event.revision

        def answer(outcome: str, message: str) -> tuple[Acknowledge, ...]:
            return (Acknowledge(event.attempt, epoch.number, revision, outcome, message),)

        if event.attempt != attempt:
            return self, answer("WrongAttempt", f"this is attempt {attempt}")
        newest = max([in_force, *(received.revision for received in self.received)])
        pending = (*self.received, *self.applied, *committing)
        repeated = any(earlier.revision == revision for earlier in pending)
        if revision == in_force and not repeated:
            return self, answer("Applied", "it was in force already")
        if revision <= newest:
            return self, () if repeated else answer("Superseded", f"revision {newest} is newer")
        return replace(self, received=(*self.received, event)), ()

    def put_in_force(self) -> Inbox:
        """Return the inbox with all received commands in force."""
        return Inbox((), (*self.applied, *self.received))

    def put_back(self, commands: tuple[CommandReceived, ...]) -> Inbox:
        """Return the inbox with the commands of an abandoned commit."""
        return replace(self, applied=(*commands, *self.applied))


def refused_of_bytes(event: CommandReceived, epoch: Epoch, *, knows_bytes: bool) -> tuple[Acknowledge, ...]:
    """Refuse a limit of bytes from a command of this attempt, if the source has no files."""
    command = event.command
    if knows_bytes or event.attempt != epoch.attempt or not isinstance(command, Throttle):
        return ()
    if command.bytes_per_s is None and (command.then is None or command.then.bytes_per_s is None):
        return ()
    message = "this source has no files, so its bytes per second cannot be limited: limit the rows per second instead"
    return (Acknowledge(event.attempt, epoch.number, event.revision, "Refused", message),)


def refused_receipt(event: CommandReceived, epoch: Epoch, *, comparable: bool) -> tuple[Acknowledge, ...]:
    """Refuse a receipt that a command of this attempt requests, if the job copies no snapshot."""
    if comparable or event.attempt != epoch.attempt or not isinstance(event.command, VerifyNow):
        return ()
    message = "this job copies no snapshot (changesOnly), so source and target cannot be compared: compare the changed rows by a query"
    return (Acknowledge(event.attempt, epoch.number, event.revision, "Refused", message),)


def refused_width(event: CommandReceived, epoch: Epoch, *, fixed: Mapping[str, str]) -> tuple[Acknowledge, ...]:
    """Refuse a width that a command of this attempt requests, if `fixed` has a reason why one of its values cannot change."""
    if event.attempt != epoch.attempt or not isinstance(event.command, Rescale):
        return ()
    reasons = [(WIDTH_FIELDS[name], fixed[name]) for name in event.command.width.given if name in fixed]
    if not reasons:
        return ()
    message = "; ".join(f"{field} of this job cannot change: {reason}" for field, reason in reasons)
    return (Acknowledge(event.attempt, epoch.number, event.revision, "Refused", message),)


def waits_for_no_barrier(event: CommandReceived) -> bool:
    """True if the command cannot wait for the next barrier."""
    return isinstance(event.command, Pause | Stop) and event.command.force
