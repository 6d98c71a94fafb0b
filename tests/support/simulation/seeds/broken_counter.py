"""Ten broken strategies: each breaks one law, in some of a few worlds. They exist only in tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from support.plugin_counter.backfill_counter.strategy import CounterStrategy
from support.simulation.models.counter import CounterModel
from support.simulation.scenario import Scenario
from support.simulation.world import World

from backfill_core.protocol.work import WorkKind


class ForgetsItsPosition(CounterStrategy):
    """Begins each attempt at the first offset."""

    def _continued(self, stored, name, partition):
        return partition


class SkipsWhatWasLost(CounterStrategy):
    """Continues after work that failed."""

    def _lose(self, work):
        partition = self._at[work.partition]
        self._at[work.partition] = replace(partition, staged=work.stop)


class StoresWhatIsNotThere(CounterStrategy):
    """Counts positions that are being read as consumed."""

    @property
    def stored(self):
        return replace(super().stored, consumed={name: partition.taken for name, partition in self._at.items()})


class HandsOverTwice(CounterStrategy):
    """Keeps the files of a commit for the next one."""

    def prepare_commit(self, epoch, permits, now):
        kept = {name: partition.files for name, partition in self._at.items()}
        request = super().prepare_commit(epoch, permits, now)
        self._at = {name: replace(partition, files=kept[name]) for name, partition in self._at.items()}
        return request


class IgnoresPermits(CounterStrategy):
    """Reads history whenever it can."""

    def propose(self, permits, now):
        return super().propose(replace(permits, history=True), now)


class IgnoresTheLimit(CounterStrategy):
    """Ignores every limit."""

    def on(self, event, now):
        if type(event).__name__ != "LimitSet":
            super().on(event, now)


class ReadsEverythingAtOnce(CounterStrategy):
    """Has no bound of work in flight."""

    _histories = 0


class ReadsTwice(CounterStrategy):
    """Starts each range of history twice."""

    def propose(self, permits, now):
        work = super().propose(permits, now)
        for read in work[:1]:
            if read.kind is WorkKind.HISTORY:
                again = replace(read, work_id=permits.first_id + len(work))
                self._running[again.work_id] = again
                return (*work, again)
        return work


class ForgetsNewPartitions(CounterStrategy):
    """Does not store the read offsets of a partition without history."""

    @property
    def stored(self):
        whole = super().stored
        kept = {name: end for name, end in whole.ends.items() if end}
        return replace(whole, ends=kept)


class EndsTooEarly(CounterStrategy):
    """Treats the first poll as the end."""

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


def model_with(cheat: type[CounterStrategy]) -> type[CounterModel]:
    """Return the counter's model, with a strategy that breaks its promises."""

    class Model(CounterModel):
        """Promises more than the strategy keeps."""

        RESUME = staticmethod(lambda spec, stored, opened: cheat(opened.subscribed.newest, stored, range_max=12))

    return Model


def scenario_with(seed: int, **changes: Any) -> Scenario:
    """Return a world with faults, pauses and restarts."""
    given = Scenario("Counter", "Append", seed=seed, rows=400, commits=30, commands=20, faults=0.1, crashes=0.02)
    return replace(given, rows_per_s=40, **changes)


def world(cheat: type[CounterStrategy], seed: int, **changes: Any) -> World:
    """Return a world in which such a strategy runs."""
    return World(scenario_with(seed, **changes), model_with(cheat))
