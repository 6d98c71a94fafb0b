"""Replica by hand: what must be durable before the log is shipped, and what a commit takes of a batch."""

from dataclasses import replace

import pytest
from support.replica.by_hand import ByHand, pinned

from backfill_core.errors import SourceReplacedError, StateMismatchError
from backfill_core.protocol.events import BarrierPassed, LimitSet, WorkLost
from backfill_core.protocol.new_words import NewWords
from backfill_core.protocol.strategy import PinVersion
from backfill_core.protocol.work import NewColumns, ReadSplit, RemovedFile, ShipVersions, StagedFile
from backfill_core.strategies.replica.stored import decode, open_request, summarize


class TestTheFirstBatch:
    """A version may take a file out that history brings."""

    def test_waits_for_the_commit_of_the_last_split(self):
        """Staged files are in no version of the target, so no name is found there."""
        one = ByHand(10, 10).copy_all()
        one.poll(5)
        assert one.propose() == ()

        one.seal()
        one.poll(5)

        assert [(work.after, work.upto) for work in one.propose()] == [(3, 5)]

    def test_is_not_planned_by_a_look_before_that_commit(self):
        """R-SNAP-29: what was seen before is not the newest any more."""
        one = ByHand(10).copy_all().seal()
        assert one.propose() == ()

    def test_comes_at_once_where_the_source_is_empty(self):
        """There is no row to copy, and no commit of one."""
        one = ByHand()
        one.poll(4)
        one.prepare()
        one.seal()
        assert one.propose() == (ShipVersions(1, 3, 4, 2, 1 << 30),)


class TestALimit:
    """Of history: a part of a file would be a file of its own, which no name finds again."""

    def test_admits_a_file_when_none_is_owed(self):
        """100 rows a second are ten seconds a file of 1,000."""
        one = ByHand(1000, 1000)
        one.on(LimitSet(100, 1.1))

        def starts(at_s):
            one.now = replace(one.now, mono_s=at_s)
            one.on(BarrierPassed(one.epoch, scheduled=True))
            return [(work.start, work.stop) for work in one.propose()]

        assert [starts(at_s) for at_s in (0.0, 1.0, 9.0)] == [[(0, 1000)], [], []]
        assert starts(11.0) == [(1000, 2000)]

    def test_cuts_no_file_that_is_read_ahead(self):
        """From 100,000 rows a second on other strategies read ahead, and commit in parts."""
        one = ByHand(400_000, 400_000)
        one.on(LimitSet(150_000, 1.1))
        one.on(BarrierPassed(one.epoch, scheduled=True))
        assert [(work.start, work.stop, work.boundaries) for work in one.propose()] == [(0, 400_000, ())]


