"""Numbers that people act on: each follows its definition in the core, whatever happens to the job."""

from hypothesis import given
from hypothesis import strategies as st
from support.simulation.hand_driven import WALL_MS, HandDriven

from backfill_core.job.controls import Controls
from backfill_core.protocol.commands import Throttle
from backfill_core.protocol.events import CommandReceived, Head, SourcePolled, WorkFinished
from backfill_core.protocol.work import SplitStaged, StagedFile
from backfill_spark.driver.progress import progress_of


def shown(job):
    return progress_of(job.view, job.now)


class TestACopyWithoutALimit:
    """Whole files are read, so the first commits are seconds apart, and a rate is known after two of them (fault U3)."""

    def test_has_a_time_left_before_its_first_commit(self):
        """By the guess of the plan: three million rows are not a second, nor an hour."""
        job = HandDriven(*[1_000_000] * 3)
        job.let_pass(2.0)

        assert not any(rows for _, rows in job.sealed)
        assert 1 <= shown(job).eta_seconds <= 60
        assert shown(job).eta_seconds_low < shown(job).eta_seconds < shown(job).eta_seconds_high

    def test_shows_the_rows_of_its_first_commit_in_its_percent(self):
        """A third of the rows is not 0 percent."""
        job = HandDriven(*[1_000_000] * 3)
        job.let_pass(9.0)
        job.finish_split()
        job.let_pass(2.0)

        assert shown(job).rows_done == 1_000_000
        assert shown(job).percent >= 20


def lifted(*, kept_s=None):
    """Let ten rows a second be read slowly, lift the limit, and yield the job each second while the quotas of before are committed."""
    job = HandDriven(*[1_000_000] * 20, controls=Controls(rows_per_s=10))
    job.head = Head(4, WALL_MS, kept_s=kept_s)
    job.let_pass(4.5)
    begun = len(job.running)
    job.send(CommandReceived(1, 1, Throttle(None)))
    job.let_pass(1.0)
    for _ in range(begun):
        job.finish_split()
        job.let_pass(1.0)
        yield job
    for _ in range(10):
        job.let_pass(1.0, split_s=1.0)
        yield job


class TestARateOfAnotherLimit:
    """Rows that were begun under one limit say nothing of the pace under the next (fault U4)."""

    def test_is_forgotten_with_the_rows_that_are_committed_late(self):
        """Ten rows a second, then none: quotas were committed seconds later, and a copy of seconds was to take days."""
        etas = [shown(job).eta_seconds for job in lifted()]

        assert max(eta for eta in etas if eta is not None) < 600
        assert etas[-1] is not None

    def test_warns_of_no_retention(self):
        """A retention of hours is enough for a copy of seconds."""
        assert [[warning.code for warning in job.view.warnings] for job in lifted(kept_s=4 * 3600)] == [[]] * 14
