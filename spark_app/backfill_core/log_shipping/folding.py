"""Several versions of a table's log as one step.

What comes and goes between the first and the last of them is not there. OPTIMIZE and its like say of their files that no data
changes. One step may say so of a file only where every version that is in it does: if a version adds a file, and OPTIMIZE of a later one
takes it in, then the file of OPTIMIZE is what brings the new rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from backfill_core.log_shipping.actions import FileAdded, FileRemoved, VersionActions


@dataclass(frozen=True, slots=True)
class Step:
    """What some versions come to."""

    present: Mapping[str, FileAdded]
    """Of the files that they name, those that are in the table afterwards, under their last deletion vector; by path."""

    absent: tuple[str, ...]
    """Of the files that they name, those that are not in the table afterwards; some never were, before the first version."""

    needed: Mapping[str, int]
    """Of the files that were in the table before, and leave it or get another vector, those with rows as the log says: how many."""

    changed: frozenset[str]
    """Paths of the files whose coming, going or other vector changes data."""


def fold(versions: Sequence[VersionActions]) -> Step:
    """Return what versions come to, which follow each other without a gap."""
    last: dict[str, FileAdded | None] = {}
    needed: dict[str, int] = {}
    for version in versions:
        removed = {one.path: one for one in version.files if isinstance(one, FileRemoved)}
        needed |= {path: one.live_rows for path, one in removed.items() if path not in last and one.live_rows}
        last |= dict.fromkeys(removed)
        # A path in both stays, whatever their order in the commit.
        last |= {one.path: one for one in version.files if isinstance(one, FileAdded)}
    present = {path: one for path, one in last.items() if one is not None}
    absent = tuple(path for path, one in last.items() if one is None)
    return Step(present, absent, needed, frozenset(_changed(versions)))


def beginning(versions: Iterable[VersionActions], *, bytes_max: int) -> tuple[VersionActions, ...]:
    """Return as many of the first versions as bring at most so many bytes of new files, together; at least one.

    A version with another layout comes alone: files before it and after it go other ways. No version after them is asked for but
    the next one.
    """
    taken: list[VersionActions] = []
    new: dict[str, int] = {}
    for version in versions:
        if version.layout is not None:
            return tuple(taken) or (version,)
        removed = {one.path for one in version.files if isinstance(one, FileRemoved)}
        added = {one.path: one.bytes for one in version.files if isinstance(one, FileAdded)}
        # Removed and added at once, a file was there before, unless it is one of the new ones.
        came = {path: count for path, count in added.items() if path not in removed or path in new}
        new = {path: count for path, count in new.items() if path not in removed} | came
        if taken and sum(new.values()) > bytes_max:
            break
        taken.append(version)
    return tuple(taken)


def _changed(versions: Iterable[VersionActions]) -> set[str]:
    """Return the paths that a change of data touched, and those that a rearrangement mixed with them."""
    changed, mixed = set[str](), list[set[str]]()
    for version in versions:
        changed |= {one.path for one in version.files if one.data_change}
        mixed.append({one.path for one in version.files if not one.data_change})
    known = -1
    while known != len(changed):
        known = len(changed)
        for paths in mixed:
            if not paths.isdisjoint(changed):
                changed |= paths
    return changed
