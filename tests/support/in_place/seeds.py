"""Seeds of live tables: writers commit, drivers die and files are rewritten while columns are filled, then writers pause."""

from __future__ import annotations

import random
from collections import Counter

from support.in_place.live_world import FoundWrongError, Job, World

BUSY_STEPS = 40
QUIET_STEPS_MAX = 400


def world_of(seed):
    """Return a table with rows of writers that know nothing of the column, and its job."""
    chance = random.Random(seed)
    world = World(chance, merges_on_read=chance.random() < 0.6)
    for _ in range(chance.randint(1, 12)):
        world.write() if world.files else world.append()
        world.now_ms += chance.choice([100, 30_000, 90_000])
    if chance.random() < 0.6:
        world.writers_since = world.version + chance.randint(1, 4)
        while world.version + 1 < world.writers_since:
            world.append()
    return world, Job(
        world, writes=chance.choice([0, 0.1, 0.4]), dies=chance.choice([0, 0.05, 0.2]), fails=chance.choice([0, 0.1])
    )


def run_seed(seed) -> Counter[str]:
    """Run the world of a seed to the end of its job, and count what happened.

    Raises:
        FoundWrongError: a version has a wrong row, the job does not end, or it leaves rows unfilled.
    """
    world, job = world_of(seed)
    try:
        job.run(BUSY_STEPS)
        if not Job(world, writes=0, state=job.state).run(QUIET_STEPS_MAX):
            raise FoundWrongError("the job does not end")
        if unfilled := world.unfilled(world.version):
            raise FoundWrongError(f"rows are left unfilled: {unfilled}")
    except FoundWrongError as wrong:
        wrong.add_note(f"seed {seed}")
        raise
    return Counter({"commits": world.ours, "files filled": job.filled, "files lost": job.lost, "deaths": job.deaths})
