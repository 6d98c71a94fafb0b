"""A warning before the source deletes versions that the job still needs."""

import pytest
from support.simulation.hand_driven import WALL_MS, HandDriven

from backfill_core.pacing.retention import NEAR, warn
from backfill_core.protocol.commands import Throttle
from backfill_core.protocol.events import CommandReceived, Head, SourcePolled
from backfill_spark.delta.properties import DEFAULT_FILE_SECONDS, kept_seconds

DAY_MS = 86_400_000
LONG = [1_000_000] * 40


class TestTheRule:
    """The warning comes when a fifth of the time is left, and never for the newest version."""

    @pytest.mark.parametrize(("age", "warned"), [(0.0, False), (NEAR, False), (NEAR + 0.01, True), (3.0, True)])
    def test_a_version_near_its_retention_causes_a_warning(self, age, warned):
        """The age is given in parts of the retention."""
        message = warn(4, WALL_MS, 9, 7 * 86_400, WALL_MS + round(age * 7 * DAY_MS))

        assert (message is not None) == warned

    def test_the_warning_names_the_version_the_ages_and_the_hint(self):
        """A user who reads it must be able to act."""
        message = warn(4, WALL_MS, 9, 7 * 86_400, WALL_MS + 6 * DAY_MS)

        for fact in ("version 4", "6 d old", "kept for 7 d", "delta.deletedFileRetentionDuration"):
            assert fact in message

    @pytest.mark.parametrize(("newest", "kept_s"), [(4, 60), (9, None)], ids=["newest", "unknown"])
    def test_a_version_in_no_danger_causes_no_warning(self, newest, kept_s):
        """The newest version is never deleted, and an unknown retention causes no warning."""
        assert warn(4, 0, newest, kept_s, WALL_MS) is None


class TestARunningJobSaysIt:
    """Each poll of the source updates the warning, so that a longer retention ends it."""

    def test_a_job_warns_while_it_reads_history(self):
        """The job needs the pinned version."""
        job = HandDriven(*LONG)
        job.let_pass(1.0)
        assert job.view.strategy.warnings == ()
        job.head = Head(5, WALL_MS, kept_s=20)
        job.let_pass(20.0, split_s=2.0)

        (warning,) = job.view.strategy.warnings
        assert warning.code == "RetentionEnding"
        assert "version 3 of the source is still needed" in warning.message
        job.send(SourcePolled(Head(5, WALL_MS, kept_s=86_400)))
        assert job.view.strategy.warnings == ()

    def test_a_job_warns_at_the_start_when_a_limit_makes_it_last_too_long(self):
        """A plan gives the same warning."""
        job = HandDriven(*LONG)
        job.head = Head(3, WALL_MS, kept_s=7 * 86_400)
        job.send(CommandReceived(1, 1, Throttle(100)))
        job.let_pass(2.5)

        (warning,) = job.view.strategy.warnings
        assert warning.code == "RetentionShort"
        assert "kept for" not in warning.message
        assert "4 d 15 h more" in warning.message
        job.send(CommandReceived(1, 2, Throttle(1_000_000)))
        job.let_pass(1.5)
        assert job.view.strategy.warnings == ()

    def test_a_caught_up_job_does_not_warn(self):
        """A caught-up job needs no old version."""
        job = HandDriven(1000, follow=True)
        job.let_pass(1.2)
        job.finish_split()
        job.head = Head(3, WALL_MS, kept_s=1)
        job.let_pass(60.0)

        assert job.view.strategy.caught_up
        assert job.view.strategy.warnings == ()


class TestTheRetentionOfATable:
    """Delta's rules for these properties apply."""

    @pytest.mark.parametrize(
        ("properties", "seconds"),
        [
            ({}, DEFAULT_FILE_SECONDS),
            ({"delta.logRetentionDuration": "interval 2 days"}, 2 * 86_400),
            ({"delta.deletedFileRetentionDuration": "INTERVAL 12 HOURS"}, 43_200),
            ({"delta.deletedFileRetentionDuration": "interval 1 week 30 minutes"}, 606_600),
            ({"delta.logRetentionDuration": "interval 9 days", "delta.deletedFileRetentionDuration": "interval 90 days"},
             9 * 86_400),
            ({"delta.logRetentionDuration": "for ever"}, DEFAULT_FILE_SECONDS),
        ],
    )  # fmt: skip
    def test_the_retention_is_the_shorter_of_both(self, properties, seconds):
        """The job needs the files and the log."""
        assert kept_seconds(properties.get) == seconds
