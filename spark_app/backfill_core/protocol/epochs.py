"""Numbers of epochs, and the transaction versions that Delta knows them by."""

from __future__ import annotations

from dataclasses import dataclass


def txn_version(attempt: int, epoch: int) -> int:
    """Return the Delta transaction version of an epoch: later attempts are above all earlier ones.

    Epochs go on counting over attempts, so 32 bits of them last 136 years of seconds.
    """
    return attempt << 32 | epoch


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of one attempt; the barrier that closes it may commit under its transaction version."""

    attempt: int
    number: int

    @property
    def txn_version(self) -> int:
        """Its transaction version."""
        return txn_version(self.attempt, self.number)

    def after(self, epochs: int = 1) -> Epoch:
        """Return the epoch so many later."""
        return Epoch(self.attempt, self.number + epochs)
