"""The core of the snapshot strategy in simulated worlds; see support/sim_world.py.

Every seal of every world is compared with the upstream, row by row. To look at a failing seed:
`World(scenario(seed))`, `run()`, then read `history`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from support.simulation.oracle import Broken
from support.simulation.tables import APPEND, CHANGELOG, UPSERT
from support.simulation.world import Scenario, World, scenario

from backfill_core import strategies

SEEDS = 150
STRATEGIES = sorted(strategies.discover())
"""The laws hold for whatever is discovered; a strategy that breaks one is not one."""

SMALL = Scenario(seed=0, rows=14, commits=4, trouble_s=6.0, commands=2, verify_final=True)
"""Small enough to die at each of its steps."""

LAYOUTS = [
    pytest.param(True, None, id="large-files"),
    pytest.param(False, 5, id="slices-under-a-limit"),
]


@cache
def finished(strategy: str, seed: int) -> World:
    return World(replace(scenario(seed), strategy=strategy)).run()


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestTheCoreInvariant:
    """At every seal the target holds what its state says; nothing is lost, doubled or forgotten."""

    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_holds_in_any_world(self, strategy: str, seed: int) -> None:
        """R-SNAP-8, 9, 19, 36, 37, 38, 41, 42, 43, 44: faults, crashes, commands, in every mixture.

        Modes, layouts, filters, limits, seal intervals and the number of commits are drawn from the seed; the
        oracle looks at each commit, each start of work, and each acknowledgement.
        """
        world = finished(strategy, seed)
        assert world.oracle.seals > 0

    def test_worlds_are_worth_it(self, strategy: str) -> None:
        """A simulator that never crashes or merges proves nothing."""
        done = Counter[str]()
        for seed in range(SEEDS):
            world, oracle = finished(strategy, seed), finished(strategy, seed).oracle
            done.update(crashes=world.crashes, stops=world.stops, merges=oracle.merges, receipts=oracle.receipts)
            done.update(began_paused=world.given.paused is not None)
            done.update(seals=oracle.seals, splits=oracle.splits, acks=oracle.acks)
        wanted = {"crashes": 100, "stops": 30, "merges": 40, "receipts": 60, "seals": 1000, "splits": 500, "acks": 400}
        wanted["began_paused"] = 40
        assert all(done[name] >= least for name, least in wanted.items()), done

    def test_a_seed_is_a_world(self, strategy: str) -> None:
        """A failing seed must fail again, or nobody can find out why."""
        given = replace(scenario(17), strategy=strategy)
        one, other = World(given).run(), World(given).run()
        assert one.history == other.history


def die_at_each_step(given: Scenario, steps: int) -> None:
    """Live a world once for each of its steps, and die after it: once, and with nothing broken."""
    for step in range(1, steps + 1):
        try:
            world = World(replace(given, crash_at=step)).run()
        except Broken as broken:
            pytest.fail(f"dead after step {step}: {broken}")
        assert world.crashes == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestACrashAtAnyStep:
    """A process may die after each action, each event and each commit; the next attempt goes on."""

    @pytest.mark.parametrize("mode", [UPSERT, APPEND, CHANGELOG])
    @pytest.mark.parametrize(("sparse", "rows_per_s"), LAYOUTS)
    def test_loses_and_doubles_nothing(self, strategy: str, mode: str, sparse: bool, rows_per_s: int | None) -> None:
        """R-SNAP-37, R-SNAP-38, R-SNAP-39: a restart continues from what was sealed, whatever was under way."""
        given = replace(SMALL, strategy=strategy, mode=mode, sparse=sparse, rows_per_s=rows_per_s)
        die_at_each_step(given, World(given).run().steps)

    @pytest.mark.parametrize("seed", range(20))
    def test_again_and_again(self, strategy: str, seed: int) -> None:
        """A node that kills its pods every few seconds is slow, not wrong."""
        given = replace(scenario(seed), strategy=strategy, crashes=0.08, rows=40, sparse=True, rows_per_s=None)
        assert World(given).run().crashes > 0


HIGH = {"sparse": True, "filtered": True, "rows_per_s": 100_000}
"""A limit at which whole files are read ahead; under a filter a part is charged for its rows of the line, dead ones too."""


class TestPartsOfASplit:
    """ADR 0018: sealed one by one, so that a crash finds some of them in the target and some not."""

    @pytest.mark.parametrize("mode", [UPSERT, APPEND])
    def test_a_crash_between_them_loses_and_doubles_nothing(self, mode: str) -> None:
        """At every step: what was not sealed is read again, cut by the same rule."""
        given = replace(SMALL, rows=30, mode=mode, trouble_s=12.0, **HIGH)
        first = World(given).run()
        assert first.oracle.halves > 3
        die_at_each_step(given, first.steps)

    @pytest.mark.parametrize("seed", range(60))
    def test_in_any_world(self, seed: int) -> None:
        """With faults, pauses, stops, and limits that go from one way of charging to the other."""
        given = replace(scenario(seed), rows=150, commands=12, **HIGH)
        World(given).run()

    def test_worlds_are_worth_it(self) -> None:
        """Most of them must seal splits in halves, and die between the halves."""
        worlds = [
            World(replace(scenario(seed), mode=UPSERT, rows=150, crashes=0.01, **HIGH)).run() for seed in range(20)
        ]

        assert sum(world.oracle.halves > 0 for world in worlds) > 8
        assert sum(world.crashes for world in worlds) > 20


class TestAProcessThatWillNotDie:
    """What a killed process had handed to the storage may still land, until the next one has fenced it off."""

    @pytest.mark.parametrize("seed", range(30))
    def test_disturbs_nobody(self, seed: int) -> None:
        """The fence is refused if the state it continues is not the newest any more."""
        given = replace(scenario(seed), crashes=0.04, stubborn=True, commits=20)
        World(given).run()

    def test_is_why_the_fence_looks_at_the_last_transaction(self) -> None:
        """A fence that only raises the number lets a late commit land between reading the state and fencing."""
        broken = 0
        for seed in range(40):
            given = replace(scenario(seed), crashes=0.06, stubborn=True, checked_fence=False, commits=20)
            try:
                World(given).run()
            except Broken:
                broken += 1
        assert broken > 0


class TestOthersInTheTarget:
    """Somebody writes while the target is compared, and a VACUUM takes what is staged and not sealed."""

    @pytest.mark.parametrize("seed", range(40))
    def test_the_last_receipt_is_about_all_that_the_target_holds(self, seed: int) -> None:
        """What is gone is staged again, and what came after a receipt is compared too."""
        World(replace(scenario(seed), verify_final=True, others=0.7, vacuums=0.4)).run()

    def test_worlds_are_worth_it(self) -> None:
        """They meet others, and lose files."""
        worlds = [
            World(replace(scenario(seed), verify_final=True, others=0.7, vacuums=0.4)).run() for seed in range(20)
        ]
        assert sum(world.others for world in worlds) > 20
        assert sum(world.vacuums for world in worlds) > 10


class TestTheOracle:
    """Who watches the watchman: what is wrong in the target is noticed at the next commit."""

    @pytest.mark.parametrize("at_s", [1.5, 3.5])
    @pytest.mark.parametrize("mode", [UPSERT, APPEND, CHANGELOG])
    def test_notices_a_single_row(self, mode: str, at_s: float) -> None:
        """One row too many, inserted by somebody else."""
        world = World(replace(SMALL, mode=mode, rows_per_s=2, commands=0, verify_final=False))
        world.after(at_s, lambda: world.target.spoil((999, 999)))
        with pytest.raises(Broken, match="surplus"):
            world.run()
