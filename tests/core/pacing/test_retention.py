"""A warning before what is still needed is gone."""

import pytest
from support.simulation.hand_driven import WALL_MS, HandDriven

from backfill_core.pacing.retention import NEAR, warn
from backfill_core.protocol.commands import Throttle
from backfill_core.protocol.events import CommandReceived, Head, SourcePolled
from backfill_spark.delta.properties import DEFAULT_FILE_SECONDS, kept_seconds

DAY_MS = 86_400_000
LONG = [1_000_000] * 40


class TestTheRule:
    """Said when a fifth of the time is left, and never about a version that is the newest."""

    @pytest.mark.parametrize(("age", "said"), [(0.0, False), (NEAR, False), (NEAR + 0.01, True), (3.0, True)])
    def test_by_age(self, age, said):
        """In parts of the retention."""
        words = warn(4, WALL_MS, 9, 7 * 86_400, WALL_MS + round(age * 7 * DAY_MS))

        assert (words is not None) == said

    def test_it_names_the_version_the_ages_and_the_hint(self):
        """A user who reads it must be able to act."""
        words = warn(4, WALL_MS, 9, 7 * 86_400, WALL_MS + 6 * DAY_MS)

        for fact in ("version 4", "6 d old", "kept for 7 d", "delta.deletedFileRetentionDuration"):
            assert fact in words

    @pytest.mark.parametrize(("newest", "kept_s"), [(4, 60), (9, None)], ids=["newest", "unknown"])
    def test_what_is_not_in_danger(self, newest, kept_s):
        """Nothing of the newest version is removed; and without a figure nothing is said."""
        assert warn(4, 0, newest, kept_s, WALL_MS) is None


class TestARunningJobSaysIt:
    """With each look at the source, so that a retention raised meanwhile ends the warning."""

    def test_while_it_reads_history(self):
        """The pinned version is what it needs."""
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

    def test_at_the_start_when_a_limit_makes_it_last_too_long(self):
        """A plan says the same."""
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

    def test_not_once_it_has_caught_up(self):
        """Then it needs nothing that is old."""
        job = HandDriven(1000, follow=True)
        job.let_pass(1.2)
        job.finish_split()
        job.head = Head(3, WALL_MS, kept_s=1)
        job.let_pass(60.0)

        assert job.view.strategy.caught_up
        assert job.view.strategy.warnings == ()


class TestTheRetentionOfATable:
    """As Delta reads its properties."""

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
    def test_the_shorter_of_both(self, properties, seconds):
        """The job needs the files and the log."""
        assert kept_seconds(properties.get) == seconds
