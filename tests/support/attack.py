"""How long a suite of attacks goes on looking: a few fixed seeds in `make test-all`, fresh ones until its time is used in `make attack`.

    for seed in seeds(4):          # make test-all: 0, 1, 2, 3; make attack: fresh ones for as long as this suite may look
        attack(random.Random(seed))

A fresh seed is printed before it is used, so that the last one of a failure's output is the one that found it;
`BACKFILL_ATTACK_SEED=n` uses that one alone.
"""

import itertools
import os
import random
import time
from collections.abc import Iterator, Sequence

SECONDS = float(os.environ.get("BACKFILL_ATTACK_SECONDS", "0"))
"""How long one suite may look; 0: the steady form."""

ONLY = os.environ.get("BACKFILL_ATTACK_SEED", "")


def cases(steady: int) -> Sequence[int | None]:
    """Return the parameters of a test that makes a case of each steady seed; one case that takes all seeds in the long form."""
    return range(steady) if SECONDS <= 0 and not ONLY else [None]


def seeds(steady: int, *, share: float = 1.0, case: int | None = None) -> Iterator[int]:
    """Yield seeds: the same `steady` ones always, or fresh ones until `share` of the suite's time has passed.

    The time counts from the first seed, and is looked at between two: one that has begun is tried to its end. At least
    one is tried. `case` is one of `cases`: the only steady seed then.
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
