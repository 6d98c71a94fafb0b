"""Quarantine of bad records in a separate table, exactly once and in step with the target's commits (ADR 0030).

event                               newest state of the target              quarantine table
---------------------------------   -------------------------------------   ------------------------------------
work found bad records              does not mention them                   their files are staged
the target's commit is durable      announces them with its transaction     may or may not have them
the second commit is durable        unchanged                               has them, with that transaction
the next commit of the target       counts them; may announce more          unchanged

The second commit is part of `Seal`. The first commit of an attempt repeats the announcement of the newest state. A transaction
that the quarantine table contains is not committed again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.work import StagedFile


@dataclass(frozen=True, slots=True)
class AnnouncedRecords:
    """Bad records of one commit of the target, identified by the work that staged them."""

    txn: int
    """Transaction version of both commits."""

    works: tuple[int, ...]
    """Numbers of the work in the attempt of the transaction, ascending."""

    rows: int
    """Rows in all files of that work in the quarantine table; a different number there is an error."""

    @property
    def attempt(self) -> int:
        """Return the attempt that staged them."""
        return self.txn >> 32


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Bad records in a stored state."""

    rows: int = 0
    """Rows in the quarantine table, including announced rows."""

    announced: AnnouncedRecords | None = None
    """Bad records of the commit that wrote the state; `None` if it has none."""

    def after(self, files: Iterable[StagedFile], txn: int) -> Quarantine:
        """Return the quarantine state for the next commit; records that were announced before are durable."""
        taken = [file for file in files if file.quarantined_by is not None]
        if not taken:
            return Quarantine(self.rows)
        works = sorted({file.quarantined_by for file in taken if file.quarantined_by is not None})
        rows = sum(file.rows for file in taken)
        return Quarantine(self.rows + rows, AnnouncedRecords(txn, tuple(works), rows))

    def encode(self) -> dict[str, Any]:
        """Return the JSON value; its size depends on the work of one commit, not on the records."""
        one = self.announced
        announced = None if one is None else {"txn": one.txn, "works": list(one.works), "rows": one.rows}
        return {"rows": self.rows, "announced": announced}

    @classmethod
    def decode(cls, value: Any) -> Quarantine:
        """Parse the result of `encode`; `None` (no bad records) gives an empty value.

        Raises:
            StateMismatchError: names the first field that does not fit.
        """
        if value is None:
            return cls()
        stored = StoredFields("quarantine", value)
        part = stored.part("announced")
        announced = None
        if part is not None:
            works = tuple(part.typed("works", list))
            announced = AnnouncedRecords(part.typed("txn", int), works, part.typed("rows", int))
        return cls(stored.typed("rows", int), announced)
