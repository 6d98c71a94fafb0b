"""What the models of strategies that read a table have in common: the table, and what a MERGE was announced to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from support.simulation.law import demand
from support.simulation.model import Progress, Promise
from support.simulation.scenario import Scenario
from support.simulation.tables import APPEND, CHANGELOG, UPSERT
from support.simulation.versions import VersionedTable

from backfill_core.errors import BackfillError
from backfill_core.protocol.events import Event, Head, SourcePolled
from backfill_core.protocol.work import ApplyChanges, Work


class Announcing(Protocol):
    """A stored form that says which MERGE comes next."""

    @property
    def consumed(self) -> int:
        """Return the version whose rows the target holds."""

    @property
    def merging(self) -> Mapping[str, Any] | None:
        """Return the announced MERGE."""


class TableModel:
    """A model whose source is a table with versions; what a stored state promises is its subclass's to say."""

    MODES: ClassVar[tuple[str, ...]] = (UPSERT, UPSERT, APPEND, CHANGELOG)

    def __init__(self, given: Scenario, *, sparse: bool) -> None:
        """Make the source; `sparse`: see `VersionedTable`."""
        self.mode, self.filtered, self.proves_key = given.mode, given.filters, given.proves_key
        self.table = VersionedTable(
            given.seed, rows=given.rows, append_only=given.mode == APPEND, sparse=sparse, filtered=self.filtered
        )

    # -------------------------------------------------------------- the source
    def change_source(self) -> str:
        """See `Model`."""
        return self.table.commit()

    def poll(self, wall_ms: int) -> Event:
        """See `Model`."""
        return SourcePolled(Head(self.table.version, wall_ms))

    def lost(self, error: BackfillError) -> bool:
        """A table loses nothing here."""
        return False

    def quarantined(self, progress: Progress) -> Promise:
        """A table has no bad records."""
        return Promise(Counter())

    # -------------------------------------------------------------- work
    def txn_of(self, work: Work) -> int | None:
        """See `Model`."""
        return work.txn_version if isinstance(work, ApplyChanges) and self.mode == UPSERT else None

    @staticmethod
    def announced(stored: Announcing, work: Work, txn: int) -> int:
        """Hold a MERGE to the state that announced it; return the version that it brings the target to."""
        assert isinstance(work, ApplyChanges)
        demand(stored.merging is not None, "a MERGE was not announced")
        assert stored.merging is not None
        demand(stored.merging["txn"] == work.txn_version == txn, "a MERGE ran under another number")
        demand((stored.consumed, stored.merging["upto"]) == (work.after, work.upto), "not the announced MERGE")
        return work.upto
