"""Many seeds of a strategy: every seed runs two worlds, the drawn one and one that is worse in one way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from support.simulation.model import Model, model_of
from support.simulation.scenario import Scenario, scenario
from support.simulation.seeds.shrink import Failure, try_out
from support.simulation.world import World

KILLED = {"crashes": 0.08, "rows": 40, "sparse": True, "rows_per_s": None}
"""A node that kills its pods every few seconds."""

HIGH = {"sparse": True, "filtered": True, "rows_per_s": 100_000}
"""A limit at which whole files are read ahead; under a filter a part is charged for the rows it reads, dead ones too."""

AHEAD = {"rows": 150, "commands": 12, **HIGH}
STUBBORN = {"crashes": 0.04, "stubborn": True, "commits": 20}
"""Commits that a killed process had handed to the storage may still land."""

GROWING = {"grows_at_end": True, "rows_per_s": 7, "commits": 15, "rows": 12}
"""A table that grows behind its last key faster than a limit lets it be read."""

COMMANDED = {"rescales": 12, "commands": 0, "rows": 150, "crashes": 0.02, "rows_per_s": None}
"""A user who changes `maxInFlight` every few seconds, without a limit: then the width is exact."""

KNOBS: dict[str, dict[str, Any]] = {
    "rescaled": {"rescaled": True, "rows": 150, "crashes": 0.03},
    "stacked": {"stacked": True, "commits": 30},
    "mixed": {"mixed": True, "rows": 60},
    "hidden": {"hidden": True, "verify_final": True, "rows": 150, "crashes": 0.02, "commits": 15},
}
"""Worlds that not every strategy can have: a parallelism that changes, a job on a job, vnodes at different positions."""

OTHERS = {"verify_final": True, "others": 0.7, "vacuums": 0.4}
"""Another writer commits while the target is compared, and a VACUUM deletes staged files."""


def worse(model: type[Model]) -> list[dict[str, Any]]:
    """Return the ways to make a world worse that apply to a strategy."""
    ahead = [] if model.AHEAD_RATE is None else [AHEAD]
    return [KILLED, STUBBORN, OTHERS, GROWING, COMMANDED, *ahead, *(KNOBS[name] for name in sorted(model.KNOBS))]


def scenarios(strategy: str, seed: int) -> tuple[Scenario, Scenario]:
    """Return the two worlds of a seed."""
    model = model_of(strategy)
    drawn, ways = scenario(strategy, model.MODES, seed), worse(model)
    return drawn, replace(drawn, **ways[seed % len(ways)])


@dataclass
class Lived:
    """Counts of the events in the worlds of some seeds."""

    worlds: int = 0
    met: Counter[str] = field(default_factory=Counter)
    failure: Failure | None = None
    """The first one; later seeds are not run."""

    def add(self, other: Lived) -> None:
        """Add the counts of another part of the seeds."""
        self.worlds += other.worlds
        self.met.update(other.met)
        self.failure = self.failure or other.failure

    def __str__(self) -> str:
        """Describe it in one line."""
        return f"{self.worlds:,} worlds: " + ", ".join(f"{count:,} {name}" for name, count in self.met.items())


def lived_in(world: World) -> Counter[str]:
    """Count the events of a world."""
    oracle = world.oracle
    counts = {
        "crashes": world.crashes,
        "stops": world.stops,
        "commits": oracle.seals,
        "pieces of history": oracle.splits,
        "merges": oracle.merges,
        "receipts": oracle.receipts,
        "answers to commands": oracle.acks,
        "changes of the width": oracle.width.changes,
        "faults": len(world.failed_at),
        "commits of others": world.others,
        "files lost": world.vacuums,
        "ends of two jobs": world.chains,
    }
    return Counter(counts | {name: count for name, count in world.model.met.items() if name not in counts})


def sweep(strategy: str, seeds: Iterable[int], live: Callable[[Scenario], World] = World) -> Lived:
    """Run the worlds of some seeds, up to the first that breaks a law."""
    lived = Lived()
    for seed in seeds:
        for given in scenarios(strategy, seed):
            worlds: list[World] = []

            def kept(scenario_: Scenario, worlds: list[World] = worlds) -> World:
                worlds.append(live(scenario_))
                return worlds[-1]

            try:
                lived.failure = try_out(given, kept)
            except Exception as error:
                error.add_note(f"{strategy}: the simulator failed in seed {seed}")
                raise
            lived.worlds += 1
            lived.met.update(lived_in(worlds[-1]))
            if lived.failure is not None:
                return lived
    return lived
