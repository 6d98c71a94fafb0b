"""The promises of the rearranged chain: as snapshot backfill while it lives, and nothing of an attempt that did not catch up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from support.simulation.law import demand
from support.simulation.model import Compared, Progress, Promise
from support.simulation.models.snapshot import SnapshotModel
from support.simulation.region import Region, Span
from support.simulation.scenario import Scenario
from support.tables.jobs import job

from backfill_api.spec.spec import BackfillSpec
from backfill_core import strategies
from backfill_core.protocol.strategy import StartOver
from backfill_core.protocol.work import ApplyChanges, ReadSplit, Work

UNFINISHED = ("Rearranging", "Draining")
LAST = "Forwarding"
ORDER = {phase: place for place, phase in enumerate((*UNFINISHED, LAST))}
QUEUE_MAX = 3
"""So few that the queue is full in many worlds."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored form."""

    version: int
    phase: str
    rows: int
    done: tuple[tuple[int, int], ...]
    consumed: int
    merging: Mapping[str, Any] | None

    @classmethod
    def of(cls, progress: Progress) -> Stored:
        """Read it."""
        done = tuple((start, stop) for start, stop in progress["done"])
        found = (progress[name] for name in ("consumed", "merging"))
        return cls(progress["version"], progress["phase"], progress["rows"], done, *found)

    @property
    def copying(self) -> bool:
        """Is a part of the pinned version missing?"""
        return sum(stop - start for start, stop in self.done) < self.rows


class RearrangedChainModel(SnapshotModel):
    """The promises in one world; see the module."""

    WORTH: ClassVar[Mapping[str, int]] = {
        "crashes": 60,
        "stops": 15,
        "merges": 30,
        "receipts": 40,
        "seals": 1000,
        "splits": 500,
        "acks": 400,
        "began_paused": 20,
        "versions": 1000,
        "held": 5,
    }

    @staticmethod
    def spec(given: Scenario) -> BackfillSpec:
        """See `Model`."""
        where = {"transform": {"where": "value > 0"}} if given.filters else {}
        strategy = {"type": "RearrangedChain", "rearrangedChain": {"queueMax": QUEUE_MAX}}
        return job("/source", "/target", target={"writeMode": given.mode}, strategy=strategy, **where).spec

    @staticmethod
    def compared(progress: Progress) -> Compared:
        """See `Model`."""
        stored = Stored.of(progress)
        return Compared(stored.version if stored.copying else stored.consumed, complete=not stored.copying)

    # -------------------------------------------------------------- a stored state
    def starts_over(self, progress: Progress) -> bool:
        """What did not catch up is dropped, and nothing else."""
        unfinished = Stored.of(progress).phase in UNFINISHED
        plugin = strategies.discover()[self._strategy]
        asked = isinstance(plugin.open_request(plugin.decode(progress)), StartOver)
        demand(
            asked == unfinished, "an attempt goes on where it must not, or begins anew where it need not (R-CHAIN-15)"
        )
        return unfinished

    def expected(self, progress: Progress) -> Promise:
        """See `Model`."""
        stored = Stored.of(progress)
        return Promise(self.rows_of(stored.version, stored.done if stored.copying else None, stored.consumed))

    def quarantined(self, progress: Progress) -> Promise:
        """A table has no bad records."""
        return Promise(Counter())

    def held(self, progress: Progress) -> Region:
        """Return the sealed rows of the pinned version, and the versions after it."""
        stored = Stored.of(progress)
        done: list[Span] = [("rows", start, stop) for start, stop in stored.done]
        return Region.of(*done, ("versions", stored.version, stored.consumed))

    def check_forward(self, before: Progress, after: Progress) -> None:
        """The pinned version stays (R-CHAIN-3), no change comes before its last row (R-CHAIN-6), no phase goes back."""
        old, new = Stored.of(before), Stored.of(after)
        demand(new.version == old.version, "the pinned version changed (R-CHAIN-3)")
        demand(ORDER[new.phase] >= ORDER[old.phase], "the phase went back")
        demand(new.consumed == new.version or not new.copying, "changes before the snapshot (R-CHAIN-6)")
        demand(not (new.copying and new.phase != UNFINISHED[0]), "caught up before the snapshot (R-CHAIN-8)")

    def check_end(self, progress: Progress) -> None:
        """The job had caught up."""
        demand(Stored.of(progress).phase == LAST, "complete before it had caught up")

    def check_key_proof(self, progress: Progress, merges: int) -> None:
        """The proof is about the snapshot alone: a MERGE before it may have hidden two rows with one key."""
        demand(merges == 0, "the key was proven after a MERGE")
        demand(not Stored.of(progress).copying, "the key was proven before all of the snapshot was there")

    # -------------------------------------------------------------- work
    def check_start(self, progress: Progress, work: Work) -> None:
        """A MERGE waits for the last row of the pinned version, and no row of it is read once the job has caught up."""
        stored = Stored.of(progress)
        if self.txn_of(work) is not None:
            demand(not stored.copying, "changes before the snapshot is sealed (R-CHAIN-6)")
        if isinstance(work, ReadSplit):
            demand(stored.phase == UNFINISHED[0], "the snapshot is read again (R-CHAIN-2)")

    def check_merge(self, progress: Progress, work: Work, txn: int) -> Promise:
        """It was announced by the newest seal, and brings the target to its last version."""
        assert isinstance(work, ApplyChanges)
        stored = Stored.of(progress)
        assert stored.merging is not None
        demand(stored.merging["txn"] == work.txn_version == txn, "a MERGE ran under another number")
        demand((stored.consumed, stored.merging["upto"]) == (work.after, work.upto), "not the announced MERGE")
        return Promise(self.table.view(work.upto))


MODEL = RearrangedChainModel
