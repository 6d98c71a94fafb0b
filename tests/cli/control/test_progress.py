"""The core's view in the words that people and programs read."""

from dataclasses import replace

from support.simulation.hand_driven import HandDriven

from backfill_core.protocol.commands import Pause
from backfill_core.protocol.events import CommandReceived, StopRequested
from backfill_core.protocol.receipt import Receipt, VnodeMismatch
from backfill_core.protocol.strategy import JobWarning
from backfill_spark.control.wire import receipt_words
from backfill_spark.driver.progress import progress_of

LONG = [1_000_000] * 40


def shown(job):
    return progress_of(job.view, job.now)


class TestWhatIsShown:
    def test_when_the_newest_seal_was(self):
        """The age of a seal is the one alarm that every job needs."""
        job = HandDriven(*LONG)
        job.let_pass(1.5)
        job.finish_split()
        job.let_pass(1.0)

        assert shown(job).last_commit_time == "2023-11-14T22:13:22Z"

    def test_stopping_is_a_field(self):
        """A program must not read the reason's words."""
        job = HandDriven(*LONG)
        assert not shown(job).stopping
        job.send(StopRequested())

        assert shown(job).stopping

    def test_a_paused_job_has_no_eta(self):
        """A pause has no known end."""
        job = HandDriven(*LONG)
        job.let_pass(30.0, split_s=2.0)
        assert shown(job).eta is not None
        job.send(CommandReceived(1, 1, Pause()))
        job.let_pass(2.0)

        paused = shown(job)
        assert (paused.eta, paused.eta_seconds, paused.rows_per_second) == (None, None, 0)

    def test_when_a_receipt_was_taken(self):
        """A proof has a date; one of an older release may have none."""
        receipt = Receipt(3, 9, 12, 100, 256, "ab", (), 1.5, verified_ms=1_700_000_000_000)

        assert receipt_words(receipt).verified_at == "2023-11-14T22:13:20Z"
        assert receipt_words(Receipt(3, 9, 12, 100, 256, "ab", (), 1.5)).verified_at is None

    def test_a_changelog_that_lost_what_came(self):
        """Its removals are left, so that a vnode has fewer rows than none: a difference to be named, not an error of ours."""
        receipt = Receipt(3, 9, 12, 100, 256, "ab", (VnodeMismatch(7, 0, -2),), 1.5)

        assert receipt_words(receipt).mismatches[0].target_rows == -2

    def test_words_without_end_are_cut(self):
        """What a storage says may be a page; a look at the job must not end the job."""
        job = HandDriven(*LONG)
        view = replace(job.view, reason="x" * 5000, warnings=(JobWarning("ForeignCommits", "y" * 5000),))

        progress = progress_of(view, job.now)

        assert (len(progress.reason), len(progress.warnings[0])) == (4096, 4096)
        assert progress.warning_codes == ("ForeignCommits",)
