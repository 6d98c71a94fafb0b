"""Progress of a rearranged chain: the number of barriers that overtook the data."""

from __future__ import annotations

from backfill_core.strategies.rearranged_chain.phantoms import Phantom, PhantomQueue


def overtaken(reached: Phantom | None, newest_epoch: int, queue: PhantomQueue) -> str:
    """Describe the barrier that the data reached; empty until the snapshot is complete (R-CHAIN-7)."""
    if reached is None:
        return ""
    waiting = len(queue.phantoms)
    behind = f", {waiting} wait" if waiting else ""
    return f"the data reached barrier {reached.epoch} of {newest_epoch}{behind}"
