"""Decisions against a simulated cluster with faults: lost responses, stale observations, an operator that dies between
two steps."""

from __future__ import annotations

import pytest
from support.operators.observations import conditions
from support.operators.world import World

from backfill_core.lifecycle.inputs.launched_of import launched_of

SEEDS = range(40)
STORM, CALM = 120, 200


def storm(seed: int, *, endless: bool = False) -> World:
    """Simulate faults and user actions for a while."""
    world = World(seed)
    if endless:
        world.work_wanted = 10**9
    for _ in range(STORM):
        world.tick(world.chance.choice([0.2, 1, 1, 5, 20]))
        if world.chance.random() < 0.15:
            world.whim()
        world.reconcile()
    return world


@pytest.mark.parametrize("seed", SEEDS)
class TestWhateverHappens:
    """Each seed is one sequence of events."""

    def test_at_most_one_driver_runs_and_the_job_succeeds_in_the_end(self, seed: int) -> None:
        """At most one driver pod exists at any time; when the faults stop, the job succeeds and leaves nothing behind."""
        world = storm(seed)
        world.calm()
        for _ in range(CALM):
            world.tick(5)
            world.reconcile()

        assert world.alive_max <= 1
        assert world.cr is not None
        assert world.cr.status.phase == "Succeeded"
        assert conditions(world.cr.status)["Ready"] == "True"
        assert world.launched == sorted(world.launched)
        assert [pod for pod in world.pods.values() if not pod.over] == []
        assert world.objects == set()
        assert world.cr.finalizers == ()

    def test_a_deleted_backfill_leaves_no_driver(self, seed: int) -> None:
        """No driver survives the deletion: a driver without its object cannot be commanded."""
        world = storm(seed)
        world.delete()
        for _ in range(CALM):
            world.tick(5)
            world.reconcile()

        assert world.alive_max <= 1
        assert world.cr is None
        assert world.pods == {}

    def test_the_newest_spec_is_in_force_in_the_end(self, seed: int) -> None:
        """Commands were lost, repeated, superseded by other senders and reverted: the newest spec counts, and the
        status is correct."""
        world = storm(seed, endless=True)
        world.calm()
        world.edit(executor={"instances": 2})
        for _ in range(9):
            world.tick(5)
            world.reconcile()
        width = {"type": "Snapshot", "snapshot": {"maxInFlight": 6, "splitTargetSeconds": 5}}
        world.edit(
            desiredState="Paused", pause={"scope": "History"}, throttle={"rowsPerSecond": 7},
            strategy=width, executor={"instances": 4},
        )  # fmt: skip
        for _ in range(CALM):
            world.tick(5)
            world.reconcile()

        assert world.cr is not None
        (pod,) = [pod for pod in world.pods.values() if not pod.over]
        driver = world.drivers[pod.uid]
        assert (driver.paused, driver.limits) == ("History", (7, None))
        assert (driver.width.max_in_flight, driver.width.split_target_seconds) == (6, 5)
        waits = (
            driver.width.executors is None
        )  # the attempt was launched without executors, or with a number that follows the load
        assert driver.width.executors in (4, None)
        assert ("EditPending" in conditions(world.cr.status)) == (
            waits or pod.launched_of != launched_of(world.cr.spec)
        )
        assert world.cr.status.phase == "Paused"
        assert conditions(world.cr.status).items() >= {"Paused": "True", "Throttled": "True", "Ready": "True"}.items()
        assert conditions(world.cr.status)["ControlSynced"] == "True"
        assert world.cr.status.control is not None
        assert world.cr.status.control.pending == ()
