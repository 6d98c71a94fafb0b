"""Steps of a switch-over, of its undo and of its end, as one table: each step has one next step for each answer.

step             answer         next            effect of the step
--------------   ------------   -------------   --------------------------------------------------------------------------
Checking         done           Comparing       reads lag, receipt, key proof and the name; changes nothing
                 failed         GivingUp
Comparing        done           Fencing         compares both tables while the driver follows, and checks again; changes nothing
                 failed         GivingUp
Fencing          done           Draining        one log entry makes the source read-only, at version V; waits for a good time before it
                 failed         GivingUp
Draining         done           Verifying       waits until the target holds all rows of V
                 failed         GivingUp
Verifying        done           Recording       compares everything that changed since the step Comparing
                 failed         GivingUp
Recording        done           Releasing       stores the mark Flipping in the source: definition of the name, state of the job
                 failed         GivingUp
Releasing        done           Flipping        stops the driver; removes the job's state from the target; stores there the folder of a source that the spec names
                 failed         Interrupted
Flipping         done           Settling        the name points to the target
                 failed         Interrupted
Settling         done           Switched        stores the mark Switched; keepSource: Released ends as the step Completing instead
                 failed         Interrupted
GivingUp         done           Following       lifts the fence of a switch-over, also one of an earlier run; `backfill fence` keeps its own
                 failed         Interrupted

CheckingTarget   done           Reversing       the undo begins if no other writer changed the target; keepSource: Following copies their changes to the source first, and compares them
                 others wrote   Refused
                 failed         Refused
Reconsidering    done           Reversing       CheckingTarget of a switch-over or an undo that was killed after it decided to flip: it goes back, or forward
                 others wrote   Releasing
                 failed         Interrupted
Reversing        done           Holding         stores the mark Undoing in the source
                 failed         Interrupted
Holding          done           Rechecking      makes the target read-only
                 failed         Interrupted
Rechecking       done           VerifyingBack   reads the target's log up to its fence; keepSource: Following copies the last changes to the source
                 others wrote   Redoing
                 failed         Interrupted
VerifyingBack    done           Restoring       keepSource: Following compares everything that changed since CheckingTarget
                 others wrote   Redoing
                 failed         Interrupted
Restoring        done           Returning       the name points to the source again
                 failed         Interrupted
Returning        done           LastCheck       lifts the fence of the target, and stores the job's state there again
                 failed         Interrupted
LastCheck        done           Reopening       reads the target's log up to the job's state
                 others wrote   Redoing
                 failed         Interrupted
Reopening        done           Undone          lifts the fence of the source and removes the mark, in one log entry
                 failed         Interrupted
Redoing          done           Releasing       stores the mark Flipping again: writes to the target must stay visible
                 failed         Interrupted

Completing       done           Completed       restores the retention of the source; then lifts its fence and removes the mark, in one log entry
                 failed         Interrupted

An interrupted command is run again: the mark in the source's log decides where it continues. Before the mark, a run starts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from backfill_core.switch_over.mark import Mark, Stage


class Step(StrEnum):
    """A step with an effect."""

    CHECK = "Checking"
    COMPARE = "Comparing"
    FENCE = "Fencing"
    DRAIN = "Draining"
    VERIFY = "Verifying"
    RECORD = "Recording"
    RELEASE = "Releasing"
    FLIP = "Flipping"
    SETTLE = "Settling"
    GIVE_UP = "GivingUp"
    CHECK_TARGET = "CheckingTarget"
    RECONSIDER = "Reconsidering"
    REVERSE = "Reversing"
    HOLD = "Holding"
    RECHECK = "Rechecking"
    VERIFY_BACK = "VerifyingBack"
    RESTORE = "Restoring"
    RETURN = "Returning"
    LAST_CHECK = "LastCheck"
    REOPEN = "Reopening"
    REDO = "Redoing"
    COMPLETE = "Completing"


class End(StrEnum):
    """End of a command."""

    REFUSED = "Refused"
    """Nothing was changed."""

    NOTHING = "Nothing"
    """Nothing was changed: the source has no switch-over to undo or to complete."""

    FOLLOWING = "Following"
    """The source accepts writes, and the job follows it."""

    SWITCHED = "Switched"
    UNDONE = "Undone"
    COMPLETED = "Completed"
    INTERRUPTED = "Interrupted"
    """Another run of the same command continues."""


class Goal(StrEnum):
    """Request of a user."""

    SWITCH = "switch"
    UNDO = "undo"
    COMPLETE = "complete"


class Answer(StrEnum):
    """Result of a step."""

    DONE = "done"
    FAILED = "failed"
    OTHERS_WROTE = "others wrote"
    """An undo would lose commits of other writers to the target: the source does not have them."""


@dataclass(frozen=True, slots=True)
class Next:
    """The next step or end for each answer."""

    done: Step | End
    failed: Step | End
    others_wrote: Step | End | None = None
    """`None` if the step does not read the target's log."""

    def after(self, answer: Answer) -> Step | End:
        """Return the next step or end."""
        match answer:
            case Answer.DONE:
                return self.done
            case Answer.FAILED:
                return self.failed
            case Answer.OTHERS_WROTE:
                return self.others_wrote or self.failed


