"""Switch-overs in a simulated cluster with faults: the name and the job agree, whatever dies between two steps."""

from __future__ import annotations

from collections import Counter

import pytest
from support.operators.switched_world import SwitchedWorld

STORM, CALM = 150, 120


@pytest.mark.parametrize("seed", range(30))
class TestSwitchOversInAStorm:
    """A user requests switch-overs, undos, ends and repairs, and suspends, restarts and edits meanwhile."""

    def test_no_ordinary_attempt_starts_unless_the_source_is_in_use_and_the_status_is_right_in_the_end(
        self, seed: int
    ) -> None:
        """When the faults stop and the user restarts what has failed, every procedure reaches an end."""
        world = SwitchedWorld(seed)
        for _ in range(STORM):
            world.tick(world.chance.choice([0.2, 1, 1, 5, 20]))
            if world.chance.random() < 0.1:
                world.request()
            if world.chance.random() < 0.1:
                world.whim()
            world.reconcile()
        world.calm()
        for turn in range(CALM):
            if turn in (20, 60):
                world.restart()
            world.tick(5)
            world.reconcile()

        assert world.alive_max <= 1
        assert world.cr is not None
        status = world.cr.status
        place = "Source" if status.switch is None else status.switch.place
        copies = status.switch is not None and status.switch.copy_back == "Running"
        assert copies == (world.follows and world.stage == "Target")
        assert (place, status.phase) == {
            "Source": ("Source", "Running"), "Target": ("Target", "Running" if copies else "Succeeded"), "Completed": ("Released", "Succeeded"),
        }[world.stage]  # fmt: skip


class TestTheStorm:
    """The worlds of this file reach every end."""

    def test_reaches_the_ends_of_procedures(self) -> None:
        """A storm without a switch-over would prove nothing."""
        ends: Counter[str] = Counter()
        for seed in range(12):
            world = SwitchedWorld(seed)
            for _ in range(STORM):
                world.tick(2)
                if world.chance.random() < 0.1:
                    world.request()
                world.reconcile()
            ends.update(world.ends)

        assert ends.keys() >= {"Switched", "Undone", "Completed", "Following", "Interrupted", "Repaired"}
