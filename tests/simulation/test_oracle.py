"""The oracle notices a breach: each law is broken once, by a strategy that lives only here."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from support.plugin_counter.backfill_counter import strategy as counter
from support.plugin_counter.backfill_counter.strategy import CounterStrategy
from support.simulation.law import Broken
from support.simulation.model import model_of
from support.simulation.models.counter import CounterModel
from support.simulation.region import Region
from support.simulation.scenario import Scenario
from support.simulation.world import World

from backfill_core import strategies
from backfill_core.protocol.work import WorkKind

EACH_MODE = [(strategy, mode) for strategy in strategies.discover() for mode in dict.fromkeys(model_of(strategy).MODES)]


class ForgetsItsPosition(CounterStrategy):
    """Begins each attempt at the first offset."""

    def _continued(self, stored, name, partition):
        return partition


class SkipsWhatWasLost(CounterStrategy):
    """Goes on behind work that failed."""

    def _lose(self, work):
        one = self._at[work.partition]
        self._at[work.partition] = replace(one, staged=work.stop)


class StoresWhatIsNotThere(CounterStrategy):
    """Counts what is being read as consumed."""

    @property
    def stored(self):
        return replace(super().stored, consumed={name: one.taken for name, one in self._at.items()})


class HandsOverTwice(CounterStrategy):
    """Keeps the files of a commit for the next one."""

    def prepare_commit(self, epoch, permits, now):
        kept = {name: one.files for name, one in self._at.items()}
        request = super().prepare_commit(epoch, permits, now)
        self._at = {name: replace(one, files=kept[name]) for name, one in self._at.items()}
        return request


class IgnoresPermits(CounterStrategy):
    """Reads history whenever it can."""

    def propose(self, permits, now):
        return super().propose(replace(permits, history=True), now)


class IgnoresTheLimit(CounterStrategy):
    """Never hears of a limit."""

    def on(self, event, now):
        if type(event).__name__ != "LimitSet":
            super().on(event, now)


class ReadsEverythingAtOnce(CounterStrategy):
    """Knows no bound of work in flight."""

    _histories = 0


class ReadsTwice(CounterStrategy):
    """Starts each range of history twice."""

    def propose(self, permits, now):
        work = super().propose(permits, now)
        for one in work[:1]:
            if one.kind is WorkKind.HISTORY:
                again = replace(one, work_id=permits.first_id + len(work))
                self._running[again.work_id] = again
                return (*work, again)
        return work


class ForgetsNewPartitions(CounterStrategy):
    """Does not store what it read of a partition without history."""

    @property
    def stored(self):
        whole = super().stored
        kept = {name: end for name, end in whole.ends.items() if end}
        return replace(whole, ends=kept)


class EndsTooEarly(CounterStrategy):
    """Calls the first poll the end."""

    _at_the_end = True


BREACHES = [
    (ForgetsItsPosition, "forgotten|read again|doubled|sealed twice|surplus"),
    (SkipsWhatWasLost, "missing"),
    (StoresWhatIsNotThere, "missing"),
    (HandsOverTwice, "surplus|sealed twice"),
    (IgnoresPermits, "started while paused"),
    (IgnoresTheLimit, "rows against"),
    (ReadsEverythingAtOnce, "pieces of history in flight"),
    (ReadsTwice, "read twice in one attempt"),
    (ForgetsNewPartitions, "surplus"),
    (EndsTooEarly, "complete without history"),
]


def world(cheat: type[CounterStrategy], seed: int, **changes: Any) -> World:
    """Return a world with faults, pauses and restarts, in which such a strategy runs."""

    class Model(CounterModel):
        """Promises what the strategy does not keep."""

        RESUME = staticmethod(lambda spec, stored, opened: cheat(opened.subscribed.newest, stored, range_max=12))

    given = Scenario("Counter", "Append", seed=seed, rows=400, commits=30, commands=20, faults=0.1, crashes=0.02)
    return World(replace(given, rows_per_s=40, **changes), Model)


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
