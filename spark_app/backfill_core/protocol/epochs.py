"""Numbers of epochs, and the transaction versions that Delta knows them by."""

from __future__ import annotations


def txn_version(attempt: int, epoch: int) -> int:
    """Return the Delta transaction version of an epoch: later attempts are above all earlier ones.

    Epochs go on counting over attempts, so 32 bits of them last 136 years of seconds.
    """
    return attempt << 32 | epoch
