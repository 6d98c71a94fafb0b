"""Where barriers would stand among the data that they overtook: a bounded queue of phantoms.

A barrier passes at once, whatever data is still to come (R-CHAIN-4). It leaves a phantom: its epoch, and the newest version of
the source at that moment. The phantom is reached when the target has everything up to that version.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Phantom:
    """The place of a barrier among the data: behind this version."""

    epoch: int
    version: int


@dataclass(frozen=True, slots=True)
class PhantomQueue:
    """The phantoms that are not reached, both their epochs and their versions ascending."""

    places_max: int
    """How many may wait (R-CHAIN-16)."""

    phantoms: tuple[Phantom, ...] = ()

    @property
    def full(self) -> bool:
        """Must a source that offers back-pressure wait?"""
        return len(self.phantoms) >= self.places_max

    def leave(self, phantom: Phantom) -> PhantomQueue:
        """Add the phantom of a barrier; a barrier has one place, the first one that was seen.

        One without data between it and the one before takes its place: both are reached at once. So it does in a full queue: what
        the end depends on is the newest barrier, and an older one is only not reported.
        """
        if not self.phantoms or self.phantoms[-1].epoch < phantom.epoch:
            last = self.phantoms[-1] if self.phantoms else None
            instead = self.full or (last is not None and last.version == phantom.version)
            return replace(self, phantoms=(*(self.phantoms[:-1] if instead else self.phantoms), phantom))
        return self

    def reach(self, version: int) -> tuple[PhantomQueue, Phantom | None]:
        """Take out what the target has come to; return the newest of those, in their order (R-CHAIN-5)."""
        count = sum(one.version <= version for one in self.phantoms)
        return replace(self, phantoms=self.phantoms[count:]), self.phantoms[count - 1] if count else None
