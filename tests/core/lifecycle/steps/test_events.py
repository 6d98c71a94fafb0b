"""Events describe what happened: which attempt, which pod, and who requested it."""

from __future__ import annotations

from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, after, checked, observed, report, running, spec

from backfill_core.lifecycle.observation import LaunchFailed


def events_of(decision):
    """Return the events of a decision."""
    return [(event.kind, event.reason, event.message) for event in decision.events]


class TestTheEventsOfABackfill:
    """Each event has information. `Running: Running` had none, and a launch or a full quota had no event."""

    def test_a_launch_is_reported_once_with_attempt_and_pod(self) -> None:
        """The name of the pod leads to its log."""
        seen = observed()
        launched = checked(seen)

        assert events_of(launched) == [("Normal", "Launching", "attempt 1 is launched as pod orders-1-driver")]
        assert events_of(checked(after(seen, launched))) == []

    def test_a_running_driver_is_reported_with_attempt_and_pod(self) -> None:
        """The reason only repeats the phase."""
        seen = observed(status=STATUSES["starting"], pods=(running(),), report=report())

        assert events_of(checked(seen)) == [
            ("Normal", "Running", "the driver of attempt 1 is ready: pod orders-1-driver")
        ]

    def test_a_pause_is_reported_with_its_origin(self) -> None:
        """A pause comes from the spec, or from a user who cannot change the spec."""
        paused = observed(
            spec=spec(desiredState="Paused"),
            status=STATUSES["running"],
            pods=(running(),),
            report=report(paused="History"),
        )

        assert events_of(checked(paused)) == [
            ("Normal", "AsRequested", "paused by the spec; the driver waits at a barrier")
        ]

    def test_a_full_quota_is_reported_once(self) -> None:
        """The quota may stay full for hours; the conditions report it too."""
        refused = LaunchFailed(1, T0, 403, "", "exceeded quota: compute")
        seen = observed()
        seen = after(seen, checked(seen), launch_failed=refused)
        first = checked(seen)

        assert [event[:2] for event in events_of(first)] == [("Warning", "QuotaExceeded")]
        assert "exceeded quota: compute" in events_of(first)[0][2]
        assert events_of(checked(after(seen, first, launch_failed=refused))) == []
