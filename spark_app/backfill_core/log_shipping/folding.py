"""Folds several versions of a table's log into one step.

A step omits files that are both added and removed within it. OPTIMIZE and similar commands mark their files with `dataChange: false`.
A step may do so only if no version in it changes the rows of the file: if one version adds a file, and an OPTIMIZE in a later version
compacts it, then the compacted file brings the new rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from backfill_core.log_shipping.actions import FileAdded, FileRemoved, VersionActions


@dataclass(frozen=True, slots=True)
class ShippedStep:
    """Net effect of several versions."""

    present: Mapping[str, FileAdded]
    """Files that the versions name and that are in the table afterwards, with their last deletion vector; by path."""

    absent: tuple[str, ...]
    """Files that the versions name and that are not in the table afterwards; some were not in it before either."""

    needed: Mapping[str, int]
    """Logged row counts of files that were in the table before and are removed or get another vector; without empty files."""

    changed: frozenset[str]
    """Paths of the files whose addition, removal or new vector changes data."""


def fold(versions: Sequence[VersionActions]) -> ShippedStep:
    """Return the net effect of consecutive versions."""
    last: dict[str, FileAdded | None] = {}
    needed: dict[str, int] = {}
    for version in versions:
        removed = {file.path: file for file in version.files if isinstance(file, FileRemoved)}
        needed |= {path: file.live_rows for path, file in removed.items() if path not in last and file.live_rows}
        last |= dict.fromkeys(removed)
        # A path in both stays, whatever their order in the commit.
        last |= {file.path: file for file in version.files if isinstance(file, FileAdded)}
    present = {path: file for path, file in last.items() if file is not None}
    absent = tuple(path for path, file in last.items() if file is None)
    return ShippedStep(present, absent, needed, frozenset(_changed(versions)))


def beginning(versions: Iterable[VersionActions], *, bytes_max: int) -> tuple[VersionActions, ...]:
    """Return the longest prefix of versions that adds at most `bytes_max` of new files, and at least one version.

    A version with another layout is returned separately: files before and after it have different copy modes. The function reads
    at most one version beyond the prefix.
    """
    taken: list[VersionActions] = []
    new: dict[str, int] = {}
    for version in versions:
        if version.layout is not None:
            return tuple(taken) or (version,)
        removed = {file.path for file in version.files if isinstance(file, FileRemoved)}
        added = {file.path: file.bytes for file in version.files if isinstance(file, FileAdded)}
        # A file that one version removes and adds existed before, unless an earlier version of the prefix added it.
        appeared = {path: count for path, count in added.items() if path not in removed or path in new}
        new = {path: count for path, count in new.items() if path not in removed} | appeared
        if taken and sum(new.values()) > bytes_max:
            break
        taken.append(version)
    return tuple(taken)


def _changed(versions: Iterable[VersionActions]) -> set[str]:
    """Return the paths whose data changed, and those that a rearrangement mixed with them."""
    changed, mixed = set[str](), list[set[str]]()
    for version in versions:
        changed |= {file.path for file in version.files if file.data_change}
        mixed.append({file.path for file in version.files if not file.data_change})
    count = -1
    while count != len(changed):
        count = len(changed)
        for paths in mixed:
            if not paths.isdisjoint(changed):
                changed |= paths
    return changed
