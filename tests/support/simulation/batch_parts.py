"""Promises about a batch that is merged in parts of its keys, as a state names them; see ADR 0063."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support.simulation.law import demand
from support.simulation.tables import Row

from backfill_core.positions.change_parts import KeyPart
from backfill_core.positions.key_order import KeyColumn, KeyOrder

PART_MEBIBYTES = 3
"""Bound of a batch in every other world, in which each changed key has a mebibyte; others merge every batch whole."""

KEYS_MAX = 1_000_000
"""More than any key: in a region, a version has room for the keys of its parts."""

BY_KEY = KeyOrder((KeyColumn("key", "long"),))


@dataclass(frozen=True, slots=True)
class BatchParts:
    """Position inside the batch after the consumed version."""

    upto: int
    cuts: tuple[int, ...]
    done: int
    txn: int | None

    @classmethod
    def of(cls, value: Mapping[str, Any] | None) -> BatchParts | None:
        """Read it."""
        if value is None:
            return None
        return cls(value["upto"], tuple(key for (key,) in value["cuts"]), value["done"], value["txn"])

    def holds(self, key: int, done: int) -> bool:
        """Return whether the changes of a key are in the target, once it holds some parts."""
        return done > len(self.cuts) or (done > 0 and key <= self.cuts[done - 1])

    def mixed(self, before: Counter[Row], after: Counter[Row], more: int = 0) -> Counter[Row]:
        """Return the rows of a target that holds these parts, and `more`: each key is of the version before the batch, or of its last one."""
        done = self.done + more
        kept = Counter({row: count for row, count in before.items() if not self.holds(row[0], done)})
        return kept + Counter({row: count for row, count in after.items() if self.holds(row[0], done)})

    def check_next(self, part: KeyPart) -> None:
        """Check that a part is the one after those in the target."""
        demand(part.high == (self.cuts[self.done],), "not the next part (R-PART-2)")

    def check_forward(self, after: BatchParts | None, consumed: tuple[int, int]) -> int:
        """Check a later state against this one; return the number of new parts. `consumed` are the versions of both states."""
        if after is not None and consumed[0] == consumed[1]:
            demand((self.upto, self.cuts) == (after.upto, after.cuts), "a batch was cut twice (R-PART-1)")
            demand(after.done in (self.done, self.done + 1), "a part was skipped (R-PART-2)")
            return after.done - self.done
        demand(consumed[1] == self.upto, "a version was consumed before its last part (R-PART-5)")
        demand(self.done == len(self.cuts), "the last parts of a batch were skipped (R-PART-5)")
        return 1


def in_part(part: KeyPart | None, key: int) -> bool:
    """Return whether a part contains a key."""
    if part is None:
        return True
    return (part.low is None or (key,) > part.low) and (part.high is None or (key,) <= part.high)
