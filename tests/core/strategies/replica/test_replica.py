"""Replica by hand: commits that precede log shipping, and the content of a commit of a batch."""

from dataclasses import replace

import pytest
from support.replica.by_hand import ByHand, pinned

from backfill_core.errors import SourceReplacedError, StateMismatchError
from backfill_core.phases.copied_state import open_request, summarize
from backfill_core.protocol.events import BarrierPassed, LimitSet, WorkLost
from backfill_core.protocol.strategy import PinVersion
from backfill_core.protocol.work import NewColumns, ReadSplit, RemovedFile, ShipVersions, StagedFile
from backfill_core.strategies.replica.stored import decode


class TestTheFirstBatch:
    """A version may remove a file that history adds."""

    def test_the_first_batch_waits_for_the_commit_of_the_last_split(self):
        """Staged files are in no version of the target, so no file name is found there."""
        attempt = ByHand(10, 10).copy_all()
        attempt.poll(5)
        assert attempt.propose() == ()

        attempt.seal()
        attempt.poll(5)

        assert [(work.after, work.upto) for work in attempt.propose()] == [(3, 5)]

    def test_the_first_batch_is_not_planned_by_an_earlier_poll(self):
        """R-SNAP-29: a version that was polled before the commit may not be the newest any more."""
        attempt = ByHand(10).copy_all().seal()
        assert attempt.propose() == ()

    def test_the_first_batch_comes_at_once_with_an_empty_source(self):
        """There is no row to copy and no commit of rows."""
        attempt = ByHand()
        attempt.poll(4)
        attempt.prepare()
        attempt.seal()
        assert attempt.propose() == (ShipVersions(1, 3, 4, 2, 1 << 30),)


class TestALimit:
    """A limit applies to history: a part of a file would be a separate file that no name finds again."""

    def test_a_limit_admits_a_file_when_no_row_is_owed(self):
        """At 100 rows per second, a file of 1,000 rows takes ten seconds."""
        attempt = ByHand(1000, 1000)
        attempt.on(LimitSet(100, 1.1))

        def starts(at_s):
            attempt.now = replace(attempt.now, mono_s=at_s)
            attempt.on(BarrierPassed(attempt.epoch, scheduled=True))
            return [(work.start, work.stop) for work in attempt.propose()]

        assert [starts(at_s) for at_s in (0.0, 1.0, 9.0)] == [[(0, 1000)], [], []]
        assert starts(11.0) == [(1000, 2000)]

    def test_a_limit_cuts_no_file_that_is_read_ahead(self):
        """Other strategies read ahead and commit in parts from 100,000 rows per second on."""
        attempt = ByHand(400_000, 400_000)
        attempt.on(LimitSet(150_000, 1.1))
        attempt.on(BarrierPassed(attempt.epoch, scheduled=True))
        assert [(work.start, work.stop, work.boundaries) for work in attempt.propose()] == [(0, 400_000, ())]


