"""A driver that answers while its Java process or a commit hangs is not ready, and is replaced if it does not end by itself."""

from __future__ import annotations

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, after, checked, conditions, observed, reason, report, running, spec

from backfill_core.lifecycle.actions import DeletePod
from backfill_core.lifecycle.observation import Observation
from backfill_core.lifecycle.steps.running import STALLED_MS
from backfill_core.lifecycle.steps.step import STOP_GRACE_S
from backfill_core.pacing import barrier_pulse
from backfill_core.pacing.barrier_pulse import BarrierMark, BarrierPulse
from backfill_core.pacing.java_pulse import GIVEN_UP_S, JavaPulse
from backfill_core.protocol.strategy import JobWarning

[SILENT] = JavaPulse(silent_s=GIVEN_UP_S - 1).warnings
[STALLED] = BarrierPulse(silent_s=barrier_pulse.GIVEN_UP_S - 1, mark=BarrierMark(1, 2)).warnings


def hanging(warning: JobWarning) -> Observation:
    """Return a driver that warns so."""
    warned = report(warnings=(warning.message,), warning_codes=(warning.code,))
    return observed(status=STATUSES["running"], pods=(running(started=True),), report=warned)


class TestADriverWhoseJavaHangs:
    """Its control server answers, and its progress stands still: `Live`, no lag."""

    seen = hanging(SILENT)

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


class TestADriverThatCommitsNothing:
    """Its Java or a commit hangs."""

    def test_commit_that_hangs_is_in_the_status(self) -> None:
        """It was `Running`, and its barriers had stopped."""
        decision = checked(hanging(STALLED))

        assert reason(decision.status) == reason(decision.status, "DriverReady") == "CommitStalled"
        assert [(event.kind, event.reason) for event in decision.events] == [("Warning", "CommitStalled")]

    @pytest.mark.parametrize("warning", [SILENT, STALLED])
    def test_driver_that_does_not_end_is_deleted(self, warning: JobWarning) -> None:
        """It gets no time for a barrier that it cannot reach; its end is none of the job's failures."""
        seen = hanging(warning)
        told = checked(seen)
        patient = checked(after(seen, told), T0 + STALLED_MS - 1_000)
        impatient = checked(after(seen, told), T0 + STALLED_MS)
        missing = checked(after(seen, impatient, pods=(), report=None), T0 + STALLED_MS + 5_000)
        gone = after(seen, missing, pods=(), report=None, live=True, spec=spec(backoffLimit=0))
        over = checked(gone, T0 + STALLED_MS + 11_000)

        assert not any(isinstance(action, DeletePod) for action in patient.actions)
        assert patient.requeue_after_s is not None
        assert patient.requeue_after_s <= 1
        assert DeletePod("orders-1-driver", "pod-1", STOP_GRACE_S) in impatient.actions
        assert (over.status.failures, over.status.phase) == (0, "Retrying")

    def test_driver_that_commits_again_stays(self) -> None:
        """The store was away for a minute."""
        seen = hanging(STALLED)
        again = checked(after(seen, checked(seen), report=report()), T0 + STALLED_MS)

        assert reason(again.status) == "Running"
        assert not any(isinstance(action, DeletePod) for action in again.actions)
