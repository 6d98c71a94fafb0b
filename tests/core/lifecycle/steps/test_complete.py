"""A complete job shows 100 percent, whatever progress its last driver reported."""

from __future__ import annotations

from dataclasses import replace

from support.operators.lifecycle_space import STATUSES
from support.operators.observations import checked, ended, observed

from backfill_api.status.ending import Ending
from backfill_api.status.progress import ProgressSummary
from backfill_core.lifecycle.actions import Decision

RUNNING = STATUSES["running"]


def over(progress: ProgressSummary | None, ending: Ending) -> Decision:
    """Return the decision about an attempt that ended well, given the progress in the status."""
    status = RUNNING.model_copy(update={"progress": progress})
    return checked(observed(status=status, pods=(replace(ended(0), ending=ending),), live=True))


class TestADriverThatFindsItsJobComplete:
    """A driver of a complete job reads nothing and reports no progress, so `kubectl get` once showed an empty column
    (fault K15)."""

    def test_a_complete_job_shows_100_percent(self) -> None:
        """One example is a Backfill that was created again for a filled target."""
        shown = over(None, Ending(outcome="Complete", reason="AlreadyComplete")).status.progress

        assert shown is not None
        assert shown.percent == 100

    def test_a_complete_job_keeps_the_rows_of_an_earlier_attempt(self) -> None:
        """The status has more information than the last driver."""
        shown = over(ProgressSummary(percent=97, rows_done=33), Ending(outcome="Complete")).status.progress

        assert shown is not None
        assert (shown.percent, shown.rows_done) == (100, 33)

    def test_a_reported_progress_is_not_overruled(self) -> None:
        """The driver's final progress is exact."""
        last = ProgressSummary(percent=99, rows_done=12)
        shown = over(None, Ending(outcome="Complete", progress=last)).status.progress

        assert shown is not None
        assert (shown.percent, shown.rows_done) == (99, 12)
