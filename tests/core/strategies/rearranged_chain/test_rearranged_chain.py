"""Worked examples C1 to C4 against the strategy, and further rules; the laws check the rest.

Version 3 is the snapshot; the changes u1, u2, … are the versions after it. B0 is the fence.
"""

from __future__ import annotations

import pytest
from support.tables.jobs import job

from backfill_core.errors import StateMismatchError
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import BarrierPassed, Head, Sealed, SourcePolled, WorkFinished, WorkLost
from backfill_core.protocol.strategy import Opened, Permits, Pinned, PinVersion, StartOver, StrategyView
from backfill_core.protocol.work import ApplyChanges, ChangesApplied, ReadSplit, SplitStaged, StagedFile, Work
from backfill_core.strategies.rearranged_chain import STRATEGY
from backfill_core.strategies.rearranged_chain.params import ChainSettings
from backfill_core.strategies.rearranged_chain.stored import ChainStored, decode
from backfill_core.strategies.rearranged_chain.strategy import RearrangedChain

SNAPSHOT = 3
ROWS = 2
PINNED = Pinned(SNAPSHOT, 1000 * SNAPSHOT, "table", "files", (ROWS,), ROWS)


class Chain:
    """The strategy, its barriers and its commits. `out` lists the output in order: B1, s, u1, and `finish` before its
    barrier."""

    def __init__(self, *, follow: bool = False, stored: ChainStored | None = None, queue_max: int = 1000) -> None:
        """Pass B0."""
        settings = ChainSettings(merges=False, filtered=False, follow=follow, queue_max=queue_max)
        self.strategy = RearrangedChain(Opened(PINNED), settings, stored)
        self.out, self.epoch, self.seconds = ["B0"], 0, 0.0
        self.seen = SNAPSHOT if stored is None else stored.consumed
        self.look(self.seen)

    @property
    def now(self) -> Now:
        return Now(self.seconds, round(1000 * self.seconds))

    @property
    def permits(self) -> Permits:
        return Permits(
            history=True, changes=True, checks=True, epoch=Epoch(1, self.epoch), first_id=self.epoch * 100 + 1
        )

    @property
    def phase(self) -> str:
        return self.strategy.phase

    @property
    def view(self) -> StrategyView:
        return self.strategy.view(self.now)

    def look(self, version: int) -> None:
        """Poll the source, which has this newest version."""
        self.seen = version
        self.strategy.on(SourcePolled(Head(version, 1000 * version)), self.now)

    def barrier(self, *, seen: int | None = None) -> None:
        """Commit pending output and pass a barrier; then poll the source."""
        self.epoch += 1
        self.seconds += 1
        self.commit()
        self.out.append(f"B{self.epoch}")
        self.strategy.on(BarrierPassed(Epoch(1, self.epoch), scheduled=True), self.now)
        self.look(self.seen if seen is None else seen)

    def commit(self) -> None:
        """Make the prepared output durable."""
        rows, consumed, caught_up = self.rows, self.consumed, self.strategy.status.caught_up
        self.strategy.prepare_commit(Epoch(1, self.epoch), self.permits, self.now)
        self.out += ["s"] * (self.rows > rows)
        self.out += [f"u{version - SNAPSHOT}" for version in range(consumed + 1, self.consumed + 1)]
        self.out += ["finish"] * (self.strategy.status.caught_up and not caught_up)
        self.strategy.on(Sealed(self.epoch, self.epoch, 0.1), self.now)

    @property
    def rows(self) -> int:
        return self.strategy.stored.rows_read

    @property
    def consumed(self) -> int:
        return self.strategy.stored.consumed

    def start(self) -> Work:
        """Start the next work item."""
        (work,) = self.strategy.propose(self.permits, self.now)
        return work

    def finish(self, work: Work) -> None:
        """Finish a work item successfully."""
        if isinstance(work, ReadSplit):
            file = StagedFile("part", 10, work.stop - work.start)
            self.strategy.on(WorkFinished(SplitStaged(work.work_id, (file,))), self.now)
        else:
            self.strategy.on(WorkFinished(ChangesApplied(work.work_id, 1)), self.now)

    def copy(self) -> None:
        """Read the snapshot and commit it, before the next barrier."""
        self.finish(self.start())
        self.commit()


class TestTheWorkedExamples:
    """The strategy follows each example; the row-by-row machine runs them too (tests/simulation/reference)."""

    def test_example_c1_barriers_overtake_data(self) -> None:
        """R-CHAIN-4, 5, 6, 8, 10, 11: B1 does not wait for u1, and B2 comes behind u2."""
        chain = Chain()
        split = chain.start()
        chain.barrier(seen=4)
        chain.finish(split)
        chain.commit()
        assert (chain.phase, chain.view.reason) == ("Rearranging", "the data reached barrier 0 of 1, 1 wait")
        changes = chain.start()
        chain.look(5)
        chain.finish(changes)
        chain.commit()
        assert chain.phase == "Draining"
        chain.finish(chain.start())
        chain.commit()
        assert not chain.strategy.status.caught_up
        chain.barrier()

        assert chain.out == ["B0", "B1", "s", "u1", "u2", "finish", "B2"]
        assert chain.phase == "Forwarding"

    def test_example_c2_ends_at_once_with_a_quiet_source(self) -> None:
        """R-CHAIN-9: rearranging ends right behind the snapshot, and the next barrier reports it."""
        chain = Chain()
        chain.copy()
        assert chain.phase == "Draining"
        chain.barrier()
        chain.commit()

        assert chain.out == ["B0", "s", "finish", "B1"]
        assert chain.strategy.status.complete

    def test_example_c3_resumes_live_after_the_end(self) -> None:
        """R-CHAIN-2: the job resumes as live; it reads no snapshot and reports no end."""
        first = Chain(follow=True)
        first.copy()
        first.barrier()
        stored = decode(first.strategy.stored.encode())
        chain = Chain(follow=True, stored=stored)
        chain.barrier(seen=5)
        work = chain.start()
        chain.finish(work)
        chain.barrier()

        assert isinstance(work, ApplyChanges)
        assert chain.out == ["B0", "B1", "u1", "u2", "B2"]

    def test_example_c4_reports_the_livelock(self) -> None:
        """Another barrier passes with each batch: the job never ends, and the warning names both rates. It ends once
        the source is quiet."""
        chain = Chain()
        split = chain.start()
        chain.barrier(seen=4)
        chain.finish(split)
        chain.commit()
        for _ in range(12):
            work = chain.start()
            chain.barrier(seen=chain.seen + 1)
            chain.finish(work)
            chain.commit()
            assert chain.phase == "Rearranging"
        assert chain.view.non_convergent
        assert "the source makes 1 versions/s, 1 are applied" in chain.view.warnings[-1].message
        chain.finish(chain.start())
        chain.commit()
        chain.barrier()
        assert chain.phase == "Forwarding"


