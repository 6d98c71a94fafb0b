"""Columns of a table are filled while writers commit, drivers die and files are rewritten; `make simulate` runs 10,000 worlds."""

import pytest
from support.in_place.live_world import Job
from support.in_place.seeds import BUSY_STEPS, QUIET_STEPS_MAX, run_seed, world_of

WORLDS = 400
BLOCK = 50


class TestABusyTable:
    """Readers, writers and the job share one log; the world raises an error at a version with a wrong row."""

    @pytest.mark.parametrize("first", range(0, WORLDS, BLOCK))
    def test_has_each_row_once_and_every_value_at_the_end(self, first):
        """Writers pause at last, so the job must end, with no row left to fill."""
        for seed in range(first, first + BLOCK):
            run_seed(seed)

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
