"""Files of a target that a repair replaces by new copies of their source files.

target file                                       of a replica             of another target
-----------------------------------------------   ----------------------   -------------------------------------
a copy that the receipt names as damaged          copied again             copied again, if it was copied whole
a copy of a file with rows that differ            copied again             left to the repair of rows
a copy with another partition value or vector     copied again             left to the repair of rows
more than one whole copy of a source file         one new copy for all     left to the repair of rows
no copy of a source file                          copied                   left to the repair of rows
a file of another writer, or of a removed file    removed                  left to the repair of rows
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from backfill_core.log_shipping.actions import FileAdded
from backfill_core.log_shipping.target_files import (
    Removal,
    TargetCopy,
    TargetFile,
    TargetFiles,
    TargetStep,
    same_vector,
)
from backfill_core.positions.source_names import RowOrder, source_of, tag_of


@dataclass(frozen=True, slots=True)
class ExpectedCopy:
    """A source file of the compared version that has rows for the target."""

    file: FileAdded
    partition: Mapping[str, str | None]
    """Partition values of its copy, by the physical names of the target."""

    hidden: int | None = None
    """Number of rows that a vector of the copy hides if the filter adds some; `None` if the copy hides the rows that the source hides."""

    has_differing_rows: bool = False
    """True if rows of the source file differ in the target: its copy may lack them, although its log entry fits."""


def replaced_in_replica(
    sources: Iterable[ExpectedCopy], target: Sequence[TargetFile], damaged: Collection[str]
) -> TargetStep:
    """Return the step after which each source file has exactly one fitting copy, and no other file exists.

    Args:
        sources: All source files that need a copy.
        target: All files of the target.
        damaged: Paths of target files that differ from their source file, although their log entry may fit.
    """
    files = TargetFiles.of(target)
    left = {file.path: file for file in target}
    copies: list[TargetCopy] = []
    for expected in sources:
        group = files.groups.get(tag_of(expected.file.path), ())
        if group and _fit(group, expected, damaged):
            for file in group:
                left.pop(file.path, None)
        else:
            copies.append(TargetCopy(expected.file, data_change=True))
    return _step(copies, [file for file in target if file.path in left])


def replaced_copies(
    sources: Iterable[ExpectedCopy], target: Sequence[TargetFile], damaged: Collection[str]
) -> TargetStep:
    """Return the step that copies the damaged whole copies again; all other files stay. See `replaced_in_replica`."""
    files = TargetFiles.of(target)
    copies: list[TargetCopy] = []
    removals: list[TargetFile] = []
    for expected in sources:
        group = files.groups.get(tag_of(expected.file.path), ())
        hit = [file for file in group if file.path in damaged and _order(file) is RowOrder.KEPT]
        if hit:
            copies.append(TargetCopy(expected.file, data_change=True))
            removals += hit
    return _step(copies, removals)


def _step(copies: Iterable[TargetCopy], removals: Iterable[TargetFile]) -> TargetStep:
    gone = tuple(Removal(file, data_change=True) for file in removals)
    return TargetStep(copies=tuple(copies), vectors=(), kept=(), removals=gone, missing=())


def _fit(group: Sequence[TargetFile], expected: ExpectedCopy, damaged: Collection[str]) -> bool:
    """Return true if these files contain the rows of their source file, as far as the log shows."""
    if expected.has_differing_rows or any(file.path in damaged for file in group):
        return False
    orders = {_order(file) for file in group}
    if orders == {RowOrder.LOST}:
        # A source file may have several files of decoded rows. Their rows have other positions, so only other writers add vectors.
        return all(file.vector is None for file in group)
    (first, *more) = group
    misfit = first.misfit(expected.file, expected.partition, same_bytes=False)
    return not more and misfit is None and _hides(first, expected)


def _hides(file: TargetFile, expected: ExpectedCopy) -> bool:
    """Return true if a copy hides the expected rows. A row that is hidden instead of another one is visible, so rows tell."""
    if expected.hidden is None:
        return same_vector(file.vector, expected.file.vector)
    return (0 if file.vector is None else file.vector.rows) == expected.hidden


def _order(file: TargetFile) -> RowOrder | None:
    origin = source_of(file.path)
    return None if origin is None else origin.order