class TestTheEnd:
    """A user may read the target from the end on."""

    def test_the_end_waits_for_a_barrier(self) -> None:
        """R-CHAIN-11: the commit that reached the newest phantom does not end it, however much time passes."""
        chain = Chain()
        chain.copy()
        chain.look(SNAPSHOT)
        assert not chain.strategy.status.wants_commit
        assert not chain.strategy.status.caught_up

    def test_the_end_is_behind_the_newest_barrier(self) -> None:
        """R-CHAIN-7, R-CHAIN-8: the phantom of B1 is reached after B2 has passed."""
        chain = Chain()
        split = chain.start()
        chain.barrier(seen=4)
        chain.finish(split)
        chain.commit()
        changes = chain.start()
        chain.barrier(seen=5)
        chain.finish(changes)
        chain.commit()

        assert chain.phase == "Rearranging"
        assert chain.view.reason == "the data reached barrier 1 of 2, 1 wait"

    def test_the_end_needs_a_barrier_with_a_known_place(self) -> None:
        """The newest version of a source is unknown until a poll succeeds."""
        chain = Chain()
        split = chain.start()
        chain.epoch += 1
        chain.strategy.on(BarrierPassed(Epoch(1, 1), scheduled=True), chain.now)
        chain.finish(split)
        chain.commit()
        assert chain.phase == "Rearranging"
        chain.look(SNAPSHOT)
        assert chain.phase == "Draining"

    def test_the_end_comes_after_lost_work_was_repeated(self) -> None:
        """A fault is no end."""
        chain = Chain()
        lost = chain.start()
        chain.strategy.on(WorkLost(lost.work_id), chain.now)
        chain.barrier()
        assert chain.phase == "Rearranging"
        chain.copy()
        chain.barrier()
        assert chain.phase == "Forwarding"

    def test_a_full_queue_holds_a_source_that_offers_back_pressure(self) -> None:
        """R-CHAIN-16: the source may continue once a place is free."""
        chain = Chain(queue_max=2)
        split = chain.start()
        assert not chain.strategy.status.holds_source
        chain.barrier(seen=4)
        chain.barrier(seen=5)
        assert chain.strategy.status.holds_source
        chain.finish(split)
        chain.commit()
        assert not chain.strategy.status.holds_source


class TestAStoredState:
    """A state that did not catch up is dropped with its rows, and never counts as finished."""

    def test_an_unfinished_state_starts_over(self) -> None:
        """R-CHAIN-15: the rule holds at any time before the end; without a state there is nothing to start over."""
        assert STRATEGY.open_request(None) == PinVersion()
        chain = Chain()
        states = [chain.strategy.stored]
        chain.copy()
        states.append(chain.strategy.stored)
        assert [state.phase for state in states] == ["Rearranging", "Draining"]
        assert [STRATEGY.open_request(state) for state in states] == [StartOver(drop_rows=True)] * 2

    def test_a_caught_up_state_continues_after_the_consumed_version(self) -> None:
        """The pinned version may be gone by then."""
        chain = Chain(follow=True)
        chain.copy()
        chain.barrier(seen=4)
        chain.finish(chain.start())
        chain.commit()
        stored = decode(chain.strategy.stored.encode())

        assert STRATEGY.open_request(stored) == PinVersion(SNAPSHOT, 4, "table")
        again = STRATEGY.resume(job("/s", "/t", strategy={"type": "RearrangedChain"}).spec, stored, Opened(PINNED))
        assert again.status.consumed == 4

    @pytest.mark.parametrize(
        ("field", "value"),
        [("phase", "Snapshot"), ("done", [[2, 1]]), ("merging", 3), ("consumed", "4"), ("rows", None)],
    )
    def test_a_malformed_state_is_refused_by_field_name(self, field: str, value: object) -> None:
        """The state may come from another release, or a user may have edited it."""
        with pytest.raises(StateMismatchError, match=f"rearrangedChain.{field} is "):
            decode({**Chain().strategy.stored.encode(), field: value})

    def test_the_summary_shows_the_progress_of_the_job(self) -> None:
        """`backfill status` shows it without a driver."""
        chain = Chain()
        before = STRATEGY.summarize(chain.strategy.stored)
        chain.copy()
        after = STRATEGY.summarize(chain.strategy.stored)

        assert (before.phase, before.rows_total, before.rows_filtered) == ("Rearranging", ROWS, 0)
        assert (after.phase, after.rows_total, after.rows_filtered) == ("Draining", ROWS, 0)
