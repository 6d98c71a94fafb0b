"""The proof that the target holds one row a key: once the snapshot is committed, and before a change could hide a doubled one.

key proof      event                                      then
------------   ----------------------------------------   ------------
Due            the snapshot is committed, checks may run  ProofRunning
ProofRunning   it found no two rows with one key          Proven
ProofRunning   it is lost                                 Due
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Due:
    """The target may hold two rows with one key."""


@dataclass(frozen=True, slots=True)
class ProofRunning:
    """The proof is under way."""

    work_id: int


@dataclass(frozen=True, slots=True)
class Proven:
    """Changes need not wait; `stored` says whether a proof was made, or none is wanted."""

    stored: bool


KeyProof = Due | ProofRunning | Proven
