"""Epoch numbers and their Delta transaction versions."""

from __future__ import annotations

from dataclasses import dataclass


def txn_version(attempt: int, epoch: int) -> int:
    """Return the Delta transaction version of an epoch; that of a later attempt is always higher.

    Epoch numbers continue over attempts: 32 bits last 136 years at one epoch a second.
    """
    return attempt << 32 | epoch


def attempt_of(txn: int) -> int:
    """Return the attempt of a Delta transaction version."""
    return txn >> 32


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of one attempt; the barrier that closes it may commit under its transaction version."""

    attempt: int
    number: int

    @property
    def txn_version(self) -> int:
        """Transaction version of the epoch."""
        return txn_version(self.attempt, self.number)

    def after(self, epochs: int = 1) -> Epoch:
        """Return the epoch that is `epochs` later."""
        return Epoch(self.attempt, self.number + epochs)
