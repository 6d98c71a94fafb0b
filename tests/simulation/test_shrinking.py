"""A failing world is made small, told as a story, and lived again by one command."""

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

CHEATS = [cheat for cheat, _ in BREACHES]


def living(cheat: type[CounterStrategy]):
    """Return what makes worlds in which a broken strategy runs."""
    return lambda given: World(given, model_with(cheat))


@cache
def found(cheat: type[CounterStrategy]) -> Failure:
    """Return the first failure of a broken strategy, as it is found."""
    tried = (try_out(scenario_with(seed), living(cheat)) for seed in range(12))
    return next(one for one in tried if one is not None)


@cache
def small(cheat: type[CounterStrategy]) -> Failure:
    """Return the same, made small."""
    return shrink(found(cheat), living(cheat), runs_max=150)


class TestAFailureIsMadeSmall:
    """A person reads ten lines, not a thousand."""

    @pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
    def test_and_breaks_the_same_law(self, cheat: type[CounterStrategy]) -> None:
        """A smaller world with another failure would lead to another bug, or to none."""
        before, after = found(cheat), small(cheat)

        assert after.kind == before.kind
        assert after.size < before.size

    def test_a_bug_of_a_restart_needs_one_crash(self) -> None:
        """The strategy forgets where it was: no fault, no commit of the source, no second crash has a part in it."""
        script = small(ForgetsItsPosition).given.script
        assert script is not None

        assert len(script.crashes) + len(script.commands) + len(script.signals) == 1
        assert (script.faults, script.commits) == ((), ())

    def test_a_bug_of_a_fault_needs_one_fault(self) -> None:
        """Work that fails is skipped: nothing else has to go wrong."""
        script = small(SkipsWhatWasLost).given.script
        assert script is not None

        assert len(script.faults) + len(script.commands) + len(script.crashes) <= 1

    def test_a_bug_of_a_quiet_day_needs_nothing(self) -> None:
        """An end that comes too early needs no event at all."""
        script = small(EndsTooEarly).given.script
        assert script is not None

        assert [getattr(script, name) for name in LISTS] == [()] * len(LISTS)


class TestTheStory:
    """Read from the top: the source, the user, the driver, the crash, and what the oracle saw."""

    def test_is_numbered_and_ends_with_the_law(self) -> None:
        """The last line is the question; the lines above hold the answer."""
        one = small(ForgetsItsPosition)
        lines = story(one.history, one.law)

        assert [int(line.split(".")[0]) for line in lines] == list(range(1, len(lines) + 1))
        assert lines[-1].endswith(f"oracle: {one.law}")
        assert len(lines) < 40

    def test_names_who_did_what(self) -> None:
        """A crash bug cannot be understood without the crash, nor without what was committed before it."""
        one = small(ForgetsItsPosition)
        words = "\n".join(one.history)

        assert "attempt 1 opens from nothing" in words
        assert "target: version 1 (seal) holds 0 rows" in words
        assert "attempt 2 opens from epoch" in words

    def test_tells_the_commits_of_the_source(self) -> None:
        """What changed decides what must be there."""
        world = World(scenario_with(3, commits=3, trouble_s=2.0)).run()

        assert sum("source: " in line for line in world.history) == 3


class TestAScript:
    """Chance is taken down first; else leaving one event out would change all that come after it."""

    @pytest.mark.parametrize("seed", range(5))
    def test_is_the_same_world(self, seed: int) -> None:
        """Played from its script a world is the one that was drawn."""
        one = World(scenario_with(seed)).run()
        given = scenario_with(seed)
        script = Script(
            tuple(range(given.commits)),
            tuple(range(given.commands)),
            crashes=tuple(one.crashed_at),
            faults=tuple(one.failed_at),
        )

        assert World(scenario_with(seed, script=script)).run().history == one.history
        assert one.crashes + len(one.failed_at) > 0

    def test_without_an_event_has_the_others(self) -> None:
        """The times of the commits that stay are those of before."""
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

    def test_leaves_out_all_of_a_list_then_halves_then_one(self) -> None:
        """What can go goes with few runs."""
        assert list(parts((1, 2))) == [(), (2,), (1,)]


class TestTheRecipe:
    """One printed command, on any machine."""

    def test_comes_back(self) -> None:
        """Every knob and every event of it."""
        given = Scenario(
            "Counter", "Append", seed=7, rows=3, paused="All", script=Script(commits=(1, 2), crashes=(40,))
        )

        assert recipe.read("Counter", 7, recipe.write(given)) == given

    def test_is_a_make_command(self) -> None:
        """As it is typed."""
        given = recipe.read("Counter", 7, "rows=3")

        assert recipe.command(given).startswith("make simulate STRATEGY=Counter SEED=7 WITH=")
        assert recipe.command(sweep.scenarios("Counter", 7)[0]) == "make simulate STRATEGY=Counter SEED=7"

    def test_a_knob_that_there_is_not_is_named(self) -> None:
        """A mistyped one must not be ignored: the world would be another one."""
        with pytest.raises(ValueError, match="no knob row; there are "):
            recipe.read("Counter", 7, "row=3")


class TestKindsOfLaws:
    """The same law with other rows is the same; another law is not."""

    def test_numbers_and_rows_do_not_count(self) -> None:
        """Those of a smaller world are smaller."""
        one = "seal of epoch 12: missing [(1, 2), (3, 4)], surplus []"
        other = "seal of epoch 3: missing [(1, 2)], surplus []"

        assert kind_of(one) == kind_of(other)
        assert kind_of(one) != kind_of("seal of epoch 3: missing [], surplus [(1, 2)]")


class TestASweep:
    """Many seeds, one line."""

    def test_counts_what_was_lived_through(self) -> None:
        """A line of zeros would say that the worlds are worth nothing."""
        lived = sweep.sweep("Counter", range(6))

        assert (lived.worlds, lived.failure) == (12, None)
        assert "12 worlds: " in str(lived)
        assert lived.met["commits"] > 20

    def test_is_a_program(self) -> None:
        """What `make simulate` starts: many seeds, and the command that a failure prints."""
        program = [sys.executable, str(ROOT / "build-tools" / "simulate.py"), "--strategy", "Counter"]
        many, one = (
            subprocess.run([*program, *options], capture_output=True, text=True, check=True).stdout
            for options in (("--seeds", "2"), ("--seed", "7", "--with", "rows=3 script.commits=1"))
        )

        assert many.startswith("Counter: 2 seeds, 4 worlds: ")
        assert one == "Counter: seed 7 breaks no law\n"

    def test_ends_at_the_first_failure(self) -> None:
        """The rest would only repeat it."""
        lived = sweep.sweep("Counter", range(20), living(EndsTooEarly))

        assert lived.failure is not None
        assert lived.worlds < 40