class TestABatch:
    """One after the other, whole."""

    def test_is_committed_at_once_with_its_version(self):
        """Lag is counted from there."""
        one = ByHand(10).live()
        work = one.ship(7)
        files, removed = (StagedFile("w-1", 8, 4),), (RemovedFile("w-0"),)

        one.shipped(work, files=files, removed=removed, changes=5)

        assert one.strategy.status.wants_commit
        request = one.prepare()
        assert (request.files, request.removed, request.changes) == (files, removed, 5)
        assert one.strategy.stored.shipped == 7

    def test_of_no_rows_is_committed_too(self):
        """The source must not keep versions that brought nothing (R-SNAP-22)."""
        one = ByHand(10).live()
        one.shipped(one.ship(7))
        assert one.prepare().changed

    def test_is_alone_until_it_is_durable(self):
        """The next one looks for its files in a version that has those of this one."""
        one = ByHand(10, follow=True).live()
        one.shipped(one.ship(7))
        one.prepare()
        one.poll(9)
        assert one.propose() == ()

        one.seal()

        assert [(work.after, work.upto) for work in one.propose()] == [(7, 9)]

    def test_may_end_early(self):
        """A version with too many bytes begins a batch of its own."""
        one = ByHand(10).live()
        one.shipped(one.ship(9), upto=5)
        one.prepare()
        one.seal()
        assert not one.strategy.status.caught_up
        assert [(work.after, work.upto) for work in one.propose()] == [(5, 9)]

    def test_that_is_lost_is_done_anew(self):
        """It staged only: nothing of it is in the target."""
        one = ByHand(10).live()
        work = one.ship(7)
        one.on(WorkLost(work.work_id))
        (again,) = one.propose()
        assert (again.after, again.upto) == (3, 7)

    def test_waits_in_a_pause_of_everything(self):
        """A standby that is held stands still."""
        one = ByHand(10).live()
        one.poll(7)
        assert one.propose(changes=False) == ()

    def test_is_not_limited(self):
        """A limit is for history: a standby that lags is none."""
        one = ByHand(10).live()
        one.on(LimitSet(0, 1.0))
        one.poll(7)
        assert len(one.propose()) == 1

    def test_replaces_a_file_without_counting_its_bytes(self):
        """A vector is another entry for a file that is there."""
        one = ByHand(10).live()
        same, new = StagedFile("w-0", 100, 9), StagedFile("w-1", 8, 1)
        one.shipped(one.ship(4), files=(same, new), removed=(RemovedFile("w-0"),))
        assert one.prepare().bytes == 8


class TestTheEnd:
    """`Exit` ends at the newest version, `Follow` never."""

    def test_is_reached_with_the_commit_of_the_last_batch(self):
        """R-SNAP-31: nothing more is to come, and the next commit would say no more."""
        one = ByHand(10).live()
        one.shipped(one.ship(7))
        one.prepare()
        assert not one.strategy.status.complete
        one.seal()
        assert one.strategy.status.complete

    def test_is_reached_when_nothing_was_pending(self):
        """R-SNAP-32: a quiet source."""
        one = ByHand(10).live()
        one.poll(3)
        assert one.propose() == ()
        one.prepare()
        one.seal()
        assert one.strategy.status.complete

    def test_is_none_for_a_standby(self):
        """It ships whatever comes."""
        one = ByHand(10, follow=True).live()
        for version in (4, 5):
            one.shipped(one.ship(version))
            one.prepare()
            one.seal()
        assert one.strategy.status.caught_up
        assert not one.strategy.status.complete


class TestARestart:
    """From what a commit stored, and nothing else."""

    def test_ships_on_after_the_version_that_is_stored(self):
        """No version twice, none left out."""
        one = ByHand(10).live()
        one.shipped(one.ship(7))
        one.prepare()
        stored = decode(one.strategy.stored.encode())

        other = ByHand(10, stored=stored)
        other.poll(9)
        assert other.strategy.status.wants_announcement
        other.prepare()
        other.seal()

        assert [(work.after, work.upto) for work in other.propose()] == [(7, 9)]

    def test_copies_on_where_history_is_missing(self):
        """R-SNAP-37: rows that are committed are not read again."""
        one = ByHand(300_000, 300_000)
        first, *_ = one.propose()
        one.staged(first)
        one.prepare()

        other = ByHand(300_000, 300_000, stored=decode(one.strategy.stored.encode()))

        assert all(isinstance(work, ReadSplit) and work.start >= first.stop for work in other.propose())

    def test_needs_the_pinned_version_only_while_rows_of_it_are_missing(self):
        """A VACUUM of the source may take it away then; the log after the shipped version must be there."""
        one = ByHand(10)
        half = one.strategy.stored
        one.live()
        one.shipped(one.ship(7))
        one.prepare()
        assert open_request(None) == PinVersion()
        assert open_request(half) == PinVersion(3, None, "table")
        assert open_request(one.strategy.stored) == PinVersion(3, 7, "table")

    def test_refuses_other_files_under_the_pinned_version(self):
        """Their names are others."""
        stored = ByHand(10).strategy.stored
        with pytest.raises(StateMismatchError, match="differ from those at the start of the job"):
            ByHand(10, pinned=replace(pinned(10), fingerprint="other"), stored=stored)

    @pytest.mark.parametrize("value", [2, "7", None, True])
    def test_refuses_a_shipped_version_that_cannot_be(self, value):
        """A state that was written by hand, or by a release to come."""
        stored = {**ByHand(10).strategy.stored.encode(), "shipped": value}
        with pytest.raises(StateMismatchError, match=r"replica\.shipped"):
            decode(stored)


