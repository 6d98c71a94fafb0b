"""A copy back shows its steps to the watch of Java: a commit that hangs is found, and slow steps are not taken for one."""

from contextlib import nullcontext

import pytest

from backfill_core.pacing.barrier_pulse import GIVEN_UP_S, LATE_S, BarrierPulse
from backfill_core.pacing.java_pulse import TICK_S
from backfill_spark.jvm.stop_signal import StoppedEarly, StopSignal
from backfill_spark.switch_over.copy_back import CopiedBack, follow
from backfill_spark.switch_over.watched_steps import STEP_S, WatchedSteps


def watched(steps, seconds, pulse=None):
    """Return the pulse after some seconds without another step."""
    pulse = pulse or BarrierPulse()
    for _ in range(int(seconds / TICK_S) + 1):
        pulse = pulse.passed(TICK_S, steps.mark)
    return pulse


class TestACommit:
    """The time of a step before it does not count."""

    def test_that_hangs_is_reported_and_given_up_as_one_of_a_driver(self):
        """The driver ends its Java, and the next attempt continues."""
        steps = WatchedSteps(lambda: None)
        before = watched(steps, STEP_S)
        with steps.committing(7, 0):
            began = watched(steps, LATE_S - 1, before)
            late, over = watched(steps, LATE_S, before), watched(steps, GIVEN_UP_S, before)

        assert (began.late, late.late, late.given_up, over.given_up) == (False, True, False, True)
        assert [warning.code for warning in late.warnings] == ["CommitStalled"]

    @pytest.mark.parametrize("error", [None, OSError])
    def test_that_ends_is_no_commit_in_flight_any_more(self, error):
        """Also after a failure, before the next try."""
        steps = WatchedSteps(lambda: None)
        with nullcontext() if error is None else pytest.raises(error), steps.committing(7, 0):
            hanging = watched(steps, GIVEN_UP_S)
            if error is not None:
                raise error

        assert not watched(steps, LATE_S, hanging).late


class TestAnyOtherStep:
    def test_may_take_minutes_and_is_then_reported_while_java_lives(self):
        """The read of a log does not commit, so the operator replaces the driver and Java is not ended."""
        steps = WatchedSteps(lambda: None)
        slow, hanging = watched(steps, LATE_S + STEP_S - TICK_S), watched(steps, LATE_S + STEP_S + 1)

        assert (slow.late, hanging.late, hanging.given_up) == (False, True, False)

    def test_begins_the_time_anew(self):
        """A copy of many files is one long step after the other."""
        steps = WatchedSteps(lambda: None)
        pulse = watched(steps, LATE_S + STEP_S + 1)
        steps.check()

        assert not pulse.passed(TICK_S, steps.mark).late


class Idle:
    """A copy back without anything to copy."""

    def __init__(self, stop, *, steps):
        self.left, self.stop = steps, stop
        self.steps = WatchedSteps(self.check)

    def check(self):
        self.left -= 1
        if self.left == 0:
            self.stop.ask(force=False)
        self.stop.check()

    def catch_up(self):
        return CopiedBack("/source", "/target", 3, 5, 0)

    def explained(self):
        return nullcontext()


class TestAnIdleCopyBack:
    def test_shows_a_step_often_and_stops_on_request(self):
        """A target without writers for a week is no driver that hangs."""
        back = Idle(StopSignal(), steps=4)
        with pytest.raises(StoppedEarly):
            follow(back, back)

        assert back.steps.mark.turns == 4
