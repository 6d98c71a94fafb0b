"""Promises about a batch that is merged in parts of its keys, as a state names them; see ADR 0063."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from support.simulation.law import demand
from support.simulation.region import Span
from support.simulation.tables import Row
from support.simulation.versions import Announcing, TableModel

from backfill_core.positions.change_parts import KeyPart
from backfill_core.positions.key_order import KeyColumn, KeyOrder
from backfill_core.protocol.work import ApplyChanges, Work

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


class Parted(Announcing, Protocol):
    """A stored form that may be between two parts."""

    @property
    def parts(self) -> BatchParts | None:
        """Return the position inside the batch after the consumed version."""


def part_setting(seed: int) -> dict[str, int]:
    """Return the setting of a world's strategy: a bound in every other one."""
    return {"changePartMebibytes": PART_MEBIBYTES} if seed % 2 == 0 else {}


def cut(work: ApplyChanges, changed: Iterable[int]) -> tuple[tuple[int], ...]:
    """Return cuts of a batch that is too large, as the driver makes them; empty if it is not."""
    keys = sorted(changed)
    if work.part_bytes is None or len(keys) << 20 <= work.part_bytes:
        return ()
    return tuple((key,) for key in keys[1:-1:2])


def held_versions(stored: Parted, first: int) -> Span:
    """Return the versions after the first one whose changes a state has; of a batch in parts, the keys of these parts."""
    parts = stored.parts
    keys = parts.cuts[parts.done - 1] + 1 if parts is not None and parts.done else 0
    return ("versions", first * KEYS_MAX, stored.consumed * KEYS_MAX + keys)


def taken_versions(work: ApplyChanges) -> Span:
    """Return the versions whose changes a piece of work takes; of a part, its keys."""
    first, low, high = work.after * KEYS_MAX, None, None
    if work.part is not None:
        low, high = work.part.low, work.part.high
    start = first if low is None else first + int(low[0] or 0) + 1
    return ("versions", start, work.upto * KEYS_MAX if high is None else first + int(high[0] or 0) + 1)


def merged(stored: Parted, work: Work, txn: int, rows_at: Callable[[int], Counter[Row]]) -> Counter[Row]:
    """Check that the newest state announced a MERGE; return the target's rows after it. `rows_at` gives those of a version."""
    assert isinstance(work, ApplyChanges)
    if work.part is None or work.part.high is None:
        return rows_at(TableModel.announced(stored, work, txn))
    parts = stored.parts
    demand(parts is not None and stored.merging is None, "a part was merged that no state has")
    assert parts is not None
    demand(parts.txn == work.txn_version == txn, "a part was merged under another number (R-PART-3)")
    demand((stored.consumed, parts.upto) == (work.after, work.upto), "not the batch of the state")
    parts.check_next(work.part)
    return parts.mixed(rows_at(stored.consumed), rows_at(parts.upto), 1)


def in_part(part: KeyPart | None, key: int) -> bool:
    """Return whether a part contains a key."""
    if part is None:
        return True
    return (part.low is None or (key,) > part.low) and (part.high is None or (key,) <= part.high)
