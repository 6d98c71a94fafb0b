"""Decisions played against a cluster with faults: lost answers, stale observations, an operator that dies between lines."""

from __future__ import annotations

import pytest
from support.operators.observations import conditions
from support.operators.world import World

SEEDS = range(40)
STORM, CALM = 120, 200


def storm(seed: int, *, endless: bool = False) -> World:
    """Let faults and users interfere for a while."""
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
    """One seed, one story."""

    def test_one_driver_and_in_the_end_the_truth(self, seed: int) -> None:
        """At most one driver pod at any moment; when the faults stop, the job ends well and leaves nothing behind."""
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

    def test_a_deleted_one_goes(self, seed: int) -> None:
        """Whatever it was doing, no driver survives it: a driver without its object cannot be commanded."""
        world = storm(seed)
        world.delete()
        for _ in range(CALM):
            world.tick(5)
            world.reconcile()

        assert world.alive_max <= 1
        assert world.cr is None
        assert world.pods == {}

    def test_what_is_wanted_is_in_force_in_the_end(self, seed: int) -> None:
        """Commands were lost, repeated, superseded by other senders and taken back: the newest spec counts, the status is true."""
        world = storm(seed, endless=True)
        world.calm()
        world.edit(desiredState="Paused", pause={"scope": "History"}, throttle={"rowsPerSecond": 7})
        for _ in range(CALM):
            world.tick(5)
            world.reconcile()

        assert world.cr is not None
        (pod,) = [pod for pod in world.pods.values() if not pod.over]
        driver = world.drivers[pod.uid]
        assert (driver.paused, driver.limits) == ("History", (7, None))
        assert world.cr.status.phase == "Paused"
        assert conditions(world.cr.status).items() >= {"Paused": "True", "Throttled": "True", "Ready": "True"}.items()
        assert conditions(world.cr.status)["ControlSynced"] == "True"
        assert world.cr.status.control is not None
        assert world.cr.status.control.pending == ()
