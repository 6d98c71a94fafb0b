"""A job in a queue against a simulated cluster with faults: Kueue admits and evicts at any time, and users edit Workloads."""

from __future__ import annotations

import pytest
from support.operators.queued_world import QueuedWorld

SEEDS = range(25)
STORM, CALM = 120, 200


def storm(seed: int) -> QueuedWorld:
    """Simulate faults, evictions and user actions for a while."""
    world = QueuedWorld(seed)
    for _ in range(STORM):
        world.tick(world.chance.choice([0.2, 1, 1, 5, 20]))
        if world.chance.random() < 0.15:
            world.whim()
        world.reconcile()
    return world


@pytest.mark.parametrize("seed", SEEDS)
class TestWhateverHappens:
    """Each seed is one sequence of events. The world itself asserts that no driver starts before its admission, and that
    no quota is returned while a driver runs."""

    def test_job_succeeds_in_the_end_and_returns_its_quota(self, seed: int) -> None:
        """Evictions, deleted and deactivated Workloads cost no attempt's failure, and no second driver."""
        world = storm(seed)
        world.calm()
        for _ in range(CALM):
            world.tick(5)
            world.reconcile()

        assert world.alive_max <= 1
        assert world.cr is not None
        assert world.cr.status.phase == "Succeeded"
        assert world.workload is None or world.workload.finished

    def test_deleted_backfill_leaves_no_driver(self, seed: int) -> None:
        """Whatever its queue does."""
        world = storm(seed)
        world.delete()
        for _ in range(CALM):
            world.tick(5)
            world.reconcile()

        assert world.cr is None
        assert world.pods == {}
