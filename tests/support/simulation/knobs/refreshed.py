"""Refreshes of a simulated job: the finished job runs again, while faults, crashes and commands begin again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from support.simulation.law import demand

from backfill_core.job.after_end import Continue, Refuse, Stay, decide_after_end
from backfill_core.job.state import JobState
from backfill_core.protocol.events import Head

if TYPE_CHECKING:
    from support.simulation.world import World


class Refreshes:
    """The refreshes of one world; a refresh may take several attempts."""

    def __init__(self, world: World) -> None:
        """Watch a world whose job runs for the first time."""
        self._world = world
        self._active = False
        self._head: Head | None = None
        """Newest position of the source when the refresh began."""

        self._before = (0, 0)
        """Commits of the target, and crashes, when the refresh began."""

        self.ended = self.up_to_date = 0
        """Refreshes that ended, and those of them that found nothing new."""

    def after_end(self, state: JobState) -> JobState | None:
        """Return the state from which a finished job continues; `None` if the run ends here."""
        world = self._world
        head = world.model.poll(world.wall_ms).head
        match decide_after_end(world.spec_of(state.attempt), state, refresh=self._active, head=head):
            case Continue():
                return state.continued(world.wall_ms, follows=False)
            case Refuse(error=error):
                world.end_for_good(error)
            case Stay(reason=reason):
                demand(reason == "UpToDate" or not self._active, "a refresh ended without reading the source")
                if self._active:
                    commits, crashes = self._before
                    quiet = len(world.target.commits) == commits or world.crashes > crashes
                    demand(quiet, "a refresh with nothing new made a commit")
                    self.up_to_date += 1
                world.end()
        return None

    def _check_reached(self) -> None:
        """Demand that a refresh took everything that the source had when it began."""
        state = JobState.decode(self._world.target.newest.state or "")
        assert self._head is not None
        assert state.consumed is not None
        demand(self._head.newer_than(state.consumed) == 0, "a refresh ended before the newest position at its begin")

    def begin(self) -> bool:
        """Begin the next refresh, unless the world has no more; return whether one began."""
        world = self._world
        if self._active and world.lost is None:
            self._check_reached()
        self.ended += self._active
        if self.ended >= world.given.refreshes:
            return False
        self._active, self._before = True, (len(world.target.commits), world.crashes)
        trouble_s = world.given.trouble_s
        world.calm_at_s = world.now_s + trouble_s
        world.after(trouble_s, world.calm_down)
        before, during = world.rng.choice([0, 1, 4]), world.rng.choice([0, 0, 3])
        world.note("the job runs again: a refresh")
        for number in range(before):
            world.change_source(number)
        self._head = world.model.poll(world.wall_ms).head
        for number in range(during):
            world.after(world.rng.uniform(0, trouble_s), partial(world.change_source, number))
        world.oracle.on_refresh()
        world.after(world.rng.uniform(0.5, 3.0), world.open)
        return True