class TestOtherColumns:
    """A batch that changes them is the last of its attempt."""

    def followed(self):
        one = ByHand(10).live()
        columns = NewColumns('{"type":"struct","fields":[]}', 3)
        one.shipped(one.ship(7), upto=5, columns=columns)
        return one, columns

    def test_go_into_the_commit_of_their_files(self):
        """Once: a second commit would take back what came between."""
        one, columns = self.followed()
        requests = [one.prepare(), one.seal().prepare()]
        assert [request.columns for request in requests] == [columns, None]

    def test_are_those_of_the_version_that_the_next_attempt_reads(self):
        """The pinned one has the old columns, by which nothing that is there now could be read."""
        one, _ = self.followed()
        assert one.strategy.stored.laid_out is None
        one.prepare()
        stored = decode(one.strategy.stored.encode())
        assert (stored.shipped, stored.laid_out) == (5, 5)
        assert open_request(stored) == PinVersion(5, None, "table")

        found = replace(pinned(3, 4), version=5, fingerprint="later")
        other = ByHand(pinned=found, stored=stored)
        assert other.strategy.stored == stored
        other.poll(7)
        other.prepare()
        other.seal()
        other.poll(7)
        assert [(work.after, work.upto) for work in other.propose()] == [(5, 7)]

    def test_of_words_alone_lay_nothing_out(self):
        """A comment changes nothing that the job reads: the next attempt reads the version that this one does."""
        one = ByHand(10).live()
        words = NewColumns(None, words=NewWords((("team", "sales"),)), reopens=False)
        one.shipped(one.ship(7), upto=5, columns=words)

        assert one.prepare().columns == words
        assert one.strategy.stored.laid_out is None

    def test_of_another_table_at_the_place_of_the_source_are_refused(self):
        """Its version of that number is about other rows."""
        one, _ = self.followed()
        one.prepare()
        found = replace(pinned(3), version=5, table_id="other")
        with pytest.raises(SourceReplacedError, match="version 3 was pinned"):
            ByHand(pinned=found, stored=one.strategy.stored)

    @pytest.mark.parametrize("value", [3, 6, "5", True])
    def test_are_refused_of_a_version_that_cannot_be(self, value):
        """A state that was written by hand."""
        one, _ = self.followed()
        one.prepare()
        with pytest.raises(StateMismatchError, match=r"replica\.laidOut"):
            decode({**one.strategy.stored.encode(), "laidOut": value})


class TestTheState:
    """At most 64 KiB, whatever the number of files."""

    def test_is_small_at_a_hundred_thousand_files(self):
        """Every other file is done: the worst case of intervals."""
        one = ByHand(*[1] * 100_000)
        copy = one.strategy._machine.copy  # noqa: SLF001 - thousands of splits would take minutes
        for start in range(0, 100_000, 2):
            copy.prepared = copy.prepared.add(start, start + 1) if start < 6000 else copy.prepared
        assert len(str(one.strategy.stored.encode())) < 48 * 1024

    def test_says_how_far_it_is(self):
        """`backfill status` reads it while no driver runs."""
        one = ByHand(10)
        assert summarize(one.strategy.stored).phase == "Snapshot"
        assert summarize(one.live().strategy.stored).phase == "CatchUp"
        one.on(BarrierPassed(one.epoch, scheduled=True))
        assert "shipping the log of versions 4 to 7" in one.doing(7)