class TestABatch:
    """Batches are shipped whole, one after the other."""

    def test_a_batch_is_committed_at_once_with_its_version(self):
        """The lag is counted from this version."""
        attempt = ByHand(10).live()
        work = attempt.ship(7)
        files, removed = (StagedFile("w-1", 8, 4),), (RemovedFile("w-0"),)

        attempt.shipped(work, files=files, removed=removed, changes=5)

        assert attempt.strategy.status.wants_commit
        request = attempt.prepare()
        assert (request.files, request.removed, request.changes) == (files, removed, 5)
        assert attempt.strategy.stored.consumed == 7

    def test_a_batch_without_rows_is_committed_too(self):
        """The source must not keep versions without rows (R-SNAP-22)."""
        attempt = ByHand(10).live()
        attempt.shipped(attempt.ship(7))
        assert attempt.prepare().changed

    def test_a_batch_has_no_successor_until_it_is_durable(self):
        """The next batch finds its files in a version that includes the files of this one."""
        attempt = ByHand(10, follow=True).live()
        attempt.shipped(attempt.ship(7))
        attempt.prepare()
        attempt.poll(9)
        assert attempt.propose() == ()

        attempt.seal()

        assert [(work.after, work.upto) for work in attempt.propose()] == [(7, 9)]

    def test_a_batch_may_end_early(self):
        """A version with too many bytes begins a separate batch."""
        attempt = ByHand(10).live()
        attempt.shipped(attempt.ship(9), upto=5)
        attempt.prepare()
        attempt.seal()
        assert not attempt.strategy.status.caught_up
        assert [(work.after, work.upto) for work in attempt.propose()] == [(5, 9)]

    def test_a_lost_batch_is_repeated(self):
        """The batch only staged files: the target has none of them."""
        attempt = ByHand(10).live()
        work = attempt.ship(7)
        attempt.on(WorkLost(work.work_id))
        (again,) = attempt.propose()
        assert (again.after, again.upto) == (3, 7)

    def test_a_batch_waits_in_a_pause_of_everything(self):
        """A paused standby ships nothing."""
        attempt = ByHand(10).live()
        attempt.poll(7)
        assert attempt.propose(changes=False) == ()

    def test_a_batch_is_not_limited(self):
        """A limit applies to history, because a standby must not lag."""
        attempt = ByHand(10).live()
        attempt.on(LimitSet(0, 1.0))
        attempt.poll(7)
        assert len(attempt.propose()) == 1

    def test_a_batch_replaces_a_file_without_counting_its_bytes(self):
        """A vector is another entry for an existing file."""
        attempt = ByHand(10).live()
        same, new = StagedFile("w-0", 100, 9), StagedFile("w-1", 8, 1)
        attempt.shipped(attempt.ship(4), files=(same, new), removed=(RemovedFile("w-0"),))
        assert attempt.prepare().bytes == 8


class TestTheEnd:
    """`Exit` ends at the newest version, `Follow` never."""

    def test_the_end_is_reached_with_the_commit_of_the_last_batch(self):
        """R-SNAP-31: no work is left, and the next commit would add nothing."""
        attempt = ByHand(10).live()
        attempt.shipped(attempt.ship(7))
        attempt.prepare()
        assert not attempt.strategy.status.complete
        attempt.seal()
        assert attempt.strategy.status.complete

    def test_the_end_is_reached_when_nothing_was_pending(self):
        """R-SNAP-32: the source is quiet."""
        attempt = ByHand(10).live()
        attempt.poll(3)
        assert attempt.propose() == ()
        attempt.prepare()
        attempt.seal()
        assert attempt.strategy.status.complete

    def test_a_standby_never_ends(self):
        """It ships all further versions."""
        attempt = ByHand(10, follow=True).live()
        for version in (4, 5):
            attempt.shipped(attempt.ship(version))
            attempt.prepare()
            attempt.seal()
        assert attempt.strategy.status.caught_up
        assert not attempt.strategy.status.complete


class TestARestart:
    """A restart only depends on the state that a commit stored."""

    def test_a_restart_ships_the_versions_after_the_stored_one(self):
        """No version is shipped twice, and none is left out."""
        attempt = ByHand(10).live()
        attempt.shipped(attempt.ship(7))
        attempt.prepare()
        stored = decode(attempt.strategy.stored.encode())

        other = ByHand(10, stored=stored)
        other.poll(9)
        assert other.strategy.status.wants_announcement
        other.prepare()
        other.seal()

        assert [(work.after, work.upto) for work in other.propose()] == [(7, 9)]

    def test_a_restart_copies_the_rest_of_history(self):
        """R-SNAP-37: committed rows are not read again."""
        attempt = ByHand(300_000, 300_000)
        first, *_ = attempt.propose()
        attempt.staged(first)
        attempt.prepare()

        other = ByHand(300_000, 300_000, stored=decode(attempt.strategy.stored.encode()))

        assert all(isinstance(work, ReadSplit) and work.start >= first.stop for work in other.propose())

    def test_a_restart_needs_the_pinned_version_only_while_its_rows_are_missing(self):
        """A VACUUM of the source may remove it later; the log after the shipped version must exist."""
        attempt = ByHand(10)
        half = attempt.strategy.stored
        attempt.live()
        attempt.shipped(attempt.ship(7))
        attempt.prepare()
        assert open_request(None) == PinVersion()
        assert open_request(half) == PinVersion(3, None, "table")
        assert open_request(attempt.strategy.stored) == PinVersion(3, 7, "table")

    def test_a_restart_refuses_other_files_under_the_pinned_version(self):
        """Their names differ."""
        stored = ByHand(10).strategy.stored
        with pytest.raises(StateMismatchError, match="differ from those at the start of the job"):
            ByHand(10, pinned=replace(pinned(10), fingerprint="other"), stored=stored)

    @pytest.mark.parametrize("value", [2, "7", None, True])
    def test_a_restart_refuses_an_impossible_shipped_version(self, value):
        """A user or a future release may have written the state."""
        stored = {**ByHand(10).strategy.stored.encode(), "shipped": value}
        with pytest.raises(StateMismatchError, match=r"replica\.shipped"):
            decode(stored)


