"""A driver that answers while its Java process hangs is not shown as ready."""

from __future__ import annotations

from support.operators.lifecycle_space import STATUSES
from support.operators.observations import after, checked, conditions, observed, reason, report, running

from backfill_core.pacing.java_pulse import GIVEN_UP_S, JavaPulse

[SILENT] = JavaPulse(silent_s=GIVEN_UP_S - 1).warnings


class TestADriverWhoseJavaHangs:
    """Its control server answers, and its progress stands still: `Live`, no lag."""

    seen = observed(
        status=STATUSES["running"],
        pods=(running(started=True),),
        report=report(warnings=(SILENT.message,), warning_codes=(SILENT.code,)),
    )

    def test_driver_is_not_ready_and_the_condition_says_why(self) -> None:
        """One event tells of it, too."""
        decision = checked(self.seen)

        assert reason(decision.status) == reason(decision.status, "DriverReady") == "JavaSilent"
        assert conditions(decision.status)["DriverReady"] == conditions(decision.status)["Ready"] == "False"
        assert [(event.kind, event.reason) for event in decision.events] == [("Warning", "JavaSilent")]
        assert decision.status.phase == "Running"

    def test_attempt_is_left_to_the_driver(self) -> None:
        """The driver ends its Java itself, and says so in its ending; a pod that is deleted could not."""
        decision = checked(self.seen)

        assert decision.status.attempt is not None
        assert decision.status.attempt.stop is None

    def test_driver_is_ready_again_once_java_answers(self) -> None:
        """As after a long collection of garbage."""
        decision = checked(after(self.seen, checked(self.seen), report=report()))

        assert reason(decision.status) == "Running"
        assert conditions(decision.status)["DriverReady"] == "True"
