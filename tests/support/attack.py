"""Duration of an attack suite: a few fixed seeds in `make test-all`, fresh seeds until its time is used in `make attack`.

    for seed in seeds(4):          # make test-all: 0, 1, 2, 3; make attack: fresh ones until the suite's time is used
        attack(random.Random(seed))

A fresh seed is printed before it is used, so the last one in a failure's output is the one that found it.
`BACKFILL_ATTACK_SEED=n` uses only that one.
"""

import itertools
import os
import random
import time
from collections.abc import Iterator, Sequence

SECONDS = float(os.environ.get("BACKFILL_ATTACK_SECONDS", "0"))
"""Seconds that one suite may search; 0: only the fixed seeds."""

ONLY = os.environ.get("BACKFILL_ATTACK_SEED", "")


def cases(steady: int) -> Sequence[int | None]:
    """Return the parameters of a test with one case per fixed seed; one case that takes all seeds in the long form."""
    return range(steady) if SECONDS <= 0 and not ONLY else [None]


def seeds(steady: int, *, share: float = 1.0, case: int | None = None) -> Iterator[int]:
    """Yield seeds: always the same `steady` ones, or fresh ones until `share` of the suite's time has passed.

    The time counts from the first seed, and is checked between two seeds: a seed that has begun is tried to its end. At least
    one is tried. `case` is one of `cases`: the only fixed seed then.
    """
    if ONLY:
        yield int(ONLY)
    elif SECONDS <= 0:
        for seed in range(steady) if case is None else [case]:
            print(f"seed {seed}", flush=True)
            yield seed
    else:
        until_s = time.monotonic() + SECONDS * share
        chance = random.SystemRandom()
        for number in itertools.count(1):
            seed = chance.randrange(2**64)
            print(f"attack {number}: seed {seed}", flush=True)
            yield seed
            if time.monotonic() >= until_s:
                print(f"{number} seeds tried", flush=True)
                return