class TestOtherColumns:
    """A batch that changes columns is the last one of its attempt."""

    def followed(self):
        attempt = ByHand(10).live()
        columns = NewColumns('{"type":"struct","fields":[]}', 3)
        attempt.shipped(attempt.ship(7), upto=5, columns=columns)
        return attempt, columns

    def test_new_columns_are_in_the_commit_of_their_files(self):
        """A second commit of the columns would revert changes in between."""
        attempt, columns = self.followed()
        requests = [attempt.prepare(), attempt.seal().prepare()]
        assert [request.columns for request in requests] == [columns, None]

    def test_the_next_attempt_reads_the_version_of_the_new_columns(self):
        """The pinned version has the old columns, which no longer fit the target."""
        attempt, _ = self.followed()
        assert attempt.strategy.stored.reopened_at is None
        attempt.prepare()
        stored = decode(attempt.strategy.stored.encode())
        assert (stored.consumed, stored.reopened_at) == (5, 5)
        assert open_request(stored) == PinVersion(5, None, "table")

        later_version = replace(pinned(3, 4), version=5, fingerprint="later")
        other = ByHand(pinned=later_version, stored=stored)
        assert other.strategy.stored == stored
        other.poll(7)
        other.prepare()
        other.seal()
        other.poll(7)
        assert [(work.after, work.upto) for work in other.propose()] == [(5, 7)]

    def test_that_the_job_does_not_read_lay_nothing_out(self):
        """The next attempt reads the version that this one does."""
        one = ByHand(10).live()
        wider = NewColumns("{}", reopens=False)
        one.shipped(one.ship(7), upto=5, columns=wider)

        assert one.prepare().columns == wider
        assert one.strategy.stored.reopened_at is None

    def test_new_columns_of_another_table_at_the_same_path_are_refused(self):
        """The version with this number has other rows."""
        attempt, _ = self.followed()
        attempt.prepare()
        other_table = replace(pinned(3), version=5, table_id="other")
        with pytest.raises(SourceReplacedError, match="version 3 was pinned"):
            ByHand(pinned=other_table, stored=attempt.strategy.stored)

    @pytest.mark.parametrize("value", [3, 6, "5", True])
    def test_new_columns_of_an_impossible_version_are_refused(self, value):
        """A user may have written the state."""
        attempt, _ = self.followed()
        attempt.prepare()
        with pytest.raises(StateMismatchError, match=r"replica\.laidOut"):
            decode({**attempt.strategy.stored.encode(), "laidOut": value})


class TestTheState:
    """A state has at most 64 KiB, for any number of files."""

    def test_the_state_is_small_at_a_hundred_thousand_files(self):
        """Every other file is done, which is the worst case of intervals."""
        attempt = ByHand(*[1] * 100_000)
        copy = attempt.strategy._machine.copy  # noqa: SLF001 - thousands of splits would take minutes
        for start in range(0, 100_000, 2):
            copy.prepared = copy.prepared.add(start, start + 1) if start < 6000 else copy.prepared
        assert len(str(attempt.strategy.stored.encode())) < 48 * 1024

    def test_the_summary_shows_the_progress(self):
        """`backfill status` reads it while no driver runs."""
        attempt = ByHand(10)
        assert summarize(attempt.strategy.stored).phase == "Snapshot"
        assert summarize(attempt.live().strategy.stored).phase == "CatchUp"
        attempt.on(BarrierPassed(attempt.epoch, scheduled=True))
        assert "shipping the log of versions 4 to 7" in attempt.doing(7)
