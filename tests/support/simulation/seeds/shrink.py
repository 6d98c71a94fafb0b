"""Makes a failing world small: fewer rows, fewer events, fewer faults, as long as the same law breaks.

First the chances of the world (crashes, faults) become a script of the events that happened. Then knobs are turned down and
events are left out, one after the other. Each change that still breaks the same law is kept. A knob that moves all later
chances also gets some other seeds, because the old script has no meaning there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from support.simulation.law import Broken
from support.simulation.scenario import Scenario, Script
from support.simulation.world import World

RUNS_MAX = 600
OTHER_SEEDS = 6
LISTS = ("crashes", "faults", "signals", "rescales", "commands", "commits")

Live = Callable[[Scenario], World]
"""Makes the world of a scenario; the shrinker runs it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A scenario with the law that it breaks."""

    given: Scenario
    """Scenario with a script of the events that happened."""

    law: str
    """Message of the oracle."""

    history: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The law without the numbers and rows of this world."""
        return kind_of(self.law)

    @property
    def size(self) -> tuple[int, ...]:
        """The measure that shrinks: events first, then the lines that a reader has to read."""
        script = self.given.script or Script()
        events = sum(len(getattr(script, name)) for name in LISTS)
        return (events, self.given.rows, len(self.history))


def kind_of(law: str) -> str:
    """Return a law's message without the numbers and rows of one world."""
    without_rows = re.sub(r"\[\]", "none", law)
    without_rows = re.sub(r"\[.*?\](?=,|$|:)", "some", without_rows)
    return re.sub(r"\d+(\.\d+)?", "#", without_rows.split("(")[0] if "MERGE of" not in law else without_rows)


def try_out(given: Scenario, live: Live) -> Failure | None:
    """Run a scenario; return its failure with a script of the events, `None` if no law breaks."""
    world = live(given)
    try:
        world.run()
    except Broken as broken:
        script = given.script or Script(
            commits=tuple(range(given.commits)),
            commands=tuple(range(given.commands)),
            signals=tuple(range(given.signals)),
            rescales=tuple(range(given.rescales)),
        )
        met = replace(script, crashes=tuple(world.crashed_at), faults=tuple(world.failed_at))
        return Failure(replace(given, script=met, crash_at=None), str(broken), tuple(world.history))
    return None


def shrink(original: Failure, live: Live, *, runs_max: int = RUNS_MAX) -> Failure:
    """Return a failure of the same law with nothing left to leave out, or the smallest one after `runs_max` runs."""
    best, runs, moved = original, 0, True
    while moved:
        moved = False
        for given in candidates(best.given):
            if runs >= runs_max:
                return best
            runs += 1
            failure = try_out(given, live)
            if failure is not None and failure.kind == original.kind and failure.size < best.size:
                best, moved = failure, True
                break
    return best


def candidates(given: Scenario) -> Iterator[Scenario]:
    """Yield simpler scenarios, those that leave out most first."""
    script = given.script or Script()
    yield from _simpler_knobs(given)
    for name in LISTS:
        kept = getattr(script, name)
        for fewer in parts(kept):
            yield replace(given, script=replace(script, **{name: fewer}))
    for rows in dict.fromkeys((0, 1, 2, 4, given.rows // 2, given.rows - 1)):
        if 0 <= rows < given.rows:
            smaller = replace(given, rows=rows)
            yield smaller
            # Other rows change all chances: the script may miss its events, but another seed may have them.
            for seed in range(OTHER_SEEDS):
                yield replace(smaller, seed=seed)
                yield replace(smaller, seed=seed, script=None)


def _simpler_knobs(given: Scenario) -> Iterator[Scenario]:
    plain = {
        "sparse": False,
        "grows_at_end": False,
        "rescaled": False,
        "stacked": False,
        "mixed": False,
        "filtered": False,
        "rows_per_s": None,
        "verify_final": False,
        "commit_every": 1,
        "paused": None,
        "others": 0.0,
        "vacuums": 0.0,
        "stubborn": False,
    }
    changed = {name: value for name, value in plain.items() if getattr(given, name) != value}
    if changed:
        yield replace(given, **changed)
    for name, value in changed.items():
        yield replace(given, **{name: value})
    for trouble_s in (4.0, 10.0):
        if trouble_s < given.trouble_s:
            yield replace(given, trouble_s=trouble_s)


def parts(kept: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield a list without all of it, without either half, without each quarter, then without each element."""
    size = len(kept)
    while size:
        for start in range(0, len(kept), size):
            yield kept[:start] + kept[start + size :]
        size //= 2
