"""Rounds over the newest version of a live table, until one finds no file to do.

step            when                                                        the shell
-------------   ---------------------------------------------------------   -------------------------------------------
ListFiles       at the start, and after the last file of a round            lists the newest version, calls `listed`
StageFiles      files of the round are left                                 computes them, calls `staged`
CommitStaged    staged files are due                                        commits once, calls `committed`
WaitUntil       the next commit would disturb writers, or files are in use  waits, and asks again
Filled          a round found no file to do                                 ends

A commit that removes a file makes a concurrent MERGE fail that read it. So commits keep a distance in which writers make
`REWRITES_PER_COMMIT` changes, and files that a writer changed a short time ago come last, few at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from backfill_core.in_place.conflicts import ForeignChanges, Rebased, Replacement, rebased
from backfill_core.in_place.files import FillScope, LiveFile

REWRITES_PER_COMMIT: Final = 50
"""Changes of files by writers between two commits, so that at most one of so many meets a commit of the job."""

DISTANCE_MAX_MS: Final = 120_000
QUIET_MS: Final = 60_000
"""A file that was changed within this time is in use."""

BACKOFF_MS, BACKOFF_MAX_MS = 1_000, 60_000
BYTES_FIRST, BYTES_MAX, STAGED_BYTES_MAX = 32 * 2**20, 512 * 2**20, 4 * 2**30
FILES_IN_USE: Final = 1
"""Number of files in use that are staged at once at first."""

FILES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class ListFiles:
    """List the files of the newest version."""


@dataclass(frozen=True, slots=True)
class StageFiles:
    """Compute the columns of these files, and stage the results."""

    files: tuple[LiveFile, ...]


@dataclass(frozen=True, slots=True)
class CommitStaged:
    """Replace files in one commit; foreign commits after `version` are checked first."""

    version: int
    files: tuple[Replacement, ...]


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Wait until a time in milliseconds."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Filled:
    """No file of this version is left to do."""

    version: int


FillStep = ListFiles | StageFiles | CommitStaged | WaitUntil | Filled


class InPlaceRounds:
    """State machine of one attempt; one step is in progress at a time."""

    def __init__(self, scope: FillScope) -> None:
        """Start with a listing; the log holds the progress of earlier attempts."""
        self.scope = scope
        self.rounds = 0
        """Listings so far."""

        self.files_filled = self.rows_filled = self.files_lost = 0
        self._version: int | None = None
        self._listed_any = True
        self._cold: list[LiveFile] = []
        self._in_use: list[LiveFile] = []
        self._ready: list[Replacement] = []
        self._since_ms = self._commit_ms = self._in_use_ms = 0
        self._bytes, self._few, self._backoff_ms = BYTES_FIRST, FILES_IN_USE, 0

    @property
    def files_left(self) -> int:
        """Files to do of the current round, as far as they are known."""
        return len(self._cold) + len(self._in_use) + len(self._ready)

    @property
    def rows_left(self) -> int:
        """Rows of `files_left`; files without a row count have none."""
        waiting = (*self._cold, *self._in_use, *(file.replaced for file in self._ready))
        return sum(file.rows or 0 for file in waiting)

    # -------------------------------------------------------------- choosing
    def next_step(self, now_ms: int) -> FillStep:
        """Return the next step."""
        if self._version is None:
            return ListFiles()
        due = now_ms >= self._commit_ms
        if self._ready and (due or not self._may_stage):
            return CommitStaged(self._version, tuple(self._ready)) if due else WaitUntil(self._commit_ms)
        if self._cold:
            return StageFiles(self._batch(self._cold, FILES_MAX))
        if not self._in_use:
            return ListFiles() if self._listed_any else Filled(self._version)
        # Their results are committed at once, so they wait for the time of a commit before they are computed.
        ready_ms = max(self._commit_ms, self._in_use_ms)
        return StageFiles(self._batch(self._in_use, self._few)) if now_ms >= ready_ms else WaitUntil(ready_ms)

    @property
    def _may_stage(self) -> bool:
        staged = sum(file.replaced.bytes for file in self._ready)
        return bool(self._cold) and staged < STAGED_BYTES_MAX and len(self._ready) < FILES_MAX

    def _batch(self, files: Sequence[LiveFile], most: int) -> tuple[LiveFile, ...]:
        chosen: list[LiveFile] = []
        for file in files[:most]:
            if chosen and sum(other.bytes for other in chosen) + file.bytes > self._bytes:
                break
            chosen.append(file)
        return tuple(chosen)

    # -------------------------------------------------------------- results
    def listed(self, version: int, files: Sequence[LiveFile], now_ms: int) -> None:
        """Begin a round with the files of a version."""
        to_do = self.scope.to_do(files)
        self._version, self._since_ms = version, now_ms
        self._cold = [file for file in to_do if file.changed_ms <= now_ms - QUIET_MS]
        self._in_use = [file for file in to_do if file.changed_ms > now_ms - QUIET_MS]
        self._listed_any = bool(to_do)
        self.rounds += 1

    def staged(self, batch: StageFiles, files: Sequence[Replacement]) -> None:
        """Take the results of a batch; files without a result are found again by a later round."""
        gone = {file.path for file in batch.files}
        self._cold = [file for file in self._cold if file.path not in gone]
        self._in_use = [file for file in self._in_use if file.path not in gone]
        self._ready += files

    def committed(self, version: int, foreign: ForeignChanges, now_ms: int) -> Rebased:
        """Take the result of a commit, and return which of its files it contains.

        Args:
            version: Version of the commit; if it contains no file, the version up to which foreign commits were checked.
            foreign: Foreign changes since the version of the step.
            now_ms: Time of the commit in milliseconds.
        """
        result = rebased(self._ready, foreign)
        self.files_filled += len(result.kept)
        self.rows_filled += sum(_visible(file.replaced) for file in result.kept)
        self.files_lost += len(result.lost)
        self._ready.clear()
        self._keep_distance(foreign.rewrites, now_ms)
        self._resize(lost=len(result.lost), now_ms=now_ms)
        self._version = None if foreign.relaid else version
        self._follow(foreign, now_ms)
        return result

    def _keep_distance(self, rewrites: int, now_ms: int) -> None:
        passed_ms = max(1, now_ms - self._since_ms)
        distance_ms = REWRITES_PER_COMMIT * passed_ms // rewrites if rewrites else 0
        self._commit_ms, self._since_ms = now_ms + min(DISTANCE_MAX_MS, distance_ms), now_ms

    def _resize(self, *, lost: int, now_ms: int) -> None:
        if lost:
            self._bytes, self._few = max(BYTES_FIRST, self._bytes // 2), FILES_IN_USE
            self._backoff_ms = min(BACKOFF_MAX_MS, max(BACKOFF_MS, 2 * self._backoff_ms))
        else:
            self._bytes, self._few = min(BYTES_MAX, 2 * self._bytes), min(FILES_MAX, 2 * self._few)
            self._backoff_ms = 0
        self._in_use_ms = now_ms + self._backoff_ms

    def _follow(self, foreign: ForeignChanges, now_ms: int) -> None:
        """Bring the files that wait to the version of the commit; files that writers changed come last from now on."""
        if foreign.relaid:
            self._cold, self._in_use = [], []
            return
        cold = [(file, foreign.current(file)) for file in self._cold]
        changed = [replace(now, changed_ms=now_ms) for file, now in cold if now is not None and now is not file]
        self._cold = [file for file, now in cold if now is file]
        self._in_use = [now for file in self._in_use if (now := foreign.current(file)) is not None] + changed


def _visible(file: LiveFile) -> int:
    return (file.rows or 0) - (0 if file.vector is None else file.vector.rows)
