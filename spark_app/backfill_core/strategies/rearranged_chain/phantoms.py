"""Positions of barriers in the data that they overtook: a bounded queue of phantoms.

A barrier passes immediately and does not wait for data (R-CHAIN-4). It leaves a phantom: its epoch, and the newest version of the
source at that time. The phantom is reached when the target contains all data up to that version.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Phantom:
    """Position of a barrier in the data: after this version."""

    epoch: int
    version: int


@dataclass(frozen=True, slots=True)
class PhantomQueue:
    """Phantoms that are not reached yet; their epochs and versions are ascending."""

    places_max: int
    """Maximum number of waiting phantoms (R-CHAIN-16)."""

    phantoms: tuple[Phantom, ...] = ()

    @property
    def full(self) -> bool:
        """Return true if a source that offers back-pressure must wait."""
        return len(self.phantoms) >= self.places_max

    def leave(self, phantom: Phantom) -> PhantomQueue:
        """Add the phantom of a barrier, unless the barrier has one: its first position counts.

        A phantom replaces the previous one if there is no data between them: both would be reached together. It also replaces the
        previous one in a full queue: the end of the phase depends on the newest barrier, and older ones are only reported.
        """
        if not self.phantoms or self.phantoms[-1].epoch < phantom.epoch:
            last = self.phantoms[-1] if self.phantoms else None
            instead = self.full or (last is not None and last.version == phantom.version)
            return replace(self, phantoms=(*(self.phantoms[:-1] if instead else self.phantoms), phantom))
        return self

    def reach(self, version: int) -> tuple[PhantomQueue, Phantom | None]:
        """Return the queue without the phantoms that the target reached, and the newest of these (R-CHAIN-5)."""
        count = sum(phantom.version <= version for phantom in self.phantoms)
        return replace(self, phantoms=self.phantoms[count:]), self.phantoms[count - 1] if count else None


def overtaken(reached: Phantom | None, newest_epoch: int, queue: PhantomQueue) -> str:
    """Describe the barrier that the data reached; empty until the snapshot is complete (R-CHAIN-7)."""
    if reached is None:
        return ""
    waiting = len(queue.phantoms)
    behind = f", {waiting} wait" if waiting else ""
    return f"the data reached barrier {reached.epoch} of {newest_epoch}{behind}"
