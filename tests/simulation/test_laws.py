"""Laws of a strategy in simulated worlds: they hold for every discovered strategy.

Every seal of every world is compared with the source, row by row. The strategy's model (support/simulation/models)
defines the promises of a stored state. `make simulate STRATEGY=… SEED=…` prints the history of a failing seed, and also
runs many seeds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from support.simulation.law import Broken
from support.simulation.model import OF_LIVE_TABLES, model_of, modelled
from support.simulation.scenario import Scenario, scenario
from support.simulation.seeds.sweep import AHEAD as READ_AHEAD
from support.simulation.seeds.sweep import COMMANDED, GROWING, HIGH, KILLED, KNOBS, OTHERS, STUBBORN
from support.simulation.tables import UPSERT
from support.simulation.world import World

from backfill_core import strategies

SEEDS = 150
STRATEGIES = sorted({*strategies.discover(), *modelled()} - OF_LIVE_TABLES)
"""Discovered strategies and strategies with a model: a new strategy needs no other edit."""


def modes_of(strategy: str) -> tuple[str, ...]:
    """Return the modes of a strategy, each once; without a model its tests fail when they run, not when they are
    collected."""
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
    """Return a world that is small enough to crash at each of its steps."""
    return replace(
        Scenario(strategy, mode, rows=14, commits=4, trouble_s=6.0, commands=2, verify_final=True), **changes
    )


def drawn(strategy: str, seed: int, **changes: Any) -> World:
    """Return the world of a seed with these changes."""
    return World(replace(scenario(strategy, model_of(strategy).MODES, seed), **changes))


@cache
def finished(strategy: str, seed: int) -> World:
    """Return the world of a seed after its end; it is run once."""
    return drawn(strategy, seed).run()


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestUnderAnAutomaticLimit:
    """An automatic limit changes with the measured commits, next to commands, pauses, crashes and manual limits."""

    @pytest.mark.parametrize("seed", range(25))
    def test_the_laws_hold_while_the_limit_changes(self, strategy: str, seed: int) -> None:
        """A lower limit gives up rows that were read ahead, at any barrier and without a command."""
        drawn(strategy, seed, auto=True, sparse=False).run()


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestInAnyWorld:
    """At every seal the target holds exactly the rows of its state: no row is lost or duplicated."""

    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_the_laws_hold_in_any_world(self, strategy: str, seed: int) -> None:
        """R-SNAP-8, 9, 19, 35 to 38, 41 to 44, R-CHAIN-1, 3, R-PROG-3: the laws hold for faults, crashes and commands
        in any mixture.

        The seed decides modes, layouts, filters, limits, seal intervals and the number of commits. The oracle checks
        each commit, each start of work, and each acknowledgement.
        """
        world = finished(strategy, seed)
        assert world.oracle.seals > 0

    @pytest.mark.rest
    def test_the_worlds_cover_the_rare_cases(self, strategy: str) -> None:
        """A simulator that never crashes or merges proves nothing."""
        met = Counter[str]()
        for seed in range(SEEDS):
            world, oracle = finished(strategy, seed), finished(strategy, seed).oracle
            met.update(crashes=world.crashes, stops=world.stops, merges=oracle.merges, receipts=oracle.receipts)
            met.update(began_paused=world.given.paused is not None, batches=oracle.batches)
            met.update(seals=oracle.seals, splits=oracle.splits, acks=oracle.acks, quarantined=oracle.quarantined)
            met.update(world.model.met)
        required = model_of(strategy).WORTH
        assert {name: met[name] for name, least in required.items() if met[name] < least} == {}

    def test_a_seed_gives_the_same_world_twice(self, strategy: str) -> None:
        """A failing seed must fail again, or its cause is never found."""
        first, second = drawn(strategy, 17).run(), drawn(strategy, 17).run()
        assert first.history == second.history


SHARES, SAMPLE = 100, 10
"""Number of test cases for a sweep over all steps of a world, and of those in `make test`: a sample of the steps."""

EACH_SHARE = [*range(SAMPLE), *(pytest.param(share, marks=pytest.mark.rest) for share in range(SAMPLE, SHARES))]


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
    """A process may die after each action, each event and each commit; the next attempt continues."""

    @pytest.mark.parametrize(("strategy", "mode"), EACH_MODE)
    @pytest.mark.parametrize(
        ("sparse", "rows_per_s"),
        [pytest.param(True, None, id="sparse"), pytest.param(False, 5, id="under-a-limit")],
    )
    @pytest.mark.parametrize("seed", EACH_SHARE)
    def test_a_crash_loses_and_duplicates_no_row(
        self, strategy: str, mode: str, sparse: bool, rows_per_s: int | None, seed: int
    ) -> None:
        """R-SNAP-6, 37 to 39: a restart continues from the sealed state, whatever work was running."""
        given = small(strategy, mode, sparse=sparse, rows_per_s=rows_per_s)
        die_at_each_step(given, lived(given).steps, seed)

    @pytest.mark.parametrize("strategy", STRATEGIES)
    @pytest.mark.parametrize("seed", range(20))
    def test_repeated_crashes_lose_and_duplicate_no_row(self, strategy: str, seed: int) -> None:
        """A node that kills its pods every few seconds makes a job slow, not wrong."""
        world = drawn(strategy, seed, **KILLED)
        assert world.run().crashes > 0


MERGING_PARTS = [strategy for strategy, mode in EACH_MODE if mode == UPSERT and "parts" in model_of(strategy).WORTH]


class TestPartsOfABatch:
    """ADR 0063: a batch that is too large for one MERGE is merged by key, also while rows behind a position are still to be read."""

    @pytest.mark.parametrize("strategy", MERGING_PARTS)
    @pytest.mark.parametrize("seed", EACH_SHARE)
    def test_a_crash_between_parts_of_a_batch_loses_and_duplicates_no_change(self, strategy: str, seed: int) -> None:
        """R-PART-1 to 3, 5: at each step the target has each key as of the version before the batch or as of its last one."""
        given = small(strategy, UPSERT, seed=28, rows=30, commits=8, trouble_s=8.0, rows_per_s=5)
        first = lived(given)
        assert first.model.met["parts"] > 3
        assert first.model.met.get("bounded_parts", 4) > 3
        die_at_each_step(given, first.steps, seed)


AHEAD = sorted({strategy for strategy, _ in READING_AHEAD})


class TestPartsOfASplit:
    """ADR 0026: parts of a split are sealed separately, so a crash may find some of them in the target and others not."""

    @pytest.mark.parametrize(("strategy", "mode"), [pair for pair in READING_AHEAD if pair[1] != "Changelog"])
    @pytest.mark.parametrize("seed", EACH_SHARE)
    def test_a_crash_between_parts_loses_and_duplicates_no_row(self, strategy: str, mode: str, seed: int) -> None:
        """The rule holds at every step: unsealed parts are read again, cut by the same rule."""
        given = small(strategy, mode, seed=2, rows=30, trouble_s=12.0, **HIGH)
        first = lived(given)
        assert first.oracle.halves > 3
        die_at_each_step(given, first.steps, seed)

    @pytest.mark.parametrize("strategy", AHEAD)
    @pytest.mark.parametrize("seed", range(60))
    def test_parts_are_sealed_once_in_any_world(self, strategy: str, seed: int) -> None:
        """The worlds have faults, pauses, stops, and limits that change the way of charging."""
        drawn(strategy, seed, **READ_AHEAD).run()

    @pytest.mark.rest
    @pytest.mark.parametrize("strategy", AHEAD)
    def test_the_worlds_cover_crashes_between_parts(self, strategy: str) -> None:
        """Most of them must seal splits in halves, and crash between the halves."""
        mode = modes_of(strategy)[0]
        worlds = [drawn(strategy, seed, mode=mode, rows=150, crashes=0.01, **HIGH).run() for seed in range(20)]

        assert sum(world.oracle.halves > 0 for world in worlds) > 8
        assert sum(world.crashes for world in worlds) > 20


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestAProcessThatWillNotDie:
    """Commits of a killed process may still arrive until the next process has fenced it off."""

    @pytest.mark.parametrize("seed", range(30))
    def test_a_process_that_does_not_die_disturbs_no_other(self, strategy: str, seed: int) -> None:
        """The fence is rejected if the state that it continues is no longer the newest."""
        drawn(strategy, seed, **STUBBORN).run()

    @pytest.mark.rest
    def test_the_fence_must_check_the_last_transaction(self, strategy: str) -> None:
        """A fence that only raises the number lets a late commit arrive between the read of the state and the fence."""
        broken = 0
        for seed in range(40):
            try:
                drawn(strategy, seed, crashes=0.06, stubborn=True, checked_fence=False, commits=20).run()
            except Broken:
                broken += 1
        assert broken > 0


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestOthersInTheTarget:
    """Another writer commits while the target is compared, and a VACUUM removes staged files without a seal."""

    @pytest.mark.parametrize("seed", range(40))
    def test_the_last_receipt_covers_the_whole_target(self, strategy: str, seed: int) -> None:
        """Removed files are staged again, and commits after a receipt are compared too."""
        drawn(strategy, seed, **OTHERS).run()

    @pytest.mark.rest
    def test_the_worlds_cover_foreign_commits_and_vacuums(self, strategy: str) -> None:
        """The worlds must have foreign commits and lost files."""
        worlds = [drawn(strategy, seed, **OTHERS).run() for seed in range(30)]

        assert sum(world.others for world in worlds) > 20
        assert sum(world.vacuums for world in worlds) > 10


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestASourceThatGrowsAtItsEnd:
    """Rows arrive behind the last key all the time, and their reads have the same bounds as others (fault M1)."""

    @pytest.mark.parametrize("seed", range(60))
    def test_a_growing_source_is_read_within_the_limit(self, strategy: str, seed: int) -> None:
        """R-ARR-9, R-SNAP-41: estimates from the start do not include these rows, and many of them arrive during a
        pause."""
        drawn(strategy, seed, **GROWING).run()


REFRESHABLE = [
    strategy
    for strategy, mode in dict(EACH_MODE).items()
    if mode != "unknown" and strategy not in ("RearrangedChain", "Counter")
]
REFRESHED = {"refreshes": 2, "crashes": 0.02, "faults": 0.02, "trouble_s": 12.0}


@pytest.mark.parametrize("strategy", REFRESHABLE)
class TestAJobThatIsRefreshed:
    """A finished job runs again, from the position that its target holds, with crashes, faults and commands."""

    @pytest.mark.parametrize("seed", range(40))
    def test_a_refresh_loses_and_duplicates_no_row(self, strategy: str, seed: int) -> None:
        """Every commit of a refresh holds the rows of its state, every end has the receipt that the spec requires, and a refresh of a
        quiet source commits nothing."""
        world = drawn(strategy, seed, **REFRESHED).run()
        assert world.refreshes.ended == REFRESHED["refreshes"] or world.lost is not None

    @pytest.mark.rest
    def test_the_worlds_cover_each_kind_of_refresh(self, strategy: str) -> None:
        """The worlds must have refreshes with and without news, and crashes within them."""
        worlds = [drawn(strategy, seed, **REFRESHED).run() for seed in range(40)]
        assert sum(world.refreshes.up_to_date > 0 for world in worlds) > 5
        assert sum(world.refreshes.ended - world.refreshes.up_to_date for world in worlds) > 20
        assert sum(world.crashes for world in worlds) > 20


class TestAJobThatIsRescaled:
    """Each attempt has another `maxInFlight`: the state of one attempt fits all (fault M9)."""

    @pytest.mark.parametrize("strategy", WITH_KNOB["rescaled"])
    @pytest.mark.parametrize("seed", range(40))
    def test_a_rescaled_job_loses_and_duplicates_no_row(self, strategy: str, seed: int) -> None:
        """Each attempt uses its own number of readers."""
        drawn(strategy, seed, **KNOBS["rescaled"]).run()

    @pytest.mark.rest
    @pytest.mark.parametrize("strategy", WITH_KNOB["rescaled"])
    def test_the_worlds_cover_rescaled_attempts(self, strategy: str) -> None:
        """Attempts follow each other, and keep more readers busy than the default."""
        worlds = [drawn(strategy, seed, **KNOBS["rescaled"]).run() for seed in range(40)]

        assert sum(world.crashes for world in worlds) > 40
        assert sum(world.oracle.full > 0 for world in worlds) > 8


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestAWidthThatChangesByCommand:
    """`maxInFlight` changes while the job runs: no row is lost, and after an acknowledgement no work starts beyond it."""

    @pytest.mark.parametrize("seed", range(30))
    def test_a_change_of_the_width_loses_and_duplicates_no_row(self, strategy: str, seed: int) -> None:
        """Crashes come between a command and its commit; an attempt starts with the last width that a commit holds."""
        drawn(strategy, seed, **COMMANDED).run()

    @pytest.mark.parametrize("seed", range(20))
    def test_a_new_spec_takes_precedence_over_an_earlier_command(self, strategy: str, seed: int) -> None:
        """Each attempt has another `maxInFlight` in its spec, and commands change it meanwhile, next to pauses and limits."""
        both = (
            COMMANDED
            | {"commands": 6}
            | ({"rescaled": True, "crashes": 0.05} if strategy in WITH_KNOB["rescaled"] else {})
        )
        drawn(strategy, seed, **both).run()

    @pytest.mark.rest
    def test_the_worlds_cover_wider_and_narrower_jobs(self, strategy: str) -> None:
        """Most jobs acknowledge several widths; one with a fixed width refuses all of them."""
        worlds = [drawn(strategy, seed, **COMMANDED).run() for seed in range(30)]
        changes = [world.oracle.width.changes for world in worlds]
        fixed = [world.given.mode in world.model.FIXED_WIDTH_MODES for world in worlds]

        assert all(change == 0 for change, refused in zip(changes, fixed, strict=True) if refused)
        assert all(fixed) or sum(changes) > 60
        assert all(fixed) or sum(world.oracle.full for world in worlds) > 4


class TestAJobOnAJob:
    """The source is the target of another job, commit by commit (fault M9)."""

    @pytest.mark.parametrize("strategy", WITH_KNOB["stacked"])
    @pytest.mark.parametrize("seed", range(40))
    def test_a_job_on_a_job_holds_the_rows_of_its_source(self, strategy: str, seed: int) -> None:
        """The first job may remove its rows and start over with the same keys."""
        drawn(strategy, seed, **KNOBS["stacked"]).run()

    @pytest.mark.rest
    @pytest.mark.parametrize("strategy", WITH_KNOB["stacked"])
    def test_the_worlds_cover_each_kind_of_commit(self, strategy: str) -> None:
        """Both ends are compared, and each kind of commit occurs."""
        worlds = [drawn(strategy, seed, **KNOBS["stacked"]).run() for seed in range(40)]
        kinds = Counter(commit.kind for world in worlds if world.upstream for commit in world.upstream.target.commits)

        assert sum(world.chains for world in worlds) > 15
        assert kinds["seal"] > 100
        assert (kinds["merge"] > 10) == (UPSERT in modes_of(strategy))


class TestRowsThatBecomeVisibleTogether:
    """`publish: WhenComplete` and `WhenVerified`: no row is visible before all of them are there, and then all are (ADR 0041)."""

    @pytest.mark.parametrize("strategy", WITH_KNOB["hidden"])
    @pytest.mark.parametrize("seed", range(60))
    def test_hidden_rows_become_visible_in_one_commit(self, strategy: str, seed: int) -> None:
        """Faults, crashes, pauses and stops change nothing: each state names exactly the rows that no reader sees."""
        drawn(strategy, seed, **KNOBS["hidden"]).run()

    @pytest.mark.parametrize("strategy", WITH_KNOB["hidden"])
    @pytest.mark.parametrize("seed", EACH_SHARE)
    def test_a_crash_before_or_after_the_publication_loses_nothing(self, strategy: str, seed: int) -> None:
        """The next attempt continues from the manifest, and a publication whose answer was lost is not repeated."""
        given = small(strategy, modes_of(strategy)[0], hidden=True, seed=1, rows_per_s=5)
        die_at_each_step(given, lived(given).steps, seed)

    @pytest.mark.rest
    @pytest.mark.parametrize("strategy", WITH_KNOB["hidden"])
    def test_the_worlds_cover_joined_parts_and_crashes(self, strategy: str) -> None:
        """A manifest of one part, and a job that never crashes, prove little."""
        worlds = [drawn(strategy, seed, **KNOBS["hidden"]).run() for seed in range(40)]

        assert sum(world.oracle.publication.parts > 2 for world in worlds) > 10
        assert sum(world.crashes for world in worlds) > 40


@pytest.mark.parametrize("strategy", WITH_KNOB["mixed"])
class TestVnodesAtDifferentPositions:
    """Some vnodes are complete, some have not begun, and others are in between (fault M9)."""

    @pytest.mark.parametrize("seed", range(60))
    def test_each_vnode_is_read_from_its_position(self, strategy: str, seed: int) -> None:
        """R-ARR-13, 23, 25: the position of its own vnode also decides about a change."""
        drawn(strategy, seed, **KNOBS["mixed"]).run()
