"""An event says what happened in words: which attempt, which pod, by whose wish."""

from __future__ import annotations

from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, after, checked, observed, report, running, spec

from backfill_core.lifecycle.observation import LaunchFailed


def events_of(decision):
    """Return the events of a decision."""
    return [(event.kind, event.reason, event.message) for event in decision.events]


class TestTheEventsOfABackfill:
    """`Running: Running` had no information, and a launch or a full quota had no event."""

    def test_launch_is_told_once_with_attempt_and_pod(self) -> None:
        """The name leads to the log of the pod."""
        seen = observed()
        launched = checked(seen)

        assert events_of(launched) == [("Normal", "Launching", "attempt 1 is launched as pod orders-1-driver")]
        assert events_of(checked(after(seen, launched))) == []

    def test_running_driver_is_told_with_attempt_and_pod(self) -> None:
        """The reason alone is the name of the phase."""
        seen = observed(status=STATUSES["starting"], pods=(running(),), report=report())

        assert events_of(checked(seen)) == [
            ("Normal", "Running", "the driver of attempt 1 is ready: pod orders-1-driver")
        ]

    def test_pause_is_told_with_whose_wish_it_is(self) -> None:
        """The spec's, or that of a person who cannot change the spec."""
        paused = observed(
            spec=spec(desiredState="Paused"),
            status=STATUSES["running"],
            pods=(running(),),
            report=report(paused="History"),
        )

        assert events_of(checked(paused)) == [
            ("Normal", "AsRequested", "paused by the spec; the driver waits at a barrier")
        ]

    def test_full_quota_is_told_once(self) -> None:
        """It may last for hours: the conditions say so, too."""
        refused = LaunchFailed(1, T0, 403, "", "exceeded quota: compute")
        seen = observed()
        seen = after(seen, checked(seen), launch_failed=refused)
        first = checked(seen)

        assert [event[:2] for event in events_of(first)] == [("Warning", "QuotaExceeded")]
        assert "exceeded quota: compute" in events_of(first)[0][2]
        assert events_of(checked(after(seen, first, launch_failed=refused))) == []
