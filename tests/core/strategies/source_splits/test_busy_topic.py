"""A topic whose producers never pause: each read ends after newer records were polled, and the job catches up all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.source_splits.by_hand import ByHand
from support.source_splits.merges_by_hand import Driven, topic

from backfill_core.pacing.convergence import STEPS_WATCHED
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.work import MergeOffsetRanges

if TYPE_CHECKING:
    from backfill_core.protocol.work import ReadOffsetRanges

TURNS = 3 * STEPS_WATCHED


def write(world: ByHand) -> None:
    """Add ten records and poll them."""
    world.produce("0", 10)
    world.poll()


def slow_turns(world: ByHand, turns: int) -> list[ReadOffsetRanges]:
    """Commit each read while the next one runs already, which has the records of a later poll; return the running reads."""
    write(world)
    running = world.start()
    for _ in range(turns):
        write(world)
        world.now_s += 1
        for work in running:
            world.finish(work)
        running = world.start()
        write(world)
        world.commit()
    return running


class TestReadsThatAreSlowerThanPolls:
    """A job has caught up if it has all records that were polled when a read began, and the read took them all."""

    def test_a_job_that_exits_completes_on_a_busy_topic(self) -> None:
        """Its last read ends after another poll, and no read ever reaches the newest record."""
        world = ByHand(20)
        world.poll()
        running = slow_turns(world, 4)
        for work in running:
            world.finish(work)
        world.commit()

        assert world.start() == []
        assert (world.strategy.status.complete, world.strategy.status.cut_off) == (True, ())
        assert world.splits["0"].live >= 30

    def test_a_job_that_follows_reports_that_it_has_caught_up(self) -> None:
        """The first records polled after the history decide, so the lag of one read is no reason to wait."""
        world = ByHand(20, follow=True)
        world.poll()
        slow_turns(world, 4)

        assert world.strategy.view(world.now).caught_up

    def test_a_read_that_leaves_records_out_does_not_end_the_catch_up(self) -> None:
        """A job that is slower than the producers never has all records that were polled."""
        world = ByHand(0, read_max=4, follow=True)
        slow_turns(world, TURNS)

        assert not world.strategy.view(world.now).caught_up

    def test_a_lost_read_does_not_end_the_catch_up(self) -> None:
        """Its records are read again, and then the job has caught up with a later poll."""
        world = ByHand(0, follow=True)
        write(world)
        [work] = world.start()
        write(world)
        world.lose(work)
        world.commit()

        assert not world.strategy.view(world.now).caught_up

    def test_a_steady_producer_causes_no_warning(self) -> None:
        """A read that is staged, but not committed, is no backlog."""
        world = ByHand(0, follow=True)
        slow_turns(world, TURNS)

        assert world.strategy.view(world.now).warnings == ()

    def test_offsets_that_were_left_out_are_named_as_they_are_at_the_end(self) -> None:
        """A transaction ends after the wait for it, while a read runs: the read's records are in the target."""
        world = ByHand(0, open_transaction_s=0)
        world.produce("0", 5)
        world.hold()
        world.produce("0", 10)
        world.poll()
        [first] = world.start()
        world.release()
        world.poll()
        world.finish(first)
        [second] = world.start()
        world.commit()
        waiting = world.strategy.status
        world.finish(second)
        world.commit()

        assert (waiting.complete, waiting.cut_off) == (False, (OffsetRange("0", 5, 15),))
        assert (world.strategy.status.complete, world.strategy.status.cut_off) == (True, ())


class TestMergesThatAreSlowerThanPolls:
    """A MERGE lasts for seconds, so a busy topic always has newer records at its end."""

    @staticmethod
    def turns(job: Driven, count: int) -> None:
        """Merge `count` times; records arrive between the choice of a batch, its start and its end."""
        newest = 20
        for _ in range(count):
            newest += 10
            job.see({"0": newest})
            job.start()
            job.commit()
            newest += 10
            job.see({"0": newest})
            for work in job.start():
                assert isinstance(work, MergeOffsetRanges)
                newest += 10
                job.see({"0": newest})
                job.finish(work)
        job.commit()

    def test_a_job_that_exits_completes_on_a_busy_topic(self) -> None:
        """Such a job once ran for as long as producers wrote."""
        job = Driven(topic(p0=20))
        self.turns(job, 4)

        assert job.start() == []
        assert (job.machine.status.complete, job.stored["phase"]) == (True, "Live")

    def test_a_steady_producer_causes_no_warning(self) -> None:
        """A MERGE of all records that were polled when it was chosen leaves no backlog."""
        job = Driven(topic(p0=20), follow=True)
        self.turns(job, TURNS)

        assert job.machine.view(job.now).caught_up
        assert job.machine.view(job.now).warnings == ()

    def test_new_records_of_one_partition_do_not_end_the_history_of_another(self) -> None:
        """All records of the source count, also those of a partition whose history is not complete."""
        job = Driven(topic(p0=5, p1=50), follow=True, read_max=5, share_min=1)
        job.see({"0": 9, "1": 50})
        for _ in range(4):
            job.merge()
        job.commit()

        assert not job.machine.view(job.now).caught_up
