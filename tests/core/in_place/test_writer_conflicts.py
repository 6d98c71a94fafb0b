"""Transactions of writers that may have failed because of a job, and the distance of its commits."""

from backfill_core.in_place.conflicts import ForeignChanges
from backfill_core.in_place.writer_conflicts import WriterConflicts
from backfill_core.job.state import JobState
from backfill_core.log_shipping.actions import FileAdded, FileRemoved
from backfill_core.strategies.in_place.stored import InPlaceStored, decode, summarize
from backfill_spark.driver.progress import progress_of_state


def rewritten(*read):
    """Return foreign changes with a rewrite for each version that its transaction had read."""
    changes = ForeignChanges()
    for version in read:
        changes = changes.after([FileRemoved("x", True)], read=version)
    return changes


class TestAFailedTransaction:
    """It is not in the log, so each commit of the job counts as one if writers rewrite files after it."""

    def test_is_counted_once_for_a_commit_that_rewrites_follow(self):
        """The retry of a failed transaction reads the job's commit, as a new transaction does."""
        counts = WriterConflicts(2).after(ForeignChanges(), 10).after(rewritten(10, 11), 13)

        assert (counts.failed, counts.rewrites, counts.committed) == (1, 2, 13)

    def test_is_not_counted_if_a_transaction_in_flight_passed(self):
        """Delta checked it against the job's commit, and found no conflict."""
        counts = WriterConflicts(2).after(ForeignChanges(), 10).after(rewritten(9, 11), 13)

        assert (counts.failed, counts.rewrites) == (0, 2)

    def test_is_counted_if_the_log_does_not_name_the_version_that_was_read(self):
        """Commits of delta-rs do not."""
        assert WriterConflicts(2).after(ForeignChanges(), 10).after(rewritten(None), 12).failed == 1

    def test_is_not_counted_without_a_rewrite(self):
        """Appends never conflict; what they had read does not matter."""
        appended = ForeignChanges().after([FileAdded("y", 1, 1, True, None, "{}")], read=3)
        counts = WriterConflicts(2).after(ForeignChanges(), 10).after(appended, None)

        assert (counts.failed, counts.rewrites, counts.committed) == (0, 0, 10)
        assert appended.oldest_read is None

    def test_is_not_counted_for_a_commit_that_replaced_nothing(self):
        """All of its files were lost, so it conflicts with no writer."""
        counts = WriterConflicts(2).after(ForeignChanges(), None).after(rewritten(10), 12)

        assert (counts.failed, counts.committed) == (0, 12)


class TestTheDistance:
    """The limit of a job is a share of the transactions of writers."""

    def test_has_the_rewrites_of_the_limit(self):
        """One of 50 is 2 percent, one of 3 at most 40."""
        waits = {percent: WriterConflicts(percent, committed=1).rewrites_to_wait for percent in (1, 2, 40, 100)}

        assert waits == {1: 100, 2: 50, 40: 3, 100: 1}

    def test_is_longer_after_commits_that_came_too_early(self):
        """A pause, or writers that became slower, made three commits meet 60 rewrites; the fourth waits for 140 more."""
        counts = WriterConflicts(2, rewrites=60, failed=3, committed=9)

        assert counts.rewrites_to_wait == 140
        assert counts.percent == 100 * 3 / 63

    def test_is_never_shorter_because_of_earlier_rewrites(self):
        """Otherwise a long quiet time would allow many commits at once."""
        assert WriterConflicts(2, rewrites=10_000, failed=0, committed=9).rewrites_to_wait == 50

    def test_follows_the_newest_rate_of_writers(self):
        """A job does not wait for writers that do not write."""
        counts = WriterConflicts(2, committed=9)

        assert [counts.distance_ms(rewrites, 10_000) for rewrites in (0, 1, 10)] == [0, 500_000, 50_000]


class TestAStoppedJob:
    def test_status_without_a_driver_shows_the_transactions_that_writers_lost(self):
        """The count was shown only while a driver ran."""
        stored = InPlaceStored("t", 3, ("c",), None, 100, 40, 2, writer_rewrites=9, writer_conflicts=4)
        state = JobState("a/b", "h", 1, 7, "InPlace", stored.encode(), 5, 10, 2, 3)

        assert progress_of_state(state, summarize(decode(stored.encode())), str).writer_conflicts == 4
