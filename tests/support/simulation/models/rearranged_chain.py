"""The promises of the rearranged chain: those of snapshot backfill during an attempt, and none after an attempt that did not catch up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from support.simulation.batch_parts import part_setting
from support.simulation.law import demand
from support.simulation.model import Progress, installed
from support.simulation.models.snapshot import SnapshotModel, Stored
from support.simulation.scenario import Scenario
from support.tables.jobs import job

from backfill_api.spec.spec import BackfillSpec
from backfill_core.protocol.strategy import StartOver
from backfill_core.protocol.work import ReadSplit, Work

UNFINISHED = ("Rearranging", "Draining")
LAST = "Forwarding"
ORDER = {phase: place for place, phase in enumerate((*UNFINISHED, LAST))}
QUEUE_MAX = 3
"""Small, so that the queue is full in many worlds."""


class RearrangedChainModel(SnapshotModel):
    """The promises in one world; see the module."""

    KNOBS: ClassVar[frozenset[str]] = SnapshotModel.KNOBS - {"hidden"}
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
        "parts": 100,
    }

    @staticmethod
    def spec(given: Scenario) -> BackfillSpec:
        """See `Model`."""
        where = {"transform": {"where": "value > 0"}} if given.filters else {}
        strategy = {"type": "RearrangedChain", "rearrangedChain": {"queueMax": QUEUE_MAX, **part_setting(given.seed)}}
        return job("/source", "/target", target={"writeMode": given.mode}, strategy=strategy, **where).spec

    # -------------------------------------------------------------- a stored state
    @staticmethod
    def stored(progress: Progress) -> Stored:
        """Read the stored form."""
        copied = sum(stop - start for start, stop in progress["done"])
        return Stored.of(progress, copying=copied < progress["rows"])

    def starts_over(self, progress: Progress) -> bool:
        """Return whether the attempt did not catch up: only such a state is dropped."""
        unfinished = self.stored(progress).phase in UNFINISHED
        plugin = installed()[self._strategy]
        restarts = isinstance(plugin.open_request(plugin.decode(progress)), StartOver)
        demand(
            restarts == unfinished, "an attempt resumes where it must not, or restarts where it need not (R-CHAIN-15)"
        )
        return unfinished

    def check_forward(self, before: Progress, after: Progress) -> None:
        """Check that the pinned version stays (R-CHAIN-3), no change comes before its last row (R-CHAIN-6), no phase goes back."""
        old, new = self.stored(before), self.stored(after)
        demand(new.version == old.version, "the pinned version changed (R-CHAIN-3)")
        demand(ORDER[new.phase] >= ORDER[old.phase], "the phase went back")
        demand(new.consumed == new.version or not new.copying, "changes before the snapshot (R-CHAIN-6)")
        demand(not (new.copying and new.phase != UNFINISHED[0]), "caught up before the snapshot (R-CHAIN-8)")
        self.check_parts(old, new)

    def check_end(self, progress: Progress) -> None:
        """Check that the job had caught up."""
        demand(self.stored(progress).parts is None, "complete between two parts")
        demand(self.stored(progress).phase == LAST, "complete before it had caught up")

    # -------------------------------------------------------------- work
    def check_start(self, progress: Progress, work: Work) -> None:
        """Check that a MERGE waits for the last row of the pinned version, whose rows are not read once the job has caught up."""
        stored = self.stored(progress)
        if self.txn_of(work) is not None:
            demand(not stored.copying, "changes before the snapshot is sealed (R-CHAIN-6)")
        if isinstance(work, ReadSplit):
            demand(stored.phase == UNFINISHED[0], "the snapshot is read again (R-CHAIN-2)")


MODEL = RearrangedChainModel
