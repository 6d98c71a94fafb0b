"""The oracle detects violations: a strategy that exists only for these tests breaks each law once."""

from __future__ import annotations

from functools import partial

import pytest
from support.plugin_counter.backfill_counter import strategy as counter
from support.plugin_counter.backfill_counter.strategy import CounterStrategy
from support.simulation.law import Broken
from support.simulation.model import OF_LIVE_TABLES, model_of
from support.simulation.models.counter import CounterModel
from support.simulation.region import Region
from support.simulation.scenario import Scenario
from support.simulation.seeds.broken_counter import BREACHES, world
from support.simulation.world import World

from backfill_core import strategies

SIMULATED = sorted({*strategies.discover()} - OF_LIVE_TABLES)
EACH_MODE = [(strategy, mode) for strategy in SIMULATED for mode in dict.fromkeys(model_of(strategy).MODES)]


class TestABreachIsNoticed:
    """A law that no strategy can break protects nothing."""

    @pytest.mark.parametrize(("cheat", "message"), BREACHES, ids=[cheat.__name__ for cheat, _ in BREACHES])
    def test_the_broken_law_is_reported(self, cheat: type[CounterStrategy], message: str) -> None:
        """A few worlds suffice, and the message names the violation."""
        messages = []
        for seed in range(12):
            try:
                world(cheat, seed).run()
            except Broken as broken:
                messages.append(str(broken))

        assert any(word in reported for word in message.split("|") for reported in messages), messages

    def test_the_honest_strategy_breaks_no_law(self) -> None:
        """The worlds are the same, so the oracle detects the violation and nothing else."""
        for seed in range(12):
            world(CounterStrategy, seed).run()

    @pytest.mark.parametrize("at_s", [1.5, 3.5])
    @pytest.mark.parametrize(("strategy", "mode"), [*EACH_MODE, ("Counter", "Append")])
    def test_a_single_row_of_another_writer_is_reported(self, strategy: str, mode: str, at_s: float) -> None:
        """The oracle reports an extra row at the next commit."""
        given = Scenario(strategy, mode, rows=14, commits=4, trouble_s=6.0, rows_per_s=2)
        spoiled = World(given)
        spoiled.after(at_s, partial(spoiled.target.spoil, (999, 999)))

        with pytest.raises(Broken, match="surplus"):
            spoiled.run()


class TestAModel:
    """The laws need the promises of a stored state."""

    def test_a_missing_model_is_reported_with_its_file(self) -> None:
        """A strategy without a model fails with the name of the file to write, not with a KeyError."""
        with pytest.raises(Broken, match=r"strategy SourceFiles has no model: .*models/source_files\.py"):
            World(Scenario("SourceFiles", "Append"))

    def test_the_model_of_the_counter_has_the_bound_of_the_strategy(self) -> None:
        """A looser bound in the model would never be reached."""
        assert counter.HISTORY_MAX == CounterModel.IN_FLIGHT_MAX


class TestARegion:
    """A region has positions on several axes, with operations for overlap, containment and size."""

    def test_two_regions_overlap_only_on_a_common_axis(self) -> None:
        """A position belongs to its axis: the same offsets of two partitions do not overlap."""
        held = Region.of(("a", 0, 10), ("b", 5, 6))

        assert held.common(Region.of(("a", 8, 12), ("b", 0, 5), ("c", 0, 9))) == 2
        assert Region.of(("a", 2, 4), ("a", 4, 4)).within(held)
        assert not Region.of(("a", 2, 11)).within(held)
        assert held.size == 11
