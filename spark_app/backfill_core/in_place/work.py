"""Work of a job that fills columns, and its results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from backfill_core.in_place.conflicts import Replacement
from backfill_core.in_place.files import FillScope, LiveFile
from backfill_core.protocol.work import StagedFile, WorkKind


@dataclass(frozen=True, slots=True)
class ListLiveFiles:
    """List the files of the newest version."""

    kind: ClassVar[WorkKind] = WorkKind.HISTORY

    work_id: int
    opened: int
    """Version whose columns the attempt knows; a later change of metadata or protocol ends it."""

    first: bool
    """True for the first listing of an attempt, which also counts the recent rewrites of other writers."""


@dataclass(frozen=True, slots=True)
class LiveFilesListed:
    """`ListLiveFiles` is finished."""

    work_id: int
    version: int
    listed: tuple[LiveFile, ...]
    scope: FillScope
    """Rows to fill, with the facts that only the table has."""

    recent_rewrites: int = 0
    """Commits of other writers that rewrote files in the minute before the version; 0 if the listing is not the first one."""


@dataclass(frozen=True, slots=True)
class FillFiles:
    """Compute the columns of files of a version, and stage the results."""

    kind: ClassVar[WorkKind] = WorkKind.HISTORY

    work_id: int
    version: int
    files: tuple[LiveFile, ...]


@dataclass(frozen=True, slots=True)
class FilesFilled:
    """`FillFiles` is finished; each file has one replacement."""

    work_id: int
    replacements: tuple[Replacement, ...]

    @property
    def files(self) -> tuple[StagedFile, ...]:
        """All staged files."""
        return tuple(staged for replacement in self.replacements for staged in replacement.files)


@dataclass(frozen=True, slots=True)
class CheckedReplacement:
    """Handle of a file that a commit removes: what replaces it, and the version up to which foreign commits are checked."""

    replacement: Replacement
    after: int
