"""Edge cases of the snapshot strategy, driven by hand."""

import pytest

from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import BarrierPassed, Head, LimitSet, Sealed, SourcePolled, WorkFinished
from backfill_core.protocol.strategy import Opened, Permits, Pinned
from backfill_core.protocol.work import ChangesApplied, SplitStaged, StagedFile
from backfill_core.strategies.snapshot.params import SnapshotSettings
from backfill_core.strategies.snapshot.strategy import snapshot

EPOCH = Epoch(1, 1)
OPEN = Permits(history=True, changes=True, checks=True, epoch=EPOCH, first_id=1)
NOW = Now(1.0, 1000)
SEALED = Sealed(1, 1, 0.1)


def strategy(*rows, rate=None, merges=True):
    """Return a strategy at a barrier."""
    opened = Opened(Pinned(3, 0, "t", "f", rows, sum(rows)))
    made = snapshot(opened, SnapshotSettings(merges=merges, filtered=False))
    made.on(LimitSet(rate, 1.0), NOW)
    made.on(BarrierPassed(EPOCH, scheduled=True), NOW)
    return made


class TestNothingPending:
    """R-SNAP-32: with nothing pending after the snapshot the log phase is skipped."""

    def test_an_empty_source_is_complete_after_one_poll_and_one_seal(self):
        """A job with an empty table must end too."""
        empty = strategy()
        empty.on(SourcePolled(Head(3, 0), fresh=True), NOW)
        work = empty.propose(OPEN, NOW)
        commit = empty.prepare_commit(EPOCH, OPEN, NOW)
        empty.on(SEALED, NOW)

        assert work == ()
        assert (commit.files, commit.changed) == ((), True)
        assert empty.status.complete
        assert empty.stored.phase == "Live"

    def test_a_poll_before_the_phase_does_not_end_the_job(self):
        """R-SNAP-29: the job ends only when nothing is pending, and only a new poll shows that."""
        empty = strategy()
        empty.on(SourcePolled(Head(3, 0), fresh=False), NOW)
        empty.prepare_commit(EPOCH, OPEN, NOW)
        empty.on(SEALED, NOW)

        assert not empty.status.complete

    def test_a_batch_that_begins_before_the_last_rows_are_durable_does_not_end_the_catch_up(self):
        """R-SNAP-29: a commit that was retried for seconds is late, and the source has newer versions by then."""
        made = strategy(10, merges=False)
        (split,) = made.propose(OPEN, NOW)
        made.on(WorkFinished(SplitStaged(split.work_id, (StagedFile("a", 1, 10),))), NOW)
        made.prepare_commit(EPOCH, OPEN, NOW)
        made.on(SourcePolled(Head(5, 0), fresh=True), NOW)
        (work,) = made.propose(OPEN, NOW)
        made.on(SEALED, NOW)
        made.on(WorkFinished(ChangesApplied(work.work_id, 1)), NOW)
        made.prepare_commit(EPOCH.after(), OPEN, NOW)
        made.on(SEALED, NOW)
        early = made.status.caught_up
        made.on(SourcePolled(Head(5, 0), fresh=True), NOW)
        made.propose(OPEN, NOW)

        assert not early
        assert made.status.caught_up


class TestWorkInFlightIsBounded:
    """A barrier never waits behind a queue of splits."""

    def test_two_splits_run_at_a_time(self):
        """R-SNAP-40: more splits would delay a pause, and fewer would leave cores idle."""
        busy = strategy(*[100_000] * 50)

        assert [split.work_id for split in busy.propose(OPEN, NOW)] == [1, 2]
        assert busy.propose(OPEN, NOW) == ()

    @pytest.mark.parametrize(
        ("rate", "ranges"), [(1, 1), (1000, 1), (50_000, 1), (99_999, 1), (100_000, 2), (500_000, 2)]
    )
    def test_a_small_quota_is_one_sub_file_range(self, rate, ranges):
        """Each range reads its whole file, so cutting 50,000 rows in two doubles the read."""
        work = strategy(*[6_250_000] * 64, rate=rate).propose(OPEN, NOW)

        assert [split.stop - split.start for split in work] == [rate // ranges] * ranges
        assert all(len(split.segments) == 1 for split in work)

    def test_a_limit_admits_its_quota_only_at_scheduled_barriers(self):
        """An early commit for a command must not admit the rows of another second."""
        limited = strategy(3_125_000, rate=1000)
        limited.propose(OPEN, NOW)
        later = Now(2.0, 2000)
        limited.on(BarrierPassed(EPOCH.after(), scheduled=False), later)

        assert limited.propose(OPEN, later) == ()

    def test_no_work_starts_without_a_permit(self):
        """A paused job must not begin new reads."""
        shut = Permits(history=False, changes=False, checks=False, epoch=EPOCH, first_id=1)

        assert strategy(10).propose(shut, NOW) == ()