TRANSITIONS: Final[Mapping[Step, Next]] = {
    Step.CHECK: Next(Step.COMPARE, Step.GIVE_UP),
    Step.COMPARE: Next(Step.FENCE, Step.GIVE_UP),
    Step.FENCE: Next(Step.DRAIN, Step.GIVE_UP),
    Step.DRAIN: Next(Step.VERIFY, Step.GIVE_UP),
    Step.VERIFY: Next(Step.RECORD, Step.GIVE_UP),
    Step.RECORD: Next(Step.RELEASE, Step.GIVE_UP),
    Step.RELEASE: Next(Step.FLIP, End.INTERRUPTED),
    Step.FLIP: Next(Step.SETTLE, End.INTERRUPTED),
    Step.SETTLE: Next(End.SWITCHED, End.INTERRUPTED),
    Step.GIVE_UP: Next(End.FOLLOWING, End.INTERRUPTED),
    Step.CHECK_TARGET: Next(Step.REVERSE, End.REFUSED, End.REFUSED),
    Step.RECONSIDER: Next(Step.REVERSE, End.INTERRUPTED, Step.RELEASE),
    Step.REVERSE: Next(Step.HOLD, End.INTERRUPTED),
    Step.HOLD: Next(Step.RECHECK, End.INTERRUPTED),
    Step.RECHECK: Next(Step.VERIFY_BACK, End.INTERRUPTED, Step.REDO),
    Step.VERIFY_BACK: Next(Step.RESTORE, End.INTERRUPTED, Step.REDO),
    Step.RESTORE: Next(Step.RETURN, End.INTERRUPTED),
    Step.RETURN: Next(Step.LAST_CHECK, End.INTERRUPTED),
    Step.LAST_CHECK: Next(Step.REOPEN, End.INTERRUPTED, Step.REDO),
    Step.REOPEN: Next(End.UNDONE, End.INTERRUPTED),
    Step.REDO: Next(Step.RELEASE, End.INTERRUPTED),
    Step.COMPLETE: Next(End.COMPLETED, End.INTERRUPTED),
}

TIMED: Final = frozenset({Step.DRAIN, Step.VERIFY})
"""Steps during which the source is read-only, and the name still points to it."""


@dataclass(frozen=True, slots=True)
class SwitchOver:
    """One run of a command: its present step, and the reason of a failure."""

    at: Step | End
    timeout_s: float
    """Longest time from the fence until the flip begins, in seconds."""

    deadline_s: float | None = None
    """Time on the caller's clock; `None` before the fence."""

    failed_at: Step | None = None
    """The first step that did not succeed."""

    timed_out: bool = False

    def on(self, answer: Answer, now_s: float) -> SwitchOver:
        """Return the switch-over after the answer of its present step."""
        step = self.at
        assert isinstance(step, Step), "a command that ended has no answer"
        late = step in TIMED and self.deadline_s is not None and now_s > self.deadline_s
        if late:
            answer = Answer.FAILED
        following = TRANSITIONS[step].after(answer)
        if step is Step.FENCE and answer is Answer.DONE:
            return replace(self, at=following, deadline_s=now_s + self.timeout_s)
        if answer is Answer.DONE:
            return replace(self, at=following)
        return replace(self, at=following, failed_at=self.failed_at or step, timed_out=self.timed_out or late)


def begin(goal: Goal, mark: Mark | None, *, fenced: bool, timeout_s: float) -> SwitchOver:
    """Return a run of a command; the source's log decides where it starts.

    Args:
        goal: The request.
        mark: The mark in the source; `None` before the first one.
        fenced: True if a switch-over of this job has set a fence of the source.
        timeout_s: Longest time from the fence until the flip begins.
    """
    return SwitchOver(_start(goal, None if mark is None else mark.stage, fenced=fenced), timeout_s)


def _start(goal: Goal, stage: Stage | None, *, fenced: bool) -> Step | End:
    match goal, stage:
        case Goal.SWITCH, None:
            return Step.CHECK
        case Goal.SWITCH, "Flipping":
            return Step.RELEASE
        case Goal.SWITCH, "Switched":
            return End.SWITCHED
        case Goal.UNDO, None:
            return Step.GIVE_UP if fenced else End.NOTHING
        case Goal.UNDO, "Undoing":
            return Step.HOLD
        case Goal.UNDO, "Flipping":
            return Step.RECONSIDER  # both tables may be read-only: a refusal would leave them so
        case Goal.UNDO, _:
            return Step.CHECK_TARGET
        case Goal.COMPLETE, None:
            return End.NOTHING
        case Goal.COMPLETE, "Switched":
            return Step.COMPLETE
        case _:
            return End.REFUSED
