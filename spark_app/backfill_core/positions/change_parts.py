"""Position inside a batch of changes that is too large for one MERGE: the keys whose changes the target holds (ADR 0063).

A key belongs to one part. Its part merges all of its changes in the batch at once, so no reader sees a key between two versions of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from backfill_core.positions.key_order import KeyOrder, KeyPosition

DESCRIPTION_MAX = 160
"""Most characters of a position for display; keys may be long."""


@dataclass(frozen=True, slots=True)
class KeyPart:
    """The keys after `low`, up to and including `high`; a bound that is `None` does not apply."""

    order: KeyOrder
    """Columns of the target's key."""

    low: KeyPosition | None
    high: KeyPosition | None

    @property
    def is_last(self) -> bool:
        """True if no part follows."""
        return self.high is None


@dataclass(frozen=True, slots=True)
class ChangeParts:
    """A batch up to a version, in parts; the batch begins after the consumed version (R-PART-1)."""

    upto: int
    order: KeyOrder
    cuts: tuple[KeyPosition, ...]
    """Last key of each part but the last one: ascending."""

    done: int = 0
    """Number of parts that the target holds, from the first one on; less than `of`."""

    txn: int | None = None
    """Transaction version of the MERGE of the next part; `None` if no MERGE is announced."""

    @property
    def of(self) -> int:
        """Return the number of all parts."""
        return len(self.cuts) + 1

    @property
    def next(self) -> KeyPart:
        """Return the part that follows those in the target."""
        low = self.cuts[self.done - 1] if self.done else None
        return KeyPart(self.order, low, self.cuts[self.done] if self.done < len(self.cuts) else None)

    def merged(self) -> ChangeParts:
        """Return the position once the target holds the next part, which is not the last one (R-PART-2)."""
        return replace(self, done=self.done + 1, txn=None)

    def resumed(self, last_txn: int | None) -> ChangeParts:
        """Return the position of a new attempt: an announced part is in the target if its transaction is (R-PART-3)."""
        return self.merged() if self.txn is not None and self.txn == last_txn else replace(self, txn=None)

    def describe(self) -> str:
        """Return the position for users; empty before the first part is merged."""
        if not self.done:
            return ""
        parts = f"{self.done} of {self.of} parts of the changes up to version {self.upto}"
        return f"{parts}, up to {self.order.format_position(self.cuts[self.done - 1])}"[:DESCRIPTION_MAX]

    # -------------------------------------------------------------- JSON
    def encode(self) -> dict[str, Any]:
        """Return the JSON value."""
        return {
            "upto": self.upto,
            "order": self.order.to_json(),
            "cuts": [self.order.encode(cut) for cut in self.cuts],
            "done": self.done,
            "txn": self.txn,
        }

    @classmethod
    def from_json(cls, value: Any) -> ChangeParts:
        """Read the output of `encode`.

        Raises:
            ValueError: the value is not a position inside a batch.
        """
        match value:
            case {"upto": int(upto), "order": order, "cuts": [*cuts], "done": int(done), "txn": int() | None as txn}:
                columns = KeyOrder.from_json(order)
                if 0 <= done <= len(cuts):
                    return cls(upto, columns, tuple(columns.decode(cut) for cut in cuts), done, txn)
        raise ValueError(f"not a position inside a batch: {value!r}")
