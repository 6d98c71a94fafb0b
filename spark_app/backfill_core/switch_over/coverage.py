"""Part of both tables that a comparison of a switch-over reads: only changed files, or everything.

Two tables that were equal are equal again if the same rows were added to both and removed from both. So a comparison reads the files
that one version has and the other one lacks; the earlier receipt covers all other files. Without a usable receipt it reads everything.

last receipt                                                        compared
-----------------------------------------------------------------   ----------
equal, of the same tables, columns and transform, not newer         OnlyChanges
none; of an earlier release; unequal; of a part; anything else      Everything
usable, but the changed files are as large as the tables            Everything
usable, but its versions, or files removed since then, are gone     Everything
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from backfill_core.protocol.receipt import ReceiptBasis, TableReceipt

T = TypeVar("T")

ROUNDS_MAX: Final = 4
"""Most comparisons before the fence."""

SHORT_S: Final = 5.0
"""A comparison of at most this many seconds leaves few changes for the one after the fence."""

GONE: Final = "files that were removed since the last receipt no longer exist"
EXPIRED: Final = "the versions of the last receipt cannot be read any more"
_ROWS = ("path", "partitionValues", "size", "deletionVector")
"""Fields of an `add` action that decide which rows a reader sees."""


@dataclass(frozen=True, slots=True)
class Everything:
    """All rows are compared."""

    reason: str


@dataclass(frozen=True, slots=True)
class OnlyChanges:
    """Rows of changed files are compared; the receipt covers all others."""

    base: TableReceipt


Coverage = Everything | OnlyChanges


def coverage(
    base: TableReceipt | None, now: ReceiptBasis | None, *, source_version: int, target_version: int
) -> Coverage:
    """Decide what a comparison reads.

    Args:
        base: Last receipt of the job; `None` before the first.
        now: Tables, columns and transform of this comparison; `None` if they are unknown.
        source_version: Version of the source to compare.
        target_version: Version of the target to compare.
    """
    reason = _unusable(base, now, source_version, target_version)
    return Everything(reason) if reason or base is None else OnlyChanges(base)


def _unusable(base: TableReceipt | None, now: ReceiptBasis | None, source_version: int, target_version: int) -> str:
    if base is None:
        return "there is no receipt"
    if not base.equal:
        return "the last receipt found a difference"
    if not base.complete or base.cut_off:
        return "the last receipt covers only a part of the source"
    if base.basis is None or now is None or base.source_version is None:
        return "the last receipt does not name its tables"
    differing = now.differs_from(base.basis)
    if differing:
        return f"{differing} since the last receipt"
    if base.source_version > source_version or base.target_version > target_version:
        return "the last receipt is of newer versions than the tables"
    return ""


def compares_again(seconds: Sequence[float]) -> bool:
    """Return whether changes are compared once more before the fence: the source changed during the last comparison.

    The second comparison always follows: Java then has the code for the one after the fence.

    Args:
        seconds: Duration of each comparison so far.
    """
    return len(seconds) < 2 or (len(seconds) < ROUNDS_MAX and seconds[-1] > SHORT_S)


@dataclass(frozen=True, slots=True)
class ChangedFiles(Generic[T]):
    """Files that only one of two versions has; a file with another deletion vector is in both lists."""

    added: tuple[T, ...]
    removed: tuple[T, ...]
    all: int
    """Number of files of the later version."""

    changed_bytes: int
    all_bytes: int
    """Bytes of the later version."""

    @property
    def count(self) -> int:
        """Number of changed files."""
        return len(self.added) + len(self.removed)


def changed_files(
    before: Iterable[T], after: Iterable[T], *, action: Callable[[T], str], size: Callable[[T], int]
) -> ChangedFiles[T]:
    """Return the files that only one of two versions of a table has.

    Args:
        before: Files of the earlier version.
        after: Files of the later version.
        action: Returns the `add` action of a file, as a line of a commit.
        size: Returns the bytes of a file.
    """
    earlier = {identity_of(action(file)): file for file in before}
    later = {identity_of(action(file)): file for file in after}
    added = tuple(file for key, file in later.items() if key not in earlier)
    removed = tuple(file for key, file in earlier.items() if key not in later)
    return ChangedFiles(added, removed, len(later), sum(map(size, (*added, *removed))), sum(map(size, later.values())))


def identity_of(action: str) -> Hashable:
    """Return the fields of an `add` action that decide which rows a reader sees."""
    add = json.loads(action)["add"]
    return json.dumps([add.get(name) for name in _ROWS], sort_keys=True)


def is_worthwhile(source: ChangedFiles[T], target: ChangedFiles[T]) -> bool:
    """Return whether changed files are smaller than both tables."""
    changed = source.changed_bytes + target.changed_bytes
    return changed == 0 or changed < source.all_bytes + target.all_bytes
