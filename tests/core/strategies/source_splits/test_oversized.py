"""A topic with records that end Java when they are read: no job ends at one of them again and again (fault D10)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.source_splits.by_hand import ByHand

from backfill_core.errors import StateMismatchError
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.events import WorkFinished
from backfill_core.protocol.work import OffsetRangesStaged, ReadOffsetRanges, WorkKind
from backfill_core.strategies.source_splits.split import Split
from backfill_core.strategies.source_splits.stored import HISTORY, SourceSplitsStored, decode, open_request

HOLE = OffsetRange("0", 3, 4)


class DyingJava:
    """A world in which an unmeasured read of a deadly offset ends the attempt, and all its work in flight."""

    def __init__(self, rng: Random, deadly: set[tuple[str, int]], *highs: int, **settings: Any) -> None:
        """Draw the order of events from `rng`."""
        self.rng, self.deadly = rng, deadly
        self.world = ByHand(*highs, **settings)
        self.deaths = 0

    def step(self) -> None:
        """Let reads start, and one of them end; or commit."""
        world = self.world
        world.poll()
        world.start()
        if world.running and self.rng.random() < 0.7:
            read = world.running[self.rng.choice([*world.running])]
            if self._dies(read):
                self.deaths += 1
                world.open()
            else:
                world.finish(read)
        else:
            world.commit()

    def _dies(self, read: ReadOffsetRanges) -> bool:
        covered = any(
            span.partition == name and span.start <= offset < span.stop
            for name, offset in self.deadly
            for span in read.ranges
        )
        return covered and not read.measures


class TestARecordThatEndsJava:
    """Only the next attempt can handle it, because the driver cannot commit without Java."""

    @pytest.mark.parametrize("seed", range(30))
    def test_each_record_is_committed_once_after_few_deaths(self, seed: int) -> None:
        """History and new records are read side by side, and any of them may be deadly."""
        rng = Random(seed)
        highs = [rng.randint(0, 40) for _ in range(3)]
        java = DyingJava(rng, set(), *highs, read_max=rng.choice((3, 10, 50)), follow=True)
        for name, high in enumerate(highs):
            java.world.produce(str(name), rng.randint(0, 40))
            java.deadly |= {(str(name), rng.randrange(high + 40)) for _ in range(2)}
        java.world.produce("3", 5)
        java.deadly.add(("3", 0))
        expected = {(name, offset): 1 for name, log in java.world.logs.items() for offset in range(log.high)}

        for _ in range(3000):
            java.step()

        assert dict(java.world.target) == expected
        # A partition has at most two deadly records, and each of its two sides dies once for one of them at most, but for reads in
        # flight: a side that was measured moves before its next read.
        assert java.deaths <= 60

    def test_a_job_that_never_ended_measures_nothing(self) -> None:
        """Measuring costs a second read."""
        world = ByHand(100, 100)
        reads = []
        for _ in range(5):
            world.poll()
            reads += world.start()
            for read in [*world.running.values()]:
                world.finish(read)
            world.commit()

        assert reads
        assert not any(read.measures for read in reads)

    def test_a_resumed_job_measures_a_partition_until_a_commit_has_moved_it(self) -> None:
        """The commit shows that the read had no deadly record."""
        world = ByHand(100, 0, read_max=10, in_flight_max=1)
        world.produce("1", 10)
        world.open()
        world.poll()
        first = world.start()
        for read in first:
            world.finish(read)
        staged = world.start()
        for read in staged:
            world.finish(read)
        world.commit()
        moved = world.start()

        assert [read.measures for read in (*first, *staged)] == [True] * 3
        assert [read.kind for read in first] == [WorkKind.CHANGES, WorkKind.HISTORY]
        assert moved
        assert not any(read.measures for read in moved)


class TestUnreadRanges:
    """The state keeps them, so that each later read and receipt leaves out the same records."""

    def test_a_commit_of_a_read_stores_its_unread_ranges(self) -> None:
        """They are committed together with the rows."""
        world = ByHand(10)
        world.poll()
        [work] = world.start()
        world.strategy.on(WorkFinished(OffsetRangesStaged(work.work_id, (), {"0": 10}, (HOLE,))), world.now)
        assert world.strategy.stored.unread == ()
        world.commit()
        assert world.stored is not None
        assert open_request(world.stored).unread == (HOLE,)  # type: ignore[union-attr]

        world.open()
        world.produce("0", 1)
        world.run()

        assert world.stored.unread == (HOLE,)

    @pytest.mark.parametrize(
        "value", [3, [["0", 1, 2]], {"0": [1, 2]}, {"0": [[1, "2"]]}, {"0": [[True, 2]]}, {"0": [[3, 0]]}]
    )
    def test_a_malformed_list_is_rejected_by_name(self, value: object) -> None:
        """A part of it would not be enough."""
        stored = SourceSplitsStored("topic", HISTORY, {"0": Split(0, 5, 10, 10)}, unread=(HOLE,)).encode()

        with pytest.raises(StateMismatchError, match=r"unread"):
            decode({**stored, "unread": value})
