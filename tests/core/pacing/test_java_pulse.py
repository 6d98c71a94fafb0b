"""A Java process or a commit that hangs is reported, then ended; a busy, slow or paused one is not."""

from dataclasses import replace

import pytest

from backfill_core.pacing import barrier_pulse
from backfill_core.pacing.barrier_pulse import BarrierMark, BarrierPulse
from backfill_core.pacing.java_pulse import GIVEN_UP_S, LATE_S, TICK_S, UNHEALTHY_S, JavaPulse


def silent(seconds, *, ours=True):
    """Return the pulse of a Java process that has not responded for this time."""
    pulse = JavaPulse(ours=ours)
    for _ in range(int(seconds / TICK_S)):
        pulse = pulse.passed(TICK_S)
    return pulse


class TestJavaThatDoesNotAnswer:
    """Only this pulse detects it: the control server responds without Java."""

    @pytest.mark.parametrize(
        ("seconds", "late", "healthy", "given_up"),
        [
            (LATE_S - 1, False, True, False),
            (LATE_S, True, True, False),
            (UNHEALTHY_S, True, False, False),
            (GIVEN_UP_S - 1, True, False, False),
            (GIVEN_UP_S, True, False, True),
        ],
    )
    def test_silence_is_reported_then_fails_the_probe_then_ends_java(self, seconds, late, healthy, given_up):
        """All of this happens within the three minutes after which the job must work again."""
        pulse = silent(seconds)

        assert (pulse.late, pulse.healthy, pulse.given_up) == (late, healthy, given_up)
        assert [warning.code for warning in pulse.warnings] == ["JavaSilent"] * late

    def test_a_response_ends_the_silence(self):
        """This also happens after a long garbage collection."""
        pulse = silent(GIVEN_UP_S - 1).answered()

        assert pulse == JavaPulse()
        assert pulse.warnings == ()

    def test_a_suspended_machine_counts_little(self):
        """A laptop that slept for an hour has a Java process that received no call."""
        assert not silent(5).passed(3600.0).late

    def test_a_turn_may_have_more_time(self):
        """The read of a log of a million files takes minutes, and is no commit that hangs."""
        mark = BarrierMark(7, more_s=600)

        assert not replace(BarrierPulse(mark=mark), silent_s=barrier_pulse.LATE_S + 599).late
        assert replace(BarrierPulse(mark=mark), silent_s=barrier_pulse.LATE_S + 600).late

    def test_java_of_a_callers_session_is_never_ended(self):
        """Other work runs in it; the warning names the action for the caller."""
        pulse = silent(3600, ours=False)

        assert not pulse.given_up
        assert "end the process" in pulse.warnings[0].message
        assert "driver ends it" in silent(3600).warnings[0].message

    def test_the_message_stays_the_same_while_the_silence_lasts(self):
        """Each change of the message would be a write to the API server."""
        assert silent(LATE_S).warnings == silent(GIVEN_UP_S).warnings


def waited(seconds, *, epoch=7, files=0, ours=True, turns=True):
    """Return the pulse of a loop that has waited this long for the same commit."""
    pulse = BarrierPulse(ours=ours).passed(TICK_S, BarrierMark(0, epoch, files))
    for turn in range(int(seconds / TICK_S)):
        pulse = pulse.passed(TICK_S, BarrierMark(turn + 1 if turns else 0, epoch, files))
    return pulse


class TestACommitWithoutAnAnswer:
    """Java responds, but no barrier completes."""

    @pytest.mark.parametrize(
        ("seconds", "late", "given_up"),
        [
            (barrier_pulse.LATE_S - 2, False, False),
            (barrier_pulse.LATE_S, True, False),
            (barrier_pulse.GIVEN_UP_S - 2, True, False),
            (barrier_pulse.GIVEN_UP_S, True, True),
        ],
    )
    def test_a_hanging_commit_is_reported_and_then_java_is_ended(self, seconds, late, given_up):
        """The warning comes within one minute, and the next attempt works within three."""
        pulse = waited(seconds)

        assert (pulse.late, pulse.given_up) == (late, given_up)
        assert [warning.code for warning in pulse.warnings] == ["CommitStalled"] * late

    def test_a_commit_that_completes_ends_the_wait(self):
        """The next commit has its full time."""
        pulse = waited(barrier_pulse.GIVEN_UP_S - 2).passed(TICK_S, BarrierMark(999, 8))

        assert pulse.silent_s == 0
        assert pulse.warnings == ()

    def test_a_job_without_a_commit_in_flight_is_never_late(self):
        """The job is paused, or its source is idle."""
        assert not waited(3600, epoch=None).late

    def test_a_commit_of_many_files_has_more_time(self):
        """The check of 6,000 staged files takes ten minutes in a slow store, and must not restart forever."""
        assert not waited(barrier_pulse.GIVEN_UP_S + 60, files=600 * barrier_pulse.FILES_PER_S).late
        assert waited(barrier_pulse.GIVEN_UP_S + 601, files=600 * barrier_pulse.FILES_PER_S).given_up

    def test_java_of_a_callers_session_is_never_ended(self):
        """Other work runs in it; the warning names the action for the caller."""
        pulse = waited(3600, ours=False)

        assert not pulse.given_up
        assert "end the process" in pulse.warnings[0].message

    def test_the_message_stays_the_same_while_the_wait_lasts(self):
        """Each change of the message would be a write to the API server."""
        assert waited(barrier_pulse.LATE_S).warnings == waited(barrier_pulse.GIVEN_UP_S).warnings

    def test_a_suspended_machine_counts_little_for_a_commit(self):
        """A laptop slept in the middle of a commit."""
        assert not waited(5).passed(3600.0, BarrierMark(99, 7)).late


class TestALoopThatStandsStill:
    """A terminal blocks output, or a call into Java does not return."""

    def test_a_blocked_loop_is_reported_and_its_java_lives(self):
        """The user of a terminal can unblock it; on a cluster the operator replaces the driver."""
        pulse = waited(3600, epoch=None, turns=False)

        assert (pulse.late, pulse.given_up) == (True, False)

    def test_a_loop_that_continues_is_not_late(self):
        """The terminal accepts output again."""
        assert not waited(3600, epoch=None, turns=False).passed(TICK_S, BarrierMark(1)).late
