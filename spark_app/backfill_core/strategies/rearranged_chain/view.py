"""How far a rearranged chain is: how many barriers have overtaken the data."""

from __future__ import annotations

from backfill_core.strategies.rearranged_chain.phantoms import Phantom, PhantomQueue


def overtaken(reached: Phantom | None, newest_epoch: int, queue: PhantomQueue) -> str:
    """Say which barrier the data has come to, once the snapshot is there (R-CHAIN-7); empty before."""
    if reached is None:
        return ""
    waiting = len(queue.phantoms)
    behind = f", {waiting} wait" if waiting else ""
    return f"the data has come to barrier {reached.epoch} of {newest_epoch}{behind}"
