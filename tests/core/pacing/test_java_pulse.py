"""A Java process that hangs is reported, fails the probe, and is ended; one that is only busy is not."""

import pytest

from backfill_core.pacing.java_pulse import GIVEN_UP_S, LATE_S, TICK_S, UNHEALTHY_S, JavaPulse


def silent(seconds, *, ours=True):
    """Return the pulse of a Java that has not answered for so long."""
    pulse = JavaPulse(ours=ours)
    for _ in range(int(seconds / TICK_S)):
        pulse = pulse.passed(TICK_S)
    return pulse


class TestJavaThatDoesNotAnswer:
    """Nothing else would tell: the control server answers without it."""

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
        """All within the three minutes after which the job must be at work again."""
        pulse = silent(seconds)

        assert (pulse.late, pulse.healthy, pulse.given_up) == (late, healthy, given_up)
        assert [warning.code for warning in pulse.warnings] == ["JavaSilent"] * late

    def test_an_answer_ends_the_silence(self):
        """As after a long collection of garbage."""
        pulse = silent(GIVEN_UP_S - 1).answered()

        assert pulse == JavaPulse()
        assert pulse.warnings == ()

    def test_a_machine_that_was_stopped_counts_little(self):
        """A laptop that slept for an hour has a Java that was asked nothing."""
        assert not silent(5).passed(3600.0).late

    def test_java_of_a_callers_session_is_never_ended(self):
        """Other work runs in it; the warning says what the caller can do."""
        pulse = silent(3600, ours=False)

        assert not pulse.given_up
        assert "end the process" in pulse.warnings[0].message
        assert "driver ends it" in silent(3600).warnings[0].message

    def test_the_message_stays_the_same_while_the_silence_lasts(self):
        """Each change of it would be a write to the API server."""
        assert silent(LATE_S).warnings == silent(GIVEN_UP_S).warnings
