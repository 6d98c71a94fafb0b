"""Where an attempt is, from its fence to its end, and when it moves.

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

from dataclasses import dataclass, replace

from backfill_core.protocol.actions import Finish
from backfill_core.protocol.clock import Now


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The pace of a job."""

    interval_s: float = 1.0
    commit_every: int = 1
    verify_final: bool = False
    knows_bytes: bool = True
    """May a limit be one of bytes: are they known of the source's rows?"""

    follows: bool = False
    """Does the job go on once it has caught up?"""

    pause_budget_s: float = 1.0
    """How long running work may go on after a pause or stop before it is cancelled."""

    retries_max: int = 5
    """Failures in a row that may succeed when tried again; one more ends the attempt."""

    burst_s: float = 1.1
    """Unused rate that is kept, in seconds or in barriers, whichever is longer: one that is a little late must not lose its quota."""

    suspects: tuple[str, ...] = ()
    """What decides which rows the target has. Named if both sides differ, and no other writer explains it."""


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


LivePhase = Fencing | Running | Draining | Verifying | Finishing


@dataclass(frozen=True, slots=True)
class Over:
    """The attempt has ended; the job hears nothing more."""

    finish: Finish
    ended_in: LivePhase
    """The phase in which it ended."""


JobPhase = LivePhase | Over


def stop_in(phase: JobPhase) -> Draining | None:
    """Return the stop that is in effect."""
    match phase:
        case Draining():
            return phase
        case Verifying(stop=stop) | Finishing(stop=stop):
            return stop
        case Over(ended_in=before):
            return stop_in(before)
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


@dataclass(frozen=True, slots=True)
class Timetable:
    """When an attempt moves, in monotonic seconds."""

    barrier_s: float
    barriers: int = 0
    """Scheduled ones so far."""

    hurried: bool = False
    """Is a barrier wanted at once?"""

    cancel_s: float | None = None
    """When running work gets no more time after a pause or stop."""

    leave_s: float | None = None
    """When an attempt whose process must end leaves work behind."""

    def hurry(self) -> Timetable:
        """Return it with a barrier at once."""
        return replace(self, hurried=True)

    def next(self, interval_s: float, now: Now) -> Timetable:
        """Return it after a scheduled barrier; one that is late does not make the next one early."""
        return replace(self, barrier_s=max(self.barrier_s + interval_s, now.mono_s), barriers=self.barriers + 1)

    def cancel_in(self, budget_s: float, now: Now) -> Timetable:
        """Return it with a deadline for running work; a pause or stop repeated does not give it more time."""
        at_s = now.mono_s + budget_s
        return replace(self, cancel_s=at_s if self.cancel_s is None else min(at_s, self.cancel_s))

    def cancels(self, now: Now) -> bool:
        """Is the time of running work over?"""
        return self.cancel_s is not None and now.mono_s >= self.cancel_s

    def cancelled(self, leave_in_s: float | None, now: Now) -> Timetable:
        """Return it once running work was cancelled; with seconds, the attempt then waits no longer for its end."""
        leave_s = self.leave_s if leave_in_s is None else now.mono_s + leave_in_s
        return replace(self, cancel_s=None, leave_s=leave_s)

    def leaves(self, now: Now) -> bool:
        """Has work that does not end been waited for long enough?"""
        return self.leave_s is not None and now.mono_s >= self.leave_s
