"""Live many simulated worlds of each strategy; the first that breaks a law is made small and told as a story.

python build-tools/simulate.py --seeds 10000                   every strategy that is offered
python build-tools/simulate.py --strategy Snapshot --seed 17   one seed; with what a failure printed, that one
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.simulation.seeds import recipe
from support.simulation.seeds.shrink import Failure, shrink, try_out
from support.simulation.seeds.story import story
from support.simulation.seeds.sweep import Lived, scenarios, sweep
from support.simulation.world import World

from backfill_core import strategies

CHUNK = 25


def chunks(strategy: str, seeds: int) -> Iterator[tuple[str, range]]:
    """Yield the seeds in parts that a process takes at once."""
    for first in range(0, seeds, CHUNK):
        yield strategy, range(first, min(first + CHUNK, seeds))


def part(given: tuple[str, range]) -> Lived:
    """Live one part."""
    strategy, seeds = given
    return sweep(strategy, seeds)


def live_all(strategy: str, seeds: int) -> Lived:
    """Live all seeds of a strategy on all cores, with a low priority, up to the first failure."""
    lived = Lived()
    with multiprocessing.Pool(min(os.cpu_count() or 1, 2), initializer=os.nice, initargs=(10,)) as pool:
        for one in pool.imap_unordered(part, chunks(strategy, seeds)):
            lived.add(one)
            if lived.failure is not None:
                break
    return lived


def tell(found: Failure) -> None:
    """Print a failure and the command that shows it again."""
    print("\n".join(story(found.history, found.law)))
    print(f"again: {recipe.command(found.given)}")


def main(arguments: list[str]) -> int:
    """Return 1 when a law is broken."""
    parser = argparse.ArgumentParser(description="Live many simulated worlds of each strategy.")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--strategy", default="", help="one of them; without it all that are offered")
    parser.add_argument("--seed", type=int, help="only this one, as it is drawn, changed by --with")
    parser.add_argument("--with", dest="knobs", default="", help="knob=value …, as a failure prints them")
    given = parser.parse_args(arguments)
    chosen = [given.strategy] if given.strategy else sorted(strategies.discover())
    for strategy in chosen:
        started = time.monotonic()
        if given.seed is not None:
            worlds = scenarios(strategy, given.seed)
            worlds = (recipe.read(strategy, given.seed, given.knobs),) if given.knobs else worlds
            found = next((one for world in worlds if (one := try_out(world, World)) is not None), None)
            print(f"{strategy}: seed {given.seed} breaks {'no law' if found is None else 'a law'}")
        else:
            lived = live_all(strategy, given.seeds)
            found = lived.failure
            print(f"{strategy}: {given.seeds:,} seeds, {lived}, in {time.monotonic() - started:.0f} s", flush=True)
        if found is not None:
            if not given.knobs:
                print(f"{strategy}: seed {found.given.seed} breaks a law: {found.law}\nmaking it small …", flush=True)
                found = shrink(found, World)
            tell(found)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
