"""Phases of an attempt, from its fence to its end, and the events that change them.

phase       event                                                     then
---------   -------------------------------------------------------   -------------------------------------------------------
Fencing     the first commit is durable                               Running
Running     a stop takes effect at a barrier                          Draining
Running     everything that Exit waits for is durable                 Verifying; Finishing if no last receipt is configured
Draining    nothing runs and nothing is left to commit                Over (Stopped)
Verifying   source and target are equal                               Finishing
Verifying   the comparison is lost                                    Running; Draining after a stop
Verifying   source and target differ, and a commit records it         Over (Failed)
Finishing   the commit that records `finished` is durable             Over (Complete)
Finishing   other writers changed the target after the comparison     Running; Draining after a stop
any         an error that is not retryable                            Over (Failed)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from backfill_core.pacing.auto_throttle import AutoSettings
from backfill_core.protocol.actions import Finish
from backfill_core.protocol.clock import Now
from backfill_core.protocol.publication import Publish


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Pace and limits of a job."""

    interval_s: float = 1.0
    commit_every: int = 1
    verify_final: bool = False
    knows_bytes: bool = True
    """True if the sizes of the source's rows are known, so that a limit of bytes is possible."""

    comparable: bool = True
    """False if the job copies no snapshot, so that source and target differ in all rows that never changed."""

    fixed_width: Mapping[str, str] = field(default_factory=dict)
    """Reasons why values of the width cannot change, by the names of the fields of `Width`; the other values can."""

    follows: bool = False
    """True if the job continues once it has caught up."""

    pause_budget_s: float = 1.0
    """Seconds that running work may continue after a pause or stop before it is cancelled."""

    retries_max: int = 5
    """Retryable failures in a row; one more ends the attempt."""

    burst_s: float = 1.1
    """Unused rate that is kept, in seconds or in barriers, whichever is longer: a barrier that is a little late keeps its quota."""

    auto: AutoSettings | None = None
    """Targets and bounds of the automatic limit; `None` if the spec requests none."""

    publish: Publish = Publish.CONTINUOUSLY
    """Time at which rows become visible; the state of a job that publishes later has a `publication`."""

    suspects: tuple[str, ...] = ()
    """Settings that decide which rows the target has. An error names them if both sides differ without a foreign commit."""


@dataclass(frozen=True, slots=True)
class Fencing:
    """The first commit is under way; with it the target rejects every earlier attempt. Nothing else runs."""


@dataclass(frozen=True, slots=True)
class Running:
    """Work starts as commands and limits permit."""


@dataclass(frozen=True, slots=True)
class Draining:
    """No work starts; running work gets the budget of a stop."""

    awaited: bool
    """True if the process itself must end, so that it may leave work behind that does not end in time."""


@dataclass(frozen=True, slots=True)
class Verifying:
    """The last receipt is being taken."""

    stop: Draining | None = None
    """A stop that takes effect if the job does not end."""


@dataclass(frozen=True, slots=True)
class Finishing:
    """The last commit is under way."""

    stop: Draining | None = None


LivePhase = Fencing | Running | Draining | Verifying | Finishing


@dataclass(frozen=True, slots=True)
class Over:
    """The attempt has ended; the job ignores further events."""

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
    """Return the phase once the job turns out to be unfinished."""
    return stop_in(phase) or Running() if isinstance(phase, Verifying | Finishing) else phase


@dataclass(frozen=True, slots=True)
class Timetable:
    """Deadlines of an attempt, in monotonic seconds."""

    barrier_s: float
    barriers: int = 0
    """Scheduled barriers so far."""

    hurried: bool = False
    """True if a barrier must follow at once."""

    cancel_s: float | None = None
    """Deadline of running work after a pause or stop."""

    leave_s: float | None = None
    """Time at which an attempt whose process must end leaves work behind."""

    def hurry(self) -> Timetable:
        """Return the timetable with a barrier at once."""
        return replace(self, hurried=True)

    def next(self, interval_s: float, now: Now) -> Timetable:
        """Return the timetable after a scheduled barrier; a late barrier does not make the next one early."""
        return replace(self, barrier_s=max(self.barrier_s + interval_s, now.mono_s), barriers=self.barriers + 1)

    def cancel_in(self, budget_s: float, now: Now) -> Timetable:
        """Return the timetable with a deadline for running work; a repeated pause or stop does not extend it."""
        at_s = now.mono_s + budget_s
        return replace(self, cancel_s=at_s if self.cancel_s is None else min(at_s, self.cancel_s))

    def cancels(self, now: Now) -> bool:
        """True if the deadline of running work has passed."""
        return self.cancel_s is not None and now.mono_s >= self.cancel_s

    def cancelled(self, leave_in_s: float | None, now: Now) -> Timetable:
        """Return the timetable once running work was cancelled; `leave_in_s` limits how long the attempt waits for its end."""
        leave_s = self.leave_s if leave_in_s is None else now.mono_s + leave_in_s
        return replace(self, cancel_s=None, leave_s=leave_s)

    def leaves(self, now: Now) -> bool:
        """True if the wait for work that does not end is over."""
        return self.leave_s is not None and now.mono_s >= self.leave_s
