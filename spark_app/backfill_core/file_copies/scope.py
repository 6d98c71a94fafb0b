"""The part of a target that a job replaces: its `scope`, a condition on the target's columns (ADR 0048).

A file belongs to the scope by its bounds, because the publishing commit removes whole files:

place        rows of the file                  the publishing commit   a foreign commit that changes its rows
----------   -------------------------------   ---------------------   --------------------------------------
INSIDE       the scope is true for all rows    removes it              ends the job
OUTSIDE      the scope is true for no row      keeps it                is ignored
STRADDLES    both, or the bounds are unknown   is refused              ends the job

So every row that the scope holds belongs to the job from its first commit to its publication, and no other row does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

from backfill_core.errors import (
    ForeignCommit,
    InvalidSpecError,
    ScopeNotSeparatedError,
    TargetChangedError,
    UnsupportedTargetFeatureError,
)
from backfill_core.file_copies.filters import Condition, Opaque, Values, Verdict, columns_of, first_opaque, judge
from backfill_core.protocol.replacement import find_obstacle

SHOWN_MAX = 3
SEPARATE_HINT = (
    "Choose bounds at which the files begin and end. Or partition the target by the column, or cluster its files by it and run OPTIMIZE. "
    "Files without statistics need ANALYZE TABLE … COMPUTE DELTA STATISTICS."
)
CONFLICT_HINT = (
    "No row of this job is visible. Stop that writer, or move its rows out of the scope. Then run `backfill release --force`, and run "
    "the job again: it copies from the beginning and replaces the rows of the scope."
)


class Place(Enum):
    """Place of a file relative to a scope."""

    INSIDE = auto()
    OUTSIDE = auto()
    STRADDLES = auto()


def check_scope(named: str, condition: Condition, readable: Iterable[str]) -> None:
    """Reject a scope that bounds of files cannot decide.

    Args:
        named: The field with its value, for messages.
        condition: The value, translated.
        readable: Columns whose bounds can be compared.

    Raises:
        InvalidSpecError: names the expression or the column.
    """
    opaque, columns = first_opaque(condition), columns_of(condition)
    if opaque or isinstance(condition, Opaque):
        raise InvalidSpecError(
            f"{named}: statistics of files cannot decide {opaque or 'the condition'}.",
            hint="Compare columns with constants, as in day >= DATE'2026-01-01' AND day < DATE'2026-02-01'.",
        )
    if not columns:
        raise InvalidSpecError(
            f"{named} names no column, so it selects all rows or none.",
            hint="Compare a partition column or a clustering column with constants.",
        )
    unreadable = sorted(columns - set(readable))
    if unreadable:
        raise InvalidSpecError(
            f"{named}: column {unreadable[0]!r} has a type without an order, or values that statistics do not keep.",
            hint="Use a column with numbers, dates, timestamps, booleans or strings.",
        )


def place_of(condition: Condition, values: Mapping[str, Values]) -> Place:
    """Return the place of a file, from the bounds of its columns."""
    match judge(condition, values):
        case Verdict.PASSES:
            return Place.INSIDE
        case Verdict.EXCLUDED:
            return Place.OUTSIDE
        case Verdict.UNDECIDED:
            return Place.STRADDLES


F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class PlacedFile(Generic[F]):
    """A file of the target with its place."""

    file: F
    path: str
    place: Place


def removed_files(named: str, placed: Sequence[PlacedFile[F]], *, of: int) -> list[F]:
    """Return the files that the publishing commit removes: all files of the scope.

    Args:
        named: As `check_scope`.
        placed: Files of the target; those outside of the scope may be missing.
        of: Number of all files of the target.

    Raises:
        ScopeNotSeparatedError: files have rows inside and outside of the scope; names their number, and some of them.
    """
    straddling = [file.path for file in placed if file.place is Place.STRADDLES]
    if straddling:
        more = f" and {len(straddling) - SHOWN_MAX:,} more" if len(straddling) > SHOWN_MAX else ""
        raise ScopeNotSeparatedError(
            f"{named}: {len(straddling):,} of {of:,} files of the target may have rows inside and outside of it: "
            f"{', '.join(straddling[:SHOWN_MAX])}{more}.",
            hint=SEPARATE_HINT,
        )
    return [file.file for file in placed if file.place is Place.INSIDE]


def check_replaceable(named: str, path: str, properties: Mapping[str, str], *, removed: int) -> None:
    """Reject a target whose properties forbid a commit that replaces files of the scope.

    Args:
        named: As `check_scope`.
        path: Path of the target.
        properties: Table properties of the target.
        removed: Number of files of the scope; without any, the publishing commit only adds files.

    Raises:
        UnsupportedTargetFeatureError: names the property, its value and the remedy.
    """
    obstacle = find_obstacle(properties, removed=removed, added=1)
    if obstacle is not None:
        raise UnsupportedTargetFeatureError(
            f"{path} has {obstacle.name} = true, {obstacle.reason}, and {named} replaces {removed:,} of its files.",
            hint=obstacle.hint,
        )


class Effect(Enum):
    """Effect of a foreign commit on the scope of a job, the weakest first."""

    NONE = auto()
    """It touches no file of the scope."""

    MOVED = auto()
    """It rewrites files of the scope and changes no row, as OPTIMIZE does: the files must be listed again."""

    CONFLICT = auto()
    """It changes rows of the scope, or the columns of the table."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One added or removed file of a foreign commit."""

    place: Place
    changes_rows: bool
    """The action's `dataChange`."""


def effect_of(changes: Iterable[FileChange], *, changes_columns: bool) -> Effect:
    """Return the effect of a foreign commit; a file that may have rows of the scope counts as one of the scope."""
    if changes_columns:
        return Effect.CONFLICT
    touching = [change for change in changes if change.place is not Place.OUTSIDE]
    if any(change.changes_rows for change in touching):
        return Effect.CONFLICT
    return Effect.MOVED if touching else Effect.NONE


def conflict(named: str, path: str, commits: Sequence[ForeignCommit], newest: int) -> TargetChangedError:
    """Return the error of a job whose scope other writers changed."""
    more = f" and {len(commits) - SHOWN_MAX:,} more" if len(commits) > SHOWN_MAX else ""
    listed = ", ".join(map(str, commits[:SHOWN_MAX]))
    return TargetChangedError(
        f"another writer changed rows of {path} inside of {named}, or its columns, since the job began: {listed}{more}.",
        hint=CONFLICT_HINT,
        commits=tuple(commits),
        newest=newest,
    )
