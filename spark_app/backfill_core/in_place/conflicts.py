"""Foreign commits between the listing of a file and the commit that replaces it.

A data file never changes, so computed columns stay valid as long as the table names the file. A writer that only hides rows of it costs
nothing: the replacement has the same row order, and takes the new deletion vector. A writer that removed the file costs that file alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from backfill_core.in_place.files import LiveFile
from backfill_core.log_shipping.actions import DeletionVector, FileAdded, FileRemoved
from backfill_core.log_shipping.target_files import same_vector
from backfill_core.protocol.work import StagedFile


@dataclass(frozen=True, slots=True)
class Replacement:
    """A staged file with the same rows as a file of the table, in which the columns are filled."""

    replaced: LiveFile
    """The file as it was listed, or as a later foreign commit left it."""

    keeps_order: bool = True
    """True if it has the same rows in the same order, deleted ones included, so that any deletion vector applies to it."""

    files: tuple[StagedFile, ...] = ()
    """The staged files, each without a deletion vector; empty if the file has no visible row."""


@dataclass(frozen=True, slots=True)
class ForeignChanges:
    """Changes by other writers in some consecutive versions."""

    present: dict[str, DeletionVector | None] = field(default_factory=dict)
    """Deletion vectors of added files, by path: the newest one of each."""

    absent: frozenset[str] = frozenset()
    """Paths of removed files."""

    rewrites: int = 0
    """Versions that removed files, or replaced their deletion vectors."""

    oldest_read: int | None = None
    """Oldest version that one of these transactions had read; `None` if there is none, or if the log does not name it."""

    redefined: bool = False
    """True if metadata or protocol changed."""

    def current(self, file: LiveFile) -> LiveFile | None:
        """Return a listed file as these changes left it; `None` if they removed it."""
        if file.path in self.absent:
            return None
        if file.path not in self.present or same_vector(file.vector, self.present[file.path]):
            return file
        return replace(file, vector=self.present[file.path])

    def after(
        self, files: Iterable[FileAdded | FileRemoved], *, redefined: bool = False, read: int | None = None
    ) -> Self:
        """Return the changes including one more version.

        Args:
            files: The version's file actions, in any order.
            redefined: True if it has a metadata or a protocol action.
            read: Version that its transaction had read; `None` if the log does not name it.
        """
        actions = list(files)
        added = {file.path: file.vector for file in actions if isinstance(file, FileAdded)}
        removed = {file.path for file in actions if isinstance(file, FileRemoved)}
        absent = (self.absent | removed) - added.keys()
        reads = (self.oldest_read, read if removed else None)
        present = {path: vector for path, vector in {**self.present, **added}.items() if path not in absent}
        return replace(
            self,
            present=present,
            absent=absent,
            rewrites=self.rewrites + bool(removed),
            oldest_read=min((number for number in reads if number is not None), default=None),
            redefined=self.redefined or redefined,
        )


@dataclass(frozen=True, slots=True)
class Rebased:
    """Staged files after a check of foreign commits."""

    kept: tuple[Replacement, ...]
    """Replacements that the next commit may contain, each with the file's current deletion vector."""

    lost: tuple[Replacement, ...]
    """Replacements that no commit may contain; a later round computes their rows again."""


def rebased(staged: Sequence[Replacement], foreign: ForeignChanges) -> Rebased:
    """Decide which staged files may still replace their files after foreign commits.

    After a change of metadata or protocol none may: expressions, types and features are checked again first.
    """
    kept: list[Replacement] = []
    lost: list[Replacement] = []
    for file in staged:
        current = None if foreign.redefined else _current(file, foreign)
        if current is None:
            lost.append(file)
        else:
            kept.append(current)
    return Rebased(tuple(kept), tuple(lost))


def _current(file: Replacement, foreign: ForeignChanges) -> Replacement | None:
    current = foreign.current(file.replaced)
    if current is None or (current is not file.replaced and not file.keeps_order):
        return None
    return replace(file, replaced=current)
