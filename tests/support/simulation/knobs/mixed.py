"""A job that resumes from a state whose vnodes are at different positions.

No attempt of this release leaves such a state, but the stored form allows it: another release, or a rescaled job, may write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from support.arrangement.arranged import EVERYTHING, NOTHING, Arranged, Reach
from support.simulation.tables import Row

VNODES = 4


def reach_of(rng: Random, arranged: Arranged, rows: Sequence[Row]) -> Reach:
    """Draw the position of each vnode: at least two differ, so that the job has begun and is not complete."""
    places = sorted({arranged.at(row) for row in rows})
    inside = [rng.choice(places) for _ in range(2)] if places else []
    return tuple(rng.sample([NOTHING, NOTHING, EVERYTHING, *inside], VNODES))


def positions_of(arranged: Arranged, rows: Sequence[Row], reach: Reach) -> list[list[Any]]:
    """Return the stored form of the positions."""
    stored = {arranged.at(row): list(arranged.position(row)) for row in rows}
    runs: list[list[Any]] = []
    for at in reach:
        reached = [] if at == NOTHING else ["Completed"] if at == EVERYTHING else [stored[at]]
        if runs and runs[-1][1:] == reached:
            runs[-1][0] += 1
        else:
            runs.append([1, *reached])
    return runs
