"""Where an attempt is, from its fence to its end.

phase       event                                              then
---------   ------------------------------------------------   -------------------------------------------------------
Fencing     the first commit is durable                        Running
Running     a stop takes effect at a barrier                   Draining
Running     everything that Exit waits for is durable          Verifying; Finishing where no last receipt is wanted
Draining    nothing runs and nothing is left to commit         Over (Stopped)
Verifying   source and target are equal                        Finishing
Verifying   the comparison is lost                             Running; Draining after a stop
Verifying   source and target differ, and a commit says so     Over (Failed)
Finishing   the commit that says `finished` is durable         Over (Complete)
Finishing   others changed the target after it was compared    Running; Draining after a stop
any         an error that another try cannot pass              Over (Failed)
"""

from __future__ import annotations

from dataclasses import dataclass

from backfill_core.protocol.actions import Finish


@dataclass(frozen=True, slots=True)
class Fencing:
    """The first commit is under way, by which the target refuses every earlier attempt; nothing else runs."""


@dataclass(frozen=True, slots=True)
class Running:
    """Work starts as commands and limits permit."""


@dataclass(frozen=True, slots=True)
class Draining:
    """No work starts; what runs gets the budget of a stop."""

    awaited: bool
    """Is the process itself asked to end, so that it may leave work behind that does not end in time?"""


@dataclass(frozen=True, slots=True)
class Verifying:
    """The last receipt is being taken."""

    stop: Draining | None = None
    """A stop that takes effect should the job not end."""


@dataclass(frozen=True, slots=True)
class Finishing:
    """The last commit is under way."""

    stop: Draining | None = None


@dataclass(frozen=True, slots=True)
class Over:
    """The attempt has ended; the job hears nothing more."""

    finish: Finish
    stop: Draining | None = None


JobPhase = Fencing | Running | Draining | Verifying | Finishing | Over


def stop_in(phase: JobPhase) -> Draining | None:
    """Return the stop that is in effect."""
    match phase:
        case Draining():
            return phase
        case Verifying(stop=stop) | Finishing(stop=stop) | Over(stop=stop):
            return stop
        case _:
            return None


def stopped(phase: JobPhase, *, awaited: bool) -> JobPhase:
    """Return the phase once a stop takes effect."""
    before = stop_in(phase)
    stop = Draining(awaited or (before is not None and before.awaited))
    match phase:
        case Verifying():
            return Verifying(stop)
        case Finishing():
            return Finishing(stop)
        case Running() | Draining():
            return stop
        case _:
            return phase


def not_at_end(phase: JobPhase) -> JobPhase:
    """Return the phase once the end turns out not to be reached."""
    return stop_in(phase) or Running() if isinstance(phase, Verifying | Finishing) else phase
