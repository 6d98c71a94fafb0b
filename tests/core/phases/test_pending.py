"""What may be pending while a job catches up: both rules, in step with the row-by-row machines (R-SNAP-23 to R-SNAP-28).

A version of our source is an epoch of theirs, made whole: each of their barriers is a checkpoint. Of R-SNAP-27 and R-SNAP-28, which
are about barriers that do not match and epochs that are there in part, nothing is left but that versions are taken in their order.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reference.snapshot import ReferenceSnapshot
from support.reference.snapshot_old import ReferenceSnapshotOld
from support.reference.vocabulary import Barrier, Table

from backfill_core.phases.pending import LimitRule, Pending
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import BarrierPassed, Head, Sealed, SourcePolled, WorkFinished
from backfill_core.protocol.strategy import Opened, Permits, Pinned
from backfill_core.protocol.work import ApplyChanges, ChangesApplied
from backfill_core.strategies.snapshot.params import SnapshotSettings
from backfill_core.strategies.snapshot.strategy import SnapshotStrategy

FIRST = 10_000
"""The epoch of the snapshot: so late that a limit measured from 0 is none."""

RULES: dict[LimitRule, type[ReferenceSnapshot]] = {"EpochTime": ReferenceSnapshot, "Barriers": ReferenceSnapshotOld}
EACH_RULE = pytest.mark.parametrize("rule", list(RULES))

gaps = st.lists(st.integers(1, 40), min_size=60, max_size=60)
arrivals = st.lists(st.integers(0, 4), min_size=1, max_size=50)
"""Versions that the source wants to make before each batch."""


class Both:
    """A reference machine and ours, which meet the same source."""

    def __init__(self, rule: LimitRule, epochs: list[int], waiting: int) -> None:
        """Bring both to where catching up begins: so many versions came while the snapshot was read."""
        self.epochs = epochs
        self.theirs = RULES[rule](Table(1, {epochs[0]: {}}), epochs[0])
        self.theirs.upstream.extend(self.barrier(version) for version in range(waiting + 1))
        for barrier in (Barrier(0, 1), Barrier(1, 2), Barrier(2, epochs[0]), self.barrier(0)):
            self.theirs.injected.append(barrier)
            self.theirs.run()
        self.ours = Pending(rule, 0)
        self.ours.know(0, epochs[0])
        self.ready: deque[int] = deque()
        self.made, self.taken = 0, 0
        for version in range(1, waiting + 1):
            self.poll(version)
        self.ours.begin()

    def barrier(self, version: int) -> Barrier:
        return Barrier(self.epochs[version], self.epochs[version + 1])

    def poll(self, version: int) -> None:
        self.made = version
        self.ours.poll(Head(version, self.epochs[version]))

    def drain(self) -> None:
        """Our source makes the versions that it may make."""
        while self.ready and self.ours.admits:
            self.poll(self.ready.popleft())

    def wants(self, versions: int) -> None:
        """The source would make so many versions now."""
        first = (self.ready[-1] if self.ready else self.made) + 1
        new = range(first, min(first + versions, len(self.epochs) - 1))
        self.ready.extend(new)
        self.theirs.upstream.extend(self.barrier(version) for version in new)
        self.theirs.run()
        self.drain()

    def batch(self) -> None:
        """Both consume one version."""
        self.taken += 1
        self.theirs.injected.append(self.barrier(self.taken))
        self.theirs.run()
        self.ours.take(self.taken)
        self.drain()
        self.ours.settle()
        self.ours.seal()

    @property
    def over(self) -> bool:
        return self.theirs.phase == "live"

    def compare(self) -> None:
        """Equal limits, equal lags, and equally many versions were made."""
        assert (self.ours.limit, self.ours.lag) == (self.theirs.limit, self.theirs.lag)
        self.drain()
        left = len(self.theirs.upstream)
        assert len(self.ready) == left


@EACH_RULE
class TestAsTheReferenceMachine:
    """A source that offers back-pressure is held by exactly the limit of the rules."""

    @given(gaps=gaps, waiting=st.integers(0, 8), arrivals=arrivals)
    def test_step_by_step(self, rule: LimitRule, gaps: list[int], waiting: int, arrivals: list[int]) -> None:
        """R-SNAP-23, R-SNAP-24, R-SNAP-25, R-SNAP-26: limits, lags and what is let in, for any arrivals and any epochs."""
        both = Both(rule, list(accumulate(gaps, initial=FIRST)), waiting)
        limit: float | None = None
        for wanted in arrivals:
            if both.over:
                break
            both.wants(wanted)
            both.batch()
            if both.over:
                break
            both.compare()
            assert limit is None or both.ours.limit is None or both.ours.limit <= limit
            limit = both.ours.limit
        assert not both.over or both.taken == both.made or not waiting

    @given(gaps=gaps, waiting=st.integers(1, 6))
    def test_a_source_that_is_always_ready_is_met(self, rule: LimitRule, gaps: list[int], waiting: int) -> None:
        """That is what the limit is for: a source that is faster than the job would never be caught up with."""
        both = Both(rule, list(accumulate(gaps, initial=FIRST)), waiting)
        both.wants(100)
        met = 0
        while not both.over:
            both.batch()
            met += 1
            assert met < len(gaps)
        assert both.ours.lag == 0


EPOCH = Epoch(1, 1)
OPEN = Permits(history=True, changes=True, checks=True, epoch=EPOCH, first_id=1)
NOW = Now(1.0, 1000)
SEALED = Sealed(1, 1, 0.1)


class Driven:
    """The real strategy over an empty version 3, to which each version after it was committed a second later."""

    def __init__(self, rule: LimitRule, *files: int, newest: int) -> None:
        """Commit the snapshot, and look at the source."""
        pinned = Pinned(3, 3000, "table", "files", files, sum(files))
        settings = SnapshotSettings(merges=False, filtered=False, limit=rule)
        self.strategy = SnapshotStrategy(Opened(pinned), settings)
        self.look(newest)
        self.commit()
        self.look(newest)

    @property
    def held(self) -> bool:
        return self.strategy.status.holds_source

    def look(self, newest: int) -> None:
        self.strategy.on(SourcePolled(Head(newest, 1000 * newest)), NOW)

    def commit(self) -> None:
        self.strategy.prepare_commit(EPOCH, OPEN, NOW)
        self.strategy.on(SEALED, NOW)

    def start(self) -> ApplyChanges:
        (work,) = self.strategy.propose(OPEN, NOW)
        assert isinstance(work, ApplyChanges)
        return work

    def finish(self, work: ApplyChanges) -> None:
        self.strategy.on(WorkFinished(ChangesApplied(work.work_id, 1)), NOW)


class TestWhenItHolds:
    """The strategy says when a source that offers back-pressure must wait."""

    @EACH_RULE
    def test_never_while_the_snapshot_is_read(self, rule: LimitRule) -> None:
        """R-SNAP-10: the copy may take days, and keeps no writer waiting."""
        assert not Driven(rule, 1000, newest=40).held

    @EACH_RULE
    def test_never_once_the_job_has_caught_up(self, rule: LimitRule) -> None:
        """Then the job follows at the pace of its source."""
        one = Driven(rule, newest=5)
        one.finish(one.start())
        one.commit()
        one.commit()
        one.look(60)
        assert one.strategy.status.caught_up
        assert not one.held

    def test_by_time_what_is_ready_at_the_start_of_a_batch_comes_first(self) -> None:
        """R-SNAP-25, R-SNAP-26: the first limit is the lag at the first event that is no look."""
        one = Driven("EpochTime", newest=40)
        assert one.start().upto == 35
        one.look(45)
        assert not one.held
        one.strategy.on(BarrierPassed(EPOCH, scheduled=True), NOW)
        assert one.held

    def test_by_count_one_more_may_come_while_a_batch_is_applied(self) -> None:
        """R-SNAP-24: the limit is lowered once the batch is durable, by as many versions as it had."""
        one = Driven("Barriers", newest=40)
        assert one.held
        work = one.start()
        assert not one.held
        one.look(60)
        one.finish(work)
        one.commit()
        assert one.held


@EACH_RULE
class TestABatchThatIsRepeated:
    """A fault must not hold the source as if twice as much had been consumed."""

    def test_counts_once(self, rule: LimitRule) -> None:
        """It is the same versions, or those and later ones."""
        once, twice = Pending(rule, 0), Pending(rule, 0)
        for one, batches in ((once, [5]), (twice, [4, 4, 5])):
            one.know(0, 0)
            one.poll(Head(9, 9000))
            one.begin()
            one.take(1)
            one.settle()
            one.seal()
            for upto in batches:
                one.take(upto)
            one.settle()
            one.seal()
        assert once.limit is not None
        assert once.limit == twice.limit


class TestTheEndOfCatchingUp:
    """The newer rule says it with the last commit, the older one with the commit after it."""

    @pytest.mark.parametrize(("rule", "phases"), [("EpochTime", ["Live"]), ("Barriers", ["CatchUp", "Live"])])
    def test_which_commit_says_so(self, rule: LimitRule, phases: list[str]) -> None:
        """R-SNAP-30, R-SNAP-31: a user who chose the older rule gets its report too, one commit later."""
        one, said = Driven(rule, newest=5), list[str]()
        one.finish(one.start())
        while not one.strategy.status.complete:
            assert one.strategy.status.wants_commit
            one.strategy.prepare_commit(EPOCH, OPEN, NOW)
            said.append(one.strategy.stored.phase)
            one.strategy.on(SEALED, NOW)
        assert said == phases

    def test_nothing_else_begins_between_them(self) -> None:
        """What came meanwhile is for after the end: an Exit job is done."""
        one = Driven("Barriers", newest=5)
        one.finish(one.start())
        one.look(9)
        one.strategy.prepare_commit(EPOCH, OPEN, NOW)
        assert one.strategy.propose(OPEN, NOW) == ()
        one.strategy.on(SEALED, NOW)
        assert one.strategy.status.caught_up
