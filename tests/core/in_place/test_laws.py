"""Columns of a table are filled while writers commit, drivers die and files are rewritten; 10,000 worlds with `IN_PLACE_WORLDS`."""

import os
import random

import pytest
from support.in_place.live_world import Job, World

WORLDS = int(os.environ.get("IN_PLACE_WORLDS", "400"))
BUSY_STEPS = 40
QUIET_STEPS_MAX = 400
BLOCK = 50


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


class TestABusyTable:
    """Readers, writers and the job share one log; the world raises an error at a version with a wrong row."""

    @pytest.mark.parametrize("first", range(0, WORLDS, BLOCK))
    def test_has_each_row_once_and_every_value_at_the_end(self, first):
        """Writers pause at last, so the job must end, with no row left to fill."""
        for seed in range(first, first + BLOCK):
            world, job = world_of(seed)
            job.run(BUSY_STEPS)
            last = Job(world, writes=0, state=job.state)

            assert last.run(QUIET_STEPS_MAX), f"world {seed} does not end"
            assert world.unfilled(world.version) == [], f"world {seed}"

    def test_meets_everything_that_may_go_wrong(self):
        """Worlds in which no file is lost and no driver dies would prove nothing."""
        lost = deaths = filled = 0
        for seed in range(60):
            _, job = world_of(seed)
            job.run(BUSY_STEPS)
            lost, deaths, filled = lost + job.lost, deaths + job.deaths, filled + job.filled

        assert min(lost, deaths, filled) > 20

    def test_that_is_complete_needs_no_commit(self):
        """Null results must not be computed again, neither by a later round nor by a later job."""
        for seed in range(60):
            world, job = world_of(seed)
            job.writes = job.dies = job.fails = 0
            job.run(QUIET_STEPS_MAX)
            commits = world.ours
            again = Job(world, writes=0)

            assert again.run(QUIET_STEPS_MAX)
            assert world.ours == commits
