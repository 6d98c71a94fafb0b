"""The oracle notices a breach: each law is broken once, by a strategy that lives only here."""

from __future__ import annotations

from functools import partial

import pytest
from support.plugin_counter.backfill_counter import strategy as counter
from support.plugin_counter.backfill_counter.strategy import CounterStrategy
from support.simulation.law import Broken
from support.simulation.model import model_of
from support.simulation.models.counter import CounterModel
from support.simulation.region import Region
from support.simulation.scenario import Scenario
from support.simulation.seeds.broken_counter import BREACHES, world
from support.simulation.world import World

from backfill_core import strategies

EACH_MODE = [(strategy, mode) for strategy in strategies.discover() for mode in dict.fromkeys(model_of(strategy).MODES)]


class TestABreachIsNoticed:
    """A law that no strategy can break holds nothing."""

    @pytest.mark.parametrize(("cheat", "words"), BREACHES, ids=[cheat.__name__ for cheat, _ in BREACHES])
    def test_by_the_law_that_is_broken(self, cheat: type[CounterStrategy], words: str) -> None:
        """In some of a few worlds; the message names what does not hold."""
        said = []
        for seed in range(12):
            try:
                world(cheat, seed).run()
            except Broken as broken:
                said.append(str(broken))

        assert any(word in one for word in words.split("|") for one in said), said

    def test_the_strategy_itself_breaks_none(self) -> None:
        """In the same worlds: what is noticed is the breach."""
        for seed in range(12):
            world(CounterStrategy, seed).run()

    @pytest.mark.parametrize("at_s", [1.5, 3.5])
    @pytest.mark.parametrize(("strategy", "mode"), [*EACH_MODE, ("Counter", "Append")])
    def test_a_single_row_of_another_writer(self, strategy: str, mode: str, at_s: float) -> None:
        """One row too many is noticed at the next commit."""
        given = Scenario(strategy, mode, rows=14, commits=4, trouble_s=6.0, rows_per_s=2)
        spoiled = World(given)
        spoiled.after(at_s, partial(spoiled.target.spoil, (999, 999)))

        with pytest.raises(Broken, match="surplus"):
            spoiled.run()


class TestAModel:
    """The laws need to know what a stored state promises."""

    def test_is_asked_for_by_a_sentence(self) -> None:
        """A strategy that is only discovered fails with the name of the file to write, not with a KeyError."""
        with pytest.raises(Broken, match=r"strategy SourceFiles has no model: .*models/source_files\.py"):
            World(Scenario("SourceFiles", "Append"))

    def test_of_the_counter_bounds_it_as_the_strategy_does(self) -> None:
        """A bound that is looser than the strategy's would never be met."""
        assert counter.HISTORY_MAX == CounterModel.IN_FLIGHT_MAX


class TestARegion:
    """Positions on several axes: what is held, what is taken, and what both have."""

    def test_knows_what_it_has_in_common_with_another(self) -> None:
        """A position is one of its axis: the same offsets of two partitions have nothing in common."""
        held = Region.of(("a", 0, 10), ("b", 5, 6))

        assert held.common(Region.of(("a", 8, 12), ("b", 0, 5), ("c", 0, 9))) == 2
        assert Region.of(("a", 2, 4), ("a", 4, 4)).within(held)
        assert not Region.of(("a", 2, 11)).within(held)
        assert held.size == 11
