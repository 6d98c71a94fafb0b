"""Run many simulated worlds of each strategy; the first that breaks a law is minimized and printed step by step.

python build-tools/simulate.py --seeds 10000                   every available strategy
python build-tools/simulate.py --strategy Snapshot --seed 17   one seed; add the printed options to repeat a failure
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.in_place.seeds import run_seed
from support.simulation.model import OF_LIVE_TABLES
from support.simulation.seeds import recipe
from support.simulation.seeds.shrink import Failure, shrink, try_out
from support.simulation.seeds.story import story
from support.simulation.seeds.sweep import Lived, scenarios, sweep
from support.simulation.world import World

from backfill_core import strategies

CHUNK = 25


def chunks(strategy: str, seeds: int) -> Iterator[tuple[str, range]]:
    """Yield the seeds in chunks, each for one call of a process."""
    for first in range(0, seeds, CHUNK):
        yield strategy, range(first, min(first + CHUNK, seeds))


def part(given: tuple[str, range]) -> Lived:
    """Run one chunk.

    Raises:
        FoundWrongError: a live table breaks a law; its note names the seed.
    """
    strategy, seeds = given
    if strategy not in OF_LIVE_TABLES:
        return sweep(strategy, seeds)
    lived = Lived()
    for seed in seeds:
        lived.add(Lived(1, run_seed(seed)))
    return lived


def live_all(strategy: str, seeds: int) -> Lived:
    """Run all seeds of a strategy on two cores at most, with a low priority, until the first failure."""
    lived = Lived()
    with multiprocessing.Pool(min(os.cpu_count() or 1, 2), initializer=os.nice, initargs=(10,)) as pool:
        for batch in pool.imap_unordered(part, chunks(strategy, seeds)):
            lived.add(batch)
            if lived.failure is not None:
                break
    return lived


def tell(failure: Failure) -> None:
    """Print a failure and the command that repeats it."""
    print("\n".join(story(failure.history, failure.law)))
    print(f"again: {recipe.command(failure.given)}")


def main(arguments: list[str]) -> int:
    """Return 1 if a law is broken."""
    parser = argparse.ArgumentParser(description="Run many simulated worlds of each strategy.")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--strategy", default="", help="one strategy; all available ones by default")
    parser.add_argument("--seed", type=int, help="only the world of this seed, changed by --with")
    parser.add_argument("--with", dest="knobs", default="", help="knob=value …, as printed for a failure")
    given = parser.parse_args(arguments)
    chosen = [given.strategy] if given.strategy else sorted(strategies.discover())
    for strategy in chosen:
        started = time.monotonic()
        if given.seed is not None and strategy in OF_LIVE_TABLES:
            run_seed(given.seed)
            print(f"{strategy}: seed {given.seed} breaks no law")
            continue
        if given.seed is not None:
            worlds = scenarios(strategy, given.seed)
            worlds = (recipe.read(strategy, given.seed, given.knobs),) if given.knobs else worlds
            failure = next((result for world in worlds if (result := try_out(world, World)) is not None), None)
            print(f"{strategy}: seed {given.seed} breaks {'no law' if failure is None else 'a law'}")
        else:
            lived = live_all(strategy, given.seeds)
            failure = lived.failure
            print(f"{strategy}: {given.seeds:,} seeds, {lived}, in {time.monotonic() - started:.0f} s", flush=True)
        if failure is not None:
            if not given.knobs:
                print(f"{strategy}: seed {failure.given.seed} breaks a law: {failure.law}\nminimizing …", flush=True)
                failure = shrink(failure, World)
            tell(failure)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
