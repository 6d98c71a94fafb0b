"""Bad records on their way into a table of their own, exactly once and in step with the target's commits (ADR 0030).

moment                              the target's newest state               the second table
---------------------------------   -------------------------------------   ------------------------------------
work found bad records              says nothing of them                    their files are staged
the target's commit is durable      announces them, under its transaction   has not got them, or has
the second commit is durable        the same                                has them, under that transaction
the next commit of the target       counts them; may announce others        the same

The second commit is part of what `Seal` asks for. The first commit of an attempt repeats what the newest state announces: a
transaction that the second table knows is not made again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from backfill_core.protocol.stored_fields import StoredFields
from backfill_core.protocol.work import StagedFile


@dataclass(frozen=True, slots=True)
class AnnouncedRecords:
    """The bad records of one commit of the target, found again by the work that staged them."""

    txn: int
    """Transaction version of that commit, and of the second one."""

    works: tuple[int, ...]
    """Numbers of the work, ascending; of the attempt that the transaction names."""

    rows: int
    """In all files of that work in the second table; other numbers there are an error."""

    @property
    def attempt(self) -> int:
        """The attempt that staged them."""
        return self.txn >> 32


@dataclass(frozen=True, slots=True)
class Quarantine:
    """What a state says of bad records."""

    rows: int = 0
    """In the second table, those that are announced included."""

    announced: AnnouncedRecords | None = None
    """Of the commit that wrote the state; None: it has none."""

    def after(self, files: Iterable[StagedFile], txn: int) -> Quarantine:
        """Return what the next commit says, which takes files of bad records; what was announced before is durable."""
        taken = [file for file in files if file.quarantined_by is not None]
        if not taken:
            return Quarantine(self.rows)
        works = sorted({file.quarantined_by for file in taken if file.quarantined_by is not None})
        rows = sum(file.rows for file in taken)
        return Quarantine(self.rows + rows, AnnouncedRecords(txn, tuple(works), rows))

    def encode(self) -> dict[str, Any]:
        """Return the JSON value; it grows with the work of one commit, not with the records."""
        one = self.announced
        announced = None if one is None else {"txn": one.txn, "works": list(one.works), "rows": one.rows}
        return {"rows": self.rows, "announced": announced}

    @classmethod
    def decode(cls, value: Any) -> Quarantine:
        """Read what `encode` returned; None, of a state without bad records, is an empty one.

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
