"""A driver that responds while its Java process or a commit hangs is not ready; the operator replaces it if it does not
end by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, after, checked, conditions, observed, reason, report, running, spec
from support.operators.switched_world import copying_back

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
    """Return a driver that reports this warning."""
    warned = report(warnings=(warning.message,), warning_codes=(warning.code,))
    return observed(status=STATUSES["running"], pods=(running(started=True),), report=warned)


class TestADriverWhoseJavaHangs:
    """The control server responds and shows old progress: `Live`, no lag."""

    seen = hanging(SILENT)

    def test_the_driver_is_not_ready_and_the_condition_shows_the_reason(self) -> None:
        """One event reports it too."""
        decision = checked(self.seen)

        assert reason(decision.status) == reason(decision.status, "DriverReady") == "JavaSilent"
        assert conditions(decision.status)["DriverReady"] == conditions(decision.status)["Ready"] == "False"
        assert [(event.kind, event.reason) for event in decision.events] == [("Warning", "JavaSilent")]
        assert decision.status.phase == "Running"

    def test_the_driver_ends_its_attempt_itself(self) -> None:
        """The driver stops its own Java process and reports it in its ending; a deleted pod could not."""
        decision = checked(self.seen)

        assert decision.status.attempt is not None
        assert decision.status.attempt.stop is None

    def test_the_driver_is_ready_again_once_java_responds(self) -> None:
        """This also happens after a long garbage collection."""
        decision = checked(after(self.seen, checked(self.seen), report=report()))

        assert reason(decision.status) == "Running"
        assert conditions(decision.status)["DriverReady"] == "True"


class TestADriverThatCommitsNothing:
    """The Java process or a commit of the driver hangs."""

    def test_a_hanging_commit_is_in_the_status(self) -> None:
        """The status was once `Running`, although no barrier completed."""
        decision = checked(hanging(STALLED))

        assert reason(decision.status) == reason(decision.status, "DriverReady") == "CommitStalled"
        assert [(event.kind, event.reason) for event in decision.events] == [("Warning", "CommitStalled")]

    @pytest.mark.parametrize("warning", [SILENT, STALLED])
    def test_a_driver_that_does_not_end_is_deleted(self, warning: JobWarning) -> None:
        """The driver gets no time for a barrier that it cannot reach, and its end does not count as a failure of the
        job."""
        seen = hanging(warning)
        warned = checked(seen)
        patient = checked(after(seen, warned), T0 + STALLED_MS - 1_000)
        impatient = checked(after(seen, warned), T0 + STALLED_MS)
        missing = checked(after(seen, impatient, pods=(), report=None), T0 + STALLED_MS + 5_000)
        gone = after(seen, missing, pods=(), report=None, live=True, spec=spec(backoffLimit=0))
        over = checked(gone, T0 + STALLED_MS + 11_000)

        assert not any(isinstance(action, DeletePod) for action in patient.actions)
        assert patient.requeue_after_s is not None
        assert patient.requeue_after_s <= 1
        assert DeletePod("orders-1-driver", "pod-1", STOP_GRACE_S) in impatient.actions
        assert (over.status.failures, over.status.phase) == (0, "Retrying")

    @pytest.mark.parametrize("warning", [SILENT, STALLED])
    def test_an_attempt_that_copies_back_is_replaced_too(self, warning: JobWarning) -> None:
        """It runs for weeks after a switch-over, without a user who looks at it."""
        rests, begun = copying_back()
        warned = report(3, table_version=None, warnings=(warning.message,), warning_codes=(warning.code,))
        works = replace(warned, heard_ms=T0)
        hangs = after(rests, begun, pods=(replace(running(3), ready=False),), report=works)
        seen = checked(hangs)
        later = replace(works, heard_ms=T0 + STALLED_MS)
        impatient = checked(after(hangs, seen, report=later), T0 + STALLED_MS)

        assert reason(seen.status) == reason(seen.status, "DriverReady") == warning.code
        assert DeletePod("orders-3-driver", "pod-3", STOP_GRACE_S) in impatient.actions

    def test_a_driver_that_commits_again_stays(self) -> None:
        """The store was unavailable for a minute."""
        seen = hanging(STALLED)
        again = checked(after(seen, checked(seen), report=report()), T0 + STALLED_MS)

        assert reason(again.status) == "Running"
        assert not any(isinstance(action, DeletePod) for action in again.actions)
