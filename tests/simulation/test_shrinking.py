"""A failing world is shrunk, printed as a history, and repeated by one command."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import pytest
from support.plugin_counter.backfill_counter.strategy import CounterStrategy
from support.repository import ROOT
from support.simulation.scenario import Scenario, Script
from support.simulation.seeds import recipe, sweep
from support.simulation.seeds.broken_counter import (
    BREACHES,
    EndsTooEarly,
    ForgetsItsPosition,
    SkipsWhatWasLost,
    model_with,
    scenario_with,
)
from support.simulation.seeds.shrink import LISTS, Failure, kind_of, parts, shrink, try_out
from support.simulation.seeds.story import story
from support.simulation.world import World

from backfill_core import strategies

CHEATS = [cheat for cheat, _ in BREACHES]
SHRUNK_FAR = {ForgetsItsPosition, SkipsWhatWasLost, EndsTooEarly}
"""Broken strategies whose smallest failure a test reads; for the others, a smaller one proves the promise."""


def living(cheat: type[CounterStrategy]):
    """Return a factory of worlds in which a broken strategy runs."""
    return lambda given: World(given, model_with(cheat))


@cache
def first_failure(cheat: type[CounterStrategy]) -> Failure:
    """Return the first failure of a broken strategy, before it is shrunk."""
    tried = (try_out(scenario_with(seed), living(cheat)) for seed in range(12))
    return next(failure for failure in tried if failure is not None)


@cache
def small(cheat: type[CounterStrategy]) -> Failure:
    """Return the same failure, shrunk."""
    return shrink(first_failure(cheat), living(cheat), runs_max=150 if cheat in SHRUNK_FAR else 30)


class TestAFailureIsMadeSmall:
    """A user reads ten lines, not a thousand."""

    @pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
    def test_a_shrunk_failure_breaks_the_same_law(self, cheat: type[CounterStrategy]) -> None:
        """A smaller world with another failure would lead to another bug, or to none."""
        before, after = first_failure(cheat), small(cheat)

        assert after.kind == before.kind
        assert after.size < before.size

    def test_a_bug_of_a_restart_needs_one_crash(self) -> None:
        """The strategy loses its position: no fault, no commit of the source and no second crash is involved."""
        script = small(ForgetsItsPosition).given.script
        assert script is not None

        assert len(script.crashes) + len(script.commands) + len(script.signals) == 1
        assert (script.faults, script.commits) == ((), ())

    def test_a_bug_of_a_fault_needs_one_fault(self) -> None:
        """Failed work is skipped: no other event is needed."""
        script = small(SkipsWhatWasLost).given.script
        assert script is not None

        assert len(script.faults) + len(script.commands) + len(script.crashes) <= 1

    def test_a_bug_without_a_cause_needs_no_event(self) -> None:
        """An end that comes too early needs no event at all."""
        script = small(EndsTooEarly).given.script
        assert script is not None

        assert [getattr(script, name) for name in LISTS] == [()] * len(LISTS)


class TestTheStory:
    """The history is read from the top: the source, the user, the driver, the crash, and the finding of the oracle."""

    def test_the_history_is_numbered_and_ends_with_the_law(self) -> None:
        """The last line has the violation; the lines above have its cause."""
        failure = small(ForgetsItsPosition)
        lines = story(failure.history, failure.law)

        assert [int(line.split(".")[0]) for line in lines] == list(range(1, len(lines) + 1))
        assert lines[-1].endswith(f"oracle: {failure.law}")
        assert len(lines) < 40

    def test_the_history_names_actors_and_actions(self) -> None:
        """A crash bug can only be understood with the crash and the commits before it."""
        failure = small(ForgetsItsPosition)
        history = "\n".join(failure.history)

        assert "attempt 1 opens from nothing" in history
        assert "target: version 1 (seal) holds 0 rows" in history
        assert "attempt 2 opens from epoch" in history

    def test_the_history_contains_the_commits_of_the_source(self) -> None:
        """The changes decide which rows must be in the target."""
        world = World(scenario_with(3, commits=3, trouble_s=2.0)).run()

        assert sum("source: " in line for line in world.history) == 3


class TestAScript:
    """A script records random choices first; otherwise removing one event would change all later events."""

    @pytest.mark.parametrize("seed", range(5))
    def test_a_script_gives_the_same_world(self, seed: int) -> None:
        """A world that runs from its script equals the random one."""
        drawn = World(scenario_with(seed)).run()
        given = scenario_with(seed)
        script = Script(
            tuple(range(given.commits)),
            tuple(range(given.commands)),
            crashes=tuple(drawn.crashed_at),
            faults=tuple(drawn.failed_at),
        )

        assert World(scenario_with(seed, script=script)).run().history == drawn.history
        assert drawn.crashes + len(drawn.failed_at) > 0

    def test_a_script_without_an_event_keeps_the_others(self) -> None:
        """The times of the remaining commits do not change."""
        whole, fewer = (Script(commits=kept) for kept in ((0, 1, 2), (0, 2)))
        first, second = (
            [
                line[:9]
                for line in World(scenario_with(1, trouble_s=2.0, script=script)).run().history
                if "source:" in line
            ]
            for script in (whole, fewer)
        )

        assert len(first) == 3
        assert set(second) < set(first)

    def test_parts_of_a_list_are_removed_from_large_to_small(self) -> None:
        """Removable events are then removed in a few runs."""
        assert list(parts((1, 2))) == [(), (2,), (1,)]


class TestTheRecipe:
    """One printed command repeats the failure on any machine."""

    def test_a_recipe_survives_a_round_trip(self) -> None:
        """It contains every knob and every event."""
        given = Scenario(
            "Counter", "Append", seed=7, rows=3, paused="All", script=Script(commits=(1, 2), crashes=(40,))
        )

        assert recipe.read("Counter", 7, recipe.write(given)) == given

    def test_a_recipe_is_a_make_command(self) -> None:
        """A user can type it."""
        given = recipe.read("Counter", 7, "rows=3")

        assert recipe.command(given).startswith("make simulate STRATEGY=Counter SEED=7 WITH=")
        assert recipe.command(sweep.scenarios("Counter", 7)[0]) == "make simulate STRATEGY=Counter SEED=7"

    def test_an_unknown_knob_is_named(self) -> None:
        """A mistyped knob must not be ignored: the world would be another one."""
        with pytest.raises(ValueError, match="no knob row; there are "):
            recipe.read("Counter", 7, "row=3")


class TestKindsOfLaws:
    """The same law with other rows is the same kind; another law is not."""

    def test_numbers_and_rows_do_not_change_the_kind_of_a_law(self) -> None:
        """The numbers of a smaller world are smaller."""
        first = "seal of epoch 12: missing [(1, 2), (3, 4)], surplus []"
        second = "seal of epoch 3: missing [(1, 2)], surplus []"

        assert kind_of(first) == kind_of(second)
        assert kind_of(first) != kind_of("seal of epoch 3: missing [], surplus [(1, 2)]")


class TestASweep:
    """A sweep runs many seeds and prints one line."""

    def test_a_sweep_counts_its_events(self) -> None:
        """A line of zeros would show that the worlds prove nothing."""
        lived = sweep.sweep("Counter", range(6))

        assert (lived.worlds, lived.failure) == (12, None)
        assert "12 worlds: " in str(lived)
        assert lived.met["commits"] > 20

    def test_the_sweep_is_a_program(self) -> None:
        """`make simulate` starts it: for many seeds, and with the command that a failure prints."""
        program = [sys.executable, str(ROOT / "build-tools" / "simulate.py"), "--strategy", "Counter"]
        many, single = (
            subprocess.run([*program, *options], capture_output=True, text=True, check=True).stdout
            for options in (("--seeds", "2"), ("--seed", "7", "--with", "rows=3 script.commits=1"))
        )

        assert many.startswith("Counter: 2 seeds, 4 worlds: ")
        assert single == "Counter: seed 7 breaks no law\n"

    def test_the_program_sweeps_every_strategy(self) -> None:
        """A strategy that it cannot sweep would end `make simulate`, and those behind it would not be looked at."""
        program = [sys.executable, str(ROOT / "build-tools" / "simulate.py"), "--seeds", "1"]
        lines = subprocess.run(program, capture_output=True, text=True, check=True).stdout.splitlines()

        assert [line.split(":")[0] for line in lines] == sorted(strategies.discover())

    def test_a_sweep_ends_at_the_first_failure(self) -> None:
        """Later seeds would only repeat it."""
        lived = sweep.sweep("Counter", range(20), living(EndsTooEarly))

        assert lived.failure is not None
        assert lived.worlds < 40
