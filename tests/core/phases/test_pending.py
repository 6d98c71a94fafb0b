"""Pending versions during catch-up: both rules match the row-by-row machines (R-SNAP-23 to R-SNAP-28).

A version of our source is a complete epoch of theirs: each of their barriers is a checkpoint. R-SNAP-27 and R-SNAP-28
concern unmatched barriers and partial epochs. Here they only require that versions are taken in order.
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
from backfill_core.strategies.snapshot.strategy import snapshot

FIRST = 10_000
"""The epoch of the snapshot: so large that a limit measured from 0 has no effect."""

RULES: dict[LimitRule, type[ReferenceSnapshot]] = {"EpochTime": ReferenceSnapshot, "Barriers": ReferenceSnapshotOld}
EACH_RULE = pytest.mark.parametrize("rule", list(RULES))

gaps = st.lists(st.integers(1, 40), min_size=60, max_size=60)
arrivals = st.lists(st.integers(0, 4), min_size=1, max_size=50)
"""Number of versions that the source wants to create before each batch."""


class Both:
    """A reference machine and ours with the same source."""

    def __init__(self, rule: LimitRule, epochs: list[int], waiting: int) -> None:
        """Bring both to the start of catch-up: `waiting` versions arrived while the snapshot was read."""
        self.epochs = epochs
        self.reference = RULES[rule](Table(1, {epochs[0]: {}}), epochs[0])
        self.reference.upstream.extend(self.barrier(version) for version in range(waiting + 1))
        for barrier in (Barrier(0, 1), Barrier(1, 2), Barrier(2, epochs[0]), self.barrier(0)):
            self.reference.injected.append(barrier)
            self.reference.run()
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
        """Let our source create the versions that it may create."""
        while self.ready and self.ours.admits:
            self.poll(self.ready.popleft())

    def wants(self, versions: int) -> None:
        """Let the source request this number of versions now."""
        first = (self.ready[-1] if self.ready else self.made) + 1
        new = range(first, min(first + versions, len(self.epochs) - 1))
        self.ready.extend(new)
        self.reference.upstream.extend(self.barrier(version) for version in new)
        self.reference.run()
        self.drain()

    def batch(self) -> None:
        """Consume one version with both machines."""
        self.taken += 1
        self.reference.injected.append(self.barrier(self.taken))
        self.reference.run()
        self.ours.take(self.taken)
        self.drain()
        self.ours.settle()
        self.ours.seal()

    @property
    def over(self) -> bool:
        return self.reference.phase == "live"

    def compare(self) -> None:
        """Compare the limits, the lags, and the number of created versions."""
        assert (self.ours.limit, self.ours.lag) == (self.reference.limit, self.reference.lag)
        self.drain()
        left = len(self.reference.upstream)
        assert len(self.ready) == left


@EACH_RULE
class TestAsTheReferenceMachine:
    """The limit of the rules holds a source that offers back-pressure exactly."""

    @given(gaps=gaps, waiting=st.integers(0, 8), arrivals=arrivals)
    def test_limits_and_lags_match_step_by_step(
        self, rule: LimitRule, gaps: list[int], waiting: int, arrivals: list[int]
    ) -> None:
        """R-SNAP-23, R-SNAP-24, R-SNAP-25, R-SNAP-26: limits, lags and admitted versions match for any arrivals and any
        epochs."""
        both = Both(rule, list(accumulate(gaps, initial=FIRST)), waiting)
        limit: float | None = None
        for requested in arrivals:
            if both.over:
                break
            both.wants(requested)
            both.batch()
            if both.over:
                break
            both.compare()
            assert limit is None or both.ours.limit is None or both.ours.limit <= limit
            limit = both.ours.limit
        assert not both.over or both.taken == both.made or not waiting

    @given(gaps=gaps, waiting=st.integers(1, 6))
    def test_a_source_that_is_always_ready_is_caught_up_with(
        self, rule: LimitRule, gaps: list[int], waiting: int
    ) -> None:
        """The limit exists for this: a source that is faster than the job would never be caught up with."""
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
    """The real strategy over an empty version 3; each later version was committed a second after the one before."""

    def __init__(self, rule: LimitRule, *files: int, newest: int) -> None:
        """Commit the snapshot and poll the source."""
        pinned = Pinned(3, 3000, "table", "files", files, sum(files))
        settings = SnapshotSettings(merges=False, filtered=False, limit=rule)
        self.strategy = snapshot(Opened(pinned), settings)
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
    """The strategy decides when a source that offers back-pressure must wait."""

    @EACH_RULE
    def test_a_source_is_never_held_while_the_snapshot_is_read(self, rule: LimitRule) -> None:
        """R-SNAP-10: the copy may take days and must not block writers."""
        assert not Driven(rule, 1000, newest=40).held

    @EACH_RULE
    def test_a_source_is_never_held_once_the_job_has_caught_up(self, rule: LimitRule) -> None:
        """The job then follows at the pace of its source."""
        driven = Driven(rule, newest=5)
        driven.finish(driven.start())
        driven.commit()
        driven.commit()
        driven.look(60)
        assert driven.strategy.status.caught_up
        assert not driven.held

    def test_the_time_rule_first_takes_the_versions_ready_at_the_start_of_a_batch(self) -> None:
        """R-SNAP-25, R-SNAP-26: the first limit is the lag at the first event that is not a poll."""
        driven = Driven("EpochTime", newest=40)
        assert driven.start().upto == 35
        driven.look(45)
        assert not driven.held
        driven.strategy.on(BarrierPassed(EPOCH, scheduled=True), NOW)
        assert driven.held

    def test_the_count_rule_admits_a_version_while_a_batch_is_applied(self) -> None:
        """R-SNAP-24: once the batch is durable, the limit falls by the number of its versions."""
        driven = Driven("Barriers", newest=40)
        assert driven.held
        work = driven.start()
        assert not driven.held
        driven.look(60)
        driven.finish(work)
        driven.commit()
        assert driven.held


@EACH_RULE
class TestABatchThatIsRepeated:
    """A fault must not hold the source as if the job had consumed twice as many versions."""

    def test_a_repeated_batch_counts_once(self, rule: LimitRule) -> None:
        """A repeated batch has the same versions, and maybe later ones."""
        once, twice = Pending(rule, 0), Pending(rule, 0)
        for pending, batches in ((once, [5]), (twice, [4, 4, 5])):
            pending.know(0, 0)
            pending.poll(Head(9, 9000))
            pending.begin()
            pending.take(1)
            pending.settle()
            pending.seal()
            for upto in batches:
                pending.take(upto)
            pending.settle()
            pending.seal()
        assert once.limit is not None
        assert once.limit == twice.limit


class TestTheEndOfCatchingUp:
    """The newer rule reports the end with the last commit, the older rule with the commit after it."""

    @pytest.mark.parametrize(("rule", "phases"), [("EpochTime", ["Live"]), ("Barriers", ["CatchUp", "Live"])])
    def test_the_rule_decides_which_commit_reports_the_end(self, rule: LimitRule, phases: list[str]) -> None:
        """R-SNAP-30, R-SNAP-31: a user of the older rule gets its report too, one commit later."""
        driven, reported = Driven(rule, newest=5), list[str]()
        driven.finish(driven.start())
        while not driven.strategy.status.complete:
            assert driven.strategy.status.wants_commit
            driven.strategy.prepare_commit(EPOCH, OPEN, NOW)
            reported.append(driven.strategy.stored.phase)
            driven.strategy.on(SEALED, NOW)
        assert reported == phases

    def test_no_work_starts_between_the_last_commit_and_the_report(self) -> None:
        """Versions that arrived meanwhile come after the end: an Exit job is done."""
        driven = Driven("Barriers", newest=5)
        driven.finish(driven.start())
        driven.look(9)
        driven.strategy.prepare_commit(EPOCH, OPEN, NOW)
        assert driven.strategy.propose(OPEN, NOW) == ()
        driven.strategy.on(SEALED, NOW)
        assert driven.strategy.status.caught_up
