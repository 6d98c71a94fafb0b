"""Commands on their way: received, in force since a barrier, acknowledged after its commit (R-SNAP-40).

revision                                      answer
-------------------------------------------   ---------------------------------------------------
of another attempt                            WrongAttempt, at once
in force already                              Applied, at once
on its way already                            none; the one under way answers
older than one in force or on its way         Superseded, at once
newer than all                                Applied, once the commit that holds it is durable
a limit of bytes, of a source without files   Refused, at once
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_core.protocol.actions import Acknowledge
from backfill_core.protocol.commands import Pause, Stop, Throttle, VerifyNow
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import CommandReceived, StopRequested


@dataclass(frozen=True, slots=True)
class Inbox:
    """Commands that no durable commit holds yet."""

    received: tuple[CommandReceived, ...] = ()
    """They take effect at the next barrier."""

    applied: tuple[CommandReceived, ...] = ()
    """In force, and to be part of the next commit."""

    stop: StopRequested | None = None
    """The process is asked to end."""

    @property
    def empty(self) -> bool:
        """Does no command wait for a barrier or a commit?"""
        return not (self.received or self.applied)

    @property
    def waits_for_a_state(self) -> bool:
        """Are commands in force, and is the state all that is to say so? A receipt is taken of a commit of rows."""
        return bool(self.applied) and not any(isinstance(one.command, VerifyNow) for one in self.applied)

    def receive(
        self, event: CommandReceived, epoch: Epoch, in_force: int, committing: tuple[CommandReceived, ...]
    ) -> tuple[Inbox, tuple[Acknowledge, ...]]:
        """Take a command, or answer it at once.

        Args:
            event: The command.
            epoch: The open one.
            in_force: Newest revision in force.
            committing: Commands in the commit under way.
        """
        attempt, revision = epoch.attempt, event.revision

        def answer(outcome: str, message: str) -> tuple[Acknowledge, ...]:
            return (Acknowledge(event.attempt, epoch.number, revision, outcome, message),)

        if event.attempt != attempt:
            return self, answer("WrongAttempt", f"this is attempt {attempt}")
        newest = max([in_force, *(one.revision for one in self.received)])
        known = any(one.revision == revision for one in (*self.received, *self.applied, *committing))
        if revision == in_force and not known:
            return self, answer("Applied", "it was in force already")
        if revision <= newest:
            return self, () if known else answer("Superseded", f"revision {newest} is newer")
        return replace(self, received=(*self.received, event)), ()

    def put_in_force(self) -> Inbox:
        """All that was received takes effect."""
        return Inbox((), (*self.applied, *self.received))

    def put_back(self, commands: tuple[CommandReceived, ...]) -> Inbox:
        """The commit that held them was given up."""
        return replace(self, applied=(*commands, *self.applied))


def refused_of_bytes(event: CommandReceived, epoch: Epoch, *, knows_bytes: bool) -> tuple[Acknowledge, ...]:
    """Refuse a limit of bytes where none can be counted, of this attempt's commands."""
    command = event.command
    if (
        knows_bytes
        or event.attempt != epoch.attempt
        or not isinstance(command, Throttle)
        or command.bytes_per_s is None
    ):
        return ()
    words = "a limit of bytes is one of the bytes of files, and this source has its rows in none: give rows a second"
    return (Acknowledge(event.attempt, epoch.number, event.revision, "Refused", words),)


def waits_for_no_barrier(event: CommandReceived) -> bool:
    """Is the next barrier too late for it?"""
    return isinstance(event.command, Pause | Stop) and event.command.force
