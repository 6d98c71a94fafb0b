"""The proof that each key has one row in the target. It runs after the snapshot is committed, before a change could hide a duplicate.

key proof      event                                      then
------------   ----------------------------------------   ------------
Due            the snapshot is committed, checks may run  ProofRunning
ProofRunning   it found no two rows with one key          Proven
ProofRunning   it is lost                                 Due
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from backfill_core.protocol.strategy import Permits
from backfill_core.protocol.work import ProveKey

PROVING = "proving that each key has one row in the target; changes wait"


@dataclass(frozen=True, slots=True)
class Due:
    """The target may contain two rows with one key."""


@dataclass(frozen=True, slots=True)
class ProofRunning:
    """The proof is under way."""

    work_id: int


@dataclass(frozen=True, slots=True)
class Proven:
    """Changes need not wait; `stored` is true if a proof was made, and false if no proof is required."""

    stored: bool


KeyProof = Due | ProofRunning | Proven


class KeyProver:
    """The proof of the key in one attempt."""

    def __init__(self, *, due: bool, proven: bool) -> None:
        """Start the machine; `proven` if the proof already exists."""
        self._state: KeyProof = Due() if due and not proven else Proven(proven)
        self._table_version = -1

    @property
    def holds_changes(self) -> bool:
        """True if changes must wait for the proof."""
        return not isinstance(self._state, Proven)

    @property
    def running(self) -> bool:
        """True if the proof is under way."""
        return isinstance(self._state, ProofRunning)

    @property
    def stored(self) -> bool:
        """True if the key is proven, as a state stores it."""
        return isinstance(self._state, Proven) and self._state.stored

    def seal(self, table_version: int) -> None:
        """Prove a newer version of the target from now on."""
        self._table_version = table_version

    def propose(self, permits: Permits, ids: Iterator[int]) -> tuple[ProveKey, ...]:
        """Start the proof if it is due; call it once all rows of the copy are committed."""
        if not isinstance(self._state, Due) or not permits.checks:
            return ()
        self._state = ProofRunning(next(ids))
        return (ProveKey(self._state.work_id, self._table_version),)

    def finish(self) -> None:
        """Record that each key has one row."""
        self._state = Proven(stored=True)

    def lose(self, work_id: int) -> None:
        """Make the proof due again if this was its work."""
        if isinstance(self._state, ProofRunning) and self._state.work_id == work_id:
            self._state = Due()
