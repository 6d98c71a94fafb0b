"""Garbage of earlier attempts is removed when that is safe and no other step waits for it."""

import logging
import threading
from dataclasses import replace

from support.simulation.hand_driven import HandDriven

from backfill_spark.driver.orphan_cleanup import WAITS_EPOCHS, OrphanRemoval

FENCED = replace(HandDriven(100).view, table_version=3, epoch=7)
BEFORE = replace(FENCED, table_version=-1)
ROWS = replace(FENCED, strategy=replace(FENCED.strategy, rows_done=1))
CHANGES = replace(FENCED, changes_done=1)


class Removals:
    """Counts the removals and signals the first one."""

    def __init__(self):
        self.count = 0
        self.seen = threading.Event()
        self.removal = OrphanRemoval(self)

    def __call__(self):
        self.count += 1
        self.seen.set()

    def after(self, *views):
        for view in views:
            self.removal.look(view)
        return self


class TestTheMoment:
    """Removal waits for the fence and then for the first rows, because a cold JVM has more urgent work."""

    def test_nothing_is_removed_before_the_fence(self):
        """An attempt that lost its job must not delete the winner's files."""
        removals = Removals().after(BEFORE, replace(BEFORE, epoch=99))
        removals.removal.finish()

        assert removals.count == 0

    def test_nothing_is_removed_at_the_fence(self):
        """The first second is reserved for the first rows."""
        removals = Removals().after(FENCED, replace(FENCED, epoch=FENCED.epoch + WAITS_EPOCHS - 1))

        assert not removals.removal.running
        assert removals.count == 0

    def test_the_first_seal_with_rows_or_changes_starts_the_removal(self):
        """The job then has time. The removal runs once."""
        for first in (ROWS, CHANGES):
            removals = Removals().after(FENCED, first, first)

            assert removals.seen.wait(10)
            removals.removal.finish()
            assert removals.count == 1

    def test_removal_starts_without_rows_too(self):
        """A paused job or a job with a silent source must not keep garbage forever."""
        removals = Removals().after(FENCED, replace(FENCED, epoch=FENCED.epoch + WAITS_EPOCHS))

        assert removals.seen.wait(10)

    def test_removal_starts_at_the_end_at_the_latest(self):
        """No later run removes the garbage of a complete job."""
        removals = Removals().after(FENCED)
        removals.removal.finish()

        assert removals.count == 1


class TestTheEnd:
    """A user who stops a job does not wait for its clean-up."""

    def test_a_stopped_job_does_not_wait_for_the_removal(self):
        """Listing a large folder may take minutes."""
        go = threading.Event()
        removal = OrphanRemoval(go.wait)
        removal.look(FENCED)
        removal.finish(until=lambda: True)

        assert removal.running
        go.set()


class TestAFailure:
    """A failed removal costs space and never the job."""

    def test_a_failed_removal_is_only_logged(self, caplog):
        """The remaining files cost space; a failed job costs the user a day."""

        def fail():
            raise OSError("storage is away")

        removal = OrphanRemoval(fail)
        with caplog.at_level(logging.WARNING):
            removal.look(FENCED)
            removal.finish()

        assert "storage is away" in caplog.text
