"""The laws of a strategy, in simulated worlds: they hold for every strategy that is discovered.

Every seal of every world is compared with the source, row by row. What a stored state promises is told by the strategy's
model (support/simulation/models). A failing seed is told as a story by `make simulate STRATEGY=… SEED=…`, which also lives many.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from support.simulation.law import Broken
from support.simulation.model import model_of, modelled
from support.simulation.scenario import Scenario, scenario
from support.simulation.seeds.sweep import AHEAD as READ_AHEAD
from support.simulation.seeds.sweep import GROWING, HIGH, KILLED, KNOBS, OTHERS, STUBBORN
from support.simulation.tables import UPSERT
from support.simulation.world import World

from backfill_core import strategies

SEEDS = 150
STRATEGIES = sorted({*strategies.discover(), *modelled()})
"""What is discovered, and what has a model: nothing else is edited when a strategy is added."""


def modes_of(strategy: str) -> tuple[str, ...]:
    """Return the modes of a strategy, each once; without a model its tests fail when they run, not when they are collected."""
    try:
        return tuple(dict.fromkeys(model_of(strategy).MODES))
    except Broken:
        return ("unknown",)


EACH_MODE = [(strategy, mode) for strategy in STRATEGIES for mode in modes_of(strategy)]
READING_AHEAD = [
    (strategy, mode) for strategy, mode in EACH_MODE if mode != "unknown" and model_of(strategy).AHEAD_RATE is not None
]


WITH_KNOB = {
    knob: sorted({strategy for strategy, mode in EACH_MODE if mode != "unknown" and knob in model_of(strategy).KNOBS})
    for knob in KNOBS
}


def small(strategy: str, mode: str, **changes: Any) -> Scenario:
    """Return a world that is small enough to die at each of its steps."""
    return replace(
        Scenario(strategy, mode, rows=14, commits=4, trouble_s=6.0, commands=2, verify_final=True), **changes
    )


def drawn(strategy: str, seed: int, **changes: Any) -> World:
    """Return the world of a seed, but for what is changed."""
    return World(replace(scenario(strategy, model_of(strategy).MODES, seed), **changes))


@cache
def finished(strategy: str, seed: int) -> World:
    """Return the world of a seed after its end; it is lived once."""
    return drawn(strategy, seed).run()


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestInAnyWorld:
    """At every seal the target holds what its state says; nothing is lost, doubled or forgotten."""

    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_holds_in_any_world(self, strategy: str, seed: int) -> None:
        """R-SNAP-8, 9, 19, 35 to 38, 41 to 44, R-CHAIN-1, 3, R-PROG-3: faults, crashes, commands, in every mixture.

        Modes, layouts, filters, limits, seal intervals and the number of commits are drawn from the seed. The
        oracle looks at each commit, each start of work, and each acknowledgement.
        """
        world = finished(strategy, seed)
        assert world.oracle.seals > 0

    @pytest.mark.rest
    def test_worlds_are_worth_it(self, strategy: str) -> None:
        """A simulator that never crashes or merges proves nothing."""
        met = Counter[str]()
        for seed in range(SEEDS):
            world, oracle = finished(strategy, seed), finished(strategy, seed).oracle
            met.update(crashes=world.crashes, stops=world.stops, merges=oracle.merges, receipts=oracle.receipts)
            met.update(began_paused=world.given.paused is not None, batches=oracle.batches)
            met.update(seals=oracle.seals, splits=oracle.splits, acks=oracle.acks, quarantined=oracle.quarantined)
            met.update(world.model.met)
        wanted = model_of(strategy).WORTH
        assert {name: met[name] for name, least in wanted.items() if met[name] < least} == {}

    def test_a_seed_is_a_world(self, strategy: str) -> None:
        """A failing seed must fail again, or its cause is never found."""
        one, other = drawn(strategy, 17).run(), drawn(strategy, 17).run()
        assert one.history == other.history


SHARES = 60
"""A sweep over all steps of a world is split into so many cases, so that `make test` runs a sample of the steps."""


def die_at_each_step(given: Scenario, steps: int, share: int) -> None:
    """Simulate a world once for each step of a share, with a crash after that step: it crashes once and breaks no law."""
    for step in range(1 + share, steps + 1, SHARES):
        try:
            world = World(replace(given, crash_at=step)).run()
        except Broken as broken:
            pytest.fail(f"dead after step {step}: {broken}")
        assert world.crashes == 1


@cache
def lived(given: Scenario) -> World:
    """Return a world after its end; it is simulated once."""
    return World(given).run()


class TestACrashAtAnyStep:
    """A process may die after each action, each event and each commit; the next attempt goes on."""

    @pytest.mark.parametrize(("strategy", "mode"), EACH_MODE)
    @pytest.mark.parametrize(
        ("sparse", "rows_per_s"),
        [pytest.param(True, None, id="sparse"), pytest.param(False, 5, id="under-a-limit")],
    )
    @pytest.mark.parametrize("seed", range(SHARES))
    def test_loses_and_doubles_nothing(
        self, strategy: str, mode: str, sparse: bool, rows_per_s: int | None, seed: int
    ) -> None:
        """R-SNAP-6, 37 to 39: a restart continues from what was sealed, whatever was under way."""
        given = small(strategy, mode, sparse=sparse, rows_per_s=rows_per_s)
        die_at_each_step(given, lived(given).steps, seed)

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize("seed", range(20))
    def test_again_and_again(self, strategy: str, seed: int) -> None:
        """A node that kills its pods every few seconds is slow, not wrong."""
        world = drawn(strategy, seed, **KILLED)
        assert world.run().crashes > 0


AHEAD = sorted({strategy for strategy, _ in READING_AHEAD})


class TestPartsOfASplit:
    """ADR 0018: sealed one by one, so that a crash finds some of them in the target and some not."""

    @pytest.mark.parametrize(("strategy", "mode"), [one for one in READING_AHEAD if one[1] != "Changelog"])
    @pytest.mark.parametrize("seed", range(SHARES))
    def test_a_crash_between_them_loses_and_doubles_nothing(self, strategy: str, mode: str, seed: int) -> None:
        """At every step: what was not sealed is read again, cut by the same rule."""
        given = small(strategy, mode, seed=2, rows=30, trouble_s=12.0, **HIGH)
        first = lived(given)
        assert first.oracle.halves > 3
        die_at_each_step(given, first.steps, seed)

    @pytest.mark.parametrize("strategy", AHEAD)
    @pytest.mark.parametrize("seed", range(60))
    def test_in_any_world(self, strategy: str, seed: int) -> None:
        """With faults, pauses, stops, and limits that go from one way of charging to the other."""
        drawn(strategy, seed, **READ_AHEAD).run()

    @pytest.mark.rest
    @pytest.mark.parametrize("strategy", AHEAD)
    def test_worlds_are_worth_it(self, strategy: str) -> None:
        """Most of them must seal splits in halves, and die between the halves."""
        mode = modes_of(strategy)[0]
        worlds = [drawn(strategy, seed, mode=mode, rows=150, crashes=0.01, **HIGH).run() for seed in range(20)]

        assert sum(world.oracle.halves > 0 for world in worlds) > 8
        assert sum(world.crashes for world in worlds) > 20


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestAProcessThatWillNotDie:
    """What a killed process had handed to the storage may still land, until the next one has fenced it off."""

    @pytest.mark.parametrize("seed", range(30))
    def test_disturbs_no_other(self, strategy: str, seed: int) -> None:
        """The fence is refused if the state it continues is not the newest any more."""
        drawn(strategy, seed, **STUBBORN).run()

    @pytest.mark.rest
    def test_is_why_the_fence_looks_at_the_last_transaction(self, strategy: str) -> None:
        """A fence that only raises the number lets a late commit land between reading the state and fencing."""
        broken = 0
        for seed in range(40):
            try:
                drawn(strategy, seed, crashes=0.06, stubborn=True, checked_fence=False, commits=20).run()
            except Broken:
                broken += 1
        assert broken > 0


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestOthersInTheTarget:
    """Another writer commits while the target is compared, and a VACUUM takes what is staged and not sealed."""

    @pytest.mark.parametrize("seed", range(40))
    def test_the_last_receipt_is_about_all_that_the_target_holds(self, strategy: str, seed: int) -> None:
        """What is gone is staged again, and what came after a receipt is compared too."""
        drawn(strategy, seed, **OTHERS).run()

    @pytest.mark.rest
    def test_worlds_are_worth_it(self, strategy: str) -> None:
        """They meet others, and lose files."""
        worlds = [drawn(strategy, seed, **OTHERS).run() for seed in range(30)]

        assert sum(world.others for world in worlds) > 20
        assert sum(world.vacuums for world in worlds) > 10


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestASourceThatGrowsAtItsEnd:
    """Rows come behind the last key all the time, and a read of them is as bounded as any other (fault M1)."""

    @pytest.mark.parametrize("seed", range(60))
    def test_is_read_within_the_limit(self, strategy: str, seed: int) -> None:
        """R-ARR-9, R-SNAP-41: estimates of the start say nothing of them; pauses let many of them come."""
        drawn(strategy, seed, **GROWING).run()


class TestAJobThatIsRescaled:
    """Each attempt has another `maxInFlight`: the state of one fits all (fault M9)."""

    @pytest.mark.parametrize("strategy", WITH_KNOB["rescaled"])
    @pytest.mark.parametrize("seed", range(40))
    def test_loses_and_doubles_nothing(self, strategy: str, seed: int) -> None:
        """And reads with as many readers as its attempt has."""
        drawn(strategy, seed, **KNOBS["rescaled"]).run()

    @pytest.mark.rest
    @pytest.mark.parametrize("strategy", WITH_KNOB["rescaled"])
    def test_worlds_are_worth_it(self, strategy: str) -> None:
        """Attempts follow each other, and keep more readers busy than the default has."""
        worlds = [drawn(strategy, seed, **KNOBS["rescaled"]).run() for seed in range(40)]

        assert sum(world.crashes for world in worlds) > 40
        assert sum(world.oracle.full > 0 for world in worlds) > 8


class TestAJobOnAJob:
    """The source is the target of another job, commit by commit (fault M9)."""

    @pytest.mark.parametrize("strategy", WITH_KNOB["stacked"])
    @pytest.mark.parametrize("seed", range(40))
    def test_holds_what_the_first_job_promises_of_its_source(self, strategy: str, seed: int) -> None:
        """Also where the first job takes its rows out, and begins anew with the same keys."""
        drawn(strategy, seed, **KNOBS["stacked"]).run()

    @pytest.mark.rest
    @pytest.mark.parametrize("strategy", WITH_KNOB["stacked"])
    def test_worlds_are_worth_it(self, strategy: str) -> None:
        """Both ends are compared, and each kind of commit is met."""
        worlds = [drawn(strategy, seed, **KNOBS["stacked"]).run() for seed in range(40)]
        kinds = Counter(one.kind for world in worlds if world.upstream for one in world.upstream.target.commits)

        assert sum(world.chains for world in worlds) > 15
        assert kinds["seal"] > 100
        assert (kinds["merge"] > 10) == (UPSERT in modes_of(strategy))


@pytest.mark.parametrize("strategy", WITH_KNOB["mixed"])
class TestVnodesAtDifferentPositions:
    """Some vnodes are complete, some are not begun, others are between (fault M9)."""

    @pytest.mark.parametrize("seed", range(60))
    def test_are_each_read_from_their_position(self, strategy: str, seed: int) -> None:
        """R-ARR-13, 23, 25: and a change counts by the position of its own vnode."""
        drawn(strategy, seed, **KNOBS["mixed"]).run()
