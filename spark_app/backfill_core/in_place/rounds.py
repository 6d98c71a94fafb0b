"""Rounds over the newest version of a live table, until one finds no file to do.

step            when                                                        then
-------------   ---------------------------------------------------------   -------------------------------------------
ListFiles       at the start, after the last file of a round, after lost    the newest version is listed: `listed`
                work, and if the list is old
StageFiles      files of the round are left                                 they are computed: `staged`, or `lost`
WaitUntil       files are in use, or staged ones wait for their commit      ask again
Filled          a round found no file to do                                 the end

`take_commit` returns the staged files at a barrier if their commit is due: `committed`. Meanwhile the next files are computed; foreign
changes of such a commit also apply to them.

A commit that removes a file makes a concurrent MERGE fail that read it. So commits keep a distance in which writers make
the rewrites that `WriterConflicts` asks for, and files that a writer changed a short time ago come last, few at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from backfill_core.in_place.conflicts import ForeignChanges, Rebased, Replacement, rebased
from backfill_core.in_place.files import FillScope, LiveFile
from backfill_core.in_place.writer_conflicts import BUSY_REWRITES, RECENT_MS, WriterConflicts

DISTANCE_MAX_MS: Final = 120_000
QUIET_MS: Final = 60_000
"""A file that was changed within this time is in use."""

BACKOFF_MS, BACKOFF_MAX_MS = 1_000, 60_000
BYTES_MIN, BYTES_FIRST, BYTES_MAX, STAGED_BYTES_MAX = 32 * 2**20, 128 * 2**20, 512 * 2**20, 4 * 2**30
FILES_IN_USE: Final = 1
"""Number of files in use that are staged at once at first."""

FILES_MAX: Final = 1_000
LISTING_MAX_MS: Final = 3_600_000
"""Age of a list, after which it is made again: meanwhile a writer may have removed files, and VACUUM and log cleanup may have followed."""


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


FillStep = ListFiles | StageFiles | WaitUntil | Filled


class InPlaceRounds:
    """State machine of one attempt; one listing or batch, and one commit, is in progress at a time."""

    def __init__(self, scope: FillScope, conflicts: WriterConflicts) -> None:
        """Start with a listing; the log holds the progress of earlier attempts, and `conflicts` is what they counted."""
        self.scope, self.conflicts = scope, conflicts
        self.rounds = 0
        """Listings so far."""

        self.files_filled = self.rows_filled = self.files_lost = 0
        self._version: int | None = None
        self._listed_any = True
        self._outdated = False
        self._cold: list[LiveFile] = []
        self._in_use: list[LiveFile] = []
        self._ready: list[Replacement] = []
        self._committing: CommitStaged | None = None
        self._missed: list[ForeignChanges] = []
        """Foreign changes of commits since the batch in progress began."""

        self.rows_seen = 0
        """Visible rows of the newest listing."""

        self._since_ms = self._commit_ms = self._in_use_ms = 0
        self._bytes, self._few, self._backoff_ms = BYTES_FIRST, FILES_IN_USE, 0

    @property
    def version(self) -> int | None:
        """Version up to which foreign commits are checked; `None` before a listing."""
        return self._version

    @property
    def files_left(self) -> int:
        """Files to do of the current round, as far as they are known."""
        return len(self._waiting)

    @property
    def _waiting(self) -> tuple[LiveFile, ...]:
        """Files without a durable commit; those of a batch in progress are among them."""
        committing = () if self._committing is None else self._committing.files
        return (*self._cold, *self._in_use, *(file.replaced for file in (*self._ready, *committing)))

    @property
    def rows_left(self) -> int:
        """Visible rows of `files_left`."""
        return sum(file.visible for file in self._waiting)

    @property
    def ends_round(self) -> bool:
        """True if the last files of a round are staged, and their commit keeps no distance."""
        return bool(self._ready) and self._committing is None and self._at_once and not (self._cold or self._in_use)

    @property
    def _at_once(self) -> bool:
        """True if commits keep no distance."""
        return self._commit_ms <= self._since_ms

    # -------------------------------------------------------------- choosing
    def next_step(self, now_ms: int, *, rows_max: float = math.inf) -> FillStep:
        """Return the next step; a batch has about `rows_max` rows, at least one file."""
        commits = bool(self._ready) or self._committing is not None
        outdated = self._version is None or self._outdated or now_ms - self._since_ms > LISTING_MAX_MS
        if self._cold and self._may_stage and not outdated:
            return StageFiles(self._batch(self._cold, FILES_MAX, rows_max))
        if commits:
            return WaitUntil(max(now_ms, self._commit_ms))
        if self._version is None or outdated:
            return ListFiles()
        if not self._in_use:
            return ListFiles() if self._listed_any else Filled(self._version)
        # Their results are committed at once, so they wait for the time of a commit before they are computed.
        ready_ms = max(self._commit_ms, self._in_use_ms)
        batch = self._batch(self._in_use, self._few, rows_max)
        return StageFiles(batch) if now_ms >= ready_ms else WaitUntil(ready_ms)

    def take_commit(self, now_ms: int, *, early: bool = False) -> CommitStaged | None:
        """Return the commit of all staged files; `None` if there are none, or if it is not due. `early` ignores the distance."""
        due = early or self._at_once or now_ms >= self._commit_ms
        if not (due and self._ready and self._committing is None and self._version is not None):
            return None
        self._committing, self._ready = CommitStaged(self._version, tuple(self._ready)), []
        return self._committing

    @property
    def _may_stage(self) -> bool:
        staged = sum(file.replaced.bytes for file in self._ready)
        return staged < STAGED_BYTES_MAX and len(self._ready) < FILES_MAX

    def _batch(self, files: Sequence[LiveFile], most: int, rows_max: float) -> tuple[LiveFile, ...]:
        chosen: list[LiveFile] = []
        size = rows = 0
        for file in files[:most]:
            size, rows = size + file.bytes, rows + file.visible
            if chosen and (size > self._bytes or rows > rows_max):
                break
            chosen.append(file)
        return tuple(chosen)

    # -------------------------------------------------------------- results
    def listed(self, version: int, files: Sequence[LiveFile], now_ms: int, *, recent_rewrites: int = 0) -> None:
        """Begin a round with the files of a version, and with the rewrites of `RECENT_MS` before the first one."""
        to_do = self.scope.to_do(files)
        self._version, self._since_ms = version, now_ms
        if self.rounds == 0 and recent_rewrites >= BUSY_REWRITES:
            self._commit_ms = now_ms + min(DISTANCE_MAX_MS, self.conflicts.distance_ms(recent_rewrites, RECENT_MS))
        self._cold = [file for file in to_do if file.changed_ms <= now_ms - QUIET_MS]
        self._in_use = [file for file in to_do if file.changed_ms > now_ms - QUIET_MS]
        self._listed_any, self._outdated = bool(to_do), False
        self.rows_seen = sum(file.visible for file in files)
        self.rounds += 1

    def begin(self) -> None:
        """Begin the batch of the newest `StageFiles`; foreign changes from now on apply to its results."""
        self._missed = []

    def lost(self) -> None:
        """Make the list again after work was lost: its files may be gone. Staged files are committed first."""
        self._outdated = True

    def staged(self, batch: StageFiles, files: Sequence[Replacement]) -> Rebased:
        """Take the results of a batch, and return which of them foreign commits left valid; a later round finds the other files again."""
        gone = {file.path for file in batch.files}
        self._cold = [file for file in self._cold if file.path not in gone]
        self._in_use = [file for file in self._in_use if file.path not in gone]
        kept, lost = tuple(files), list[Replacement]()
        for foreign in self._missed:
            result = rebased(kept, foreign)
            kept, lost = result.kept, [*lost, *result.lost]
        self._ready += kept
        self.files_lost += len(lost)
        return Rebased(kept, tuple(lost))

    def committed(self, version: int, foreign: ForeignChanges, now_ms: int) -> Rebased:
        """Take the result of a commit, and return which of its files it contains.

        Args:
            version: Version of the commit.
            foreign: Foreign changes since the version of the step.
            now_ms: Time of the commit in milliseconds.
        """
        assert self._committing is not None
        result, waiting = rebased(self._committing.files, foreign), rebased(self._ready, foreign)
        self._committing, self._ready = None, list(waiting.kept)
        self._missed.append(foreign)
        self.files_filled += len(result.kept)
        self.rows_filled += sum(file.replaced.visible for file in result.kept)
        self.files_lost += len(result.lost) + len(waiting.lost)
        self.conflicts = self.conflicts.after(foreign, version if result.kept else None)
        self._keep_distance(foreign.rewrites, now_ms)
        self._resize(lost=len(result.lost), now_ms=now_ms)
        self._version = None if foreign.redefined else version
        self._follow(foreign, now_ms)
        return result

    def _keep_distance(self, rewrites: int, now_ms: int) -> None:
        passed_ms = max(1, now_ms - self._since_ms)
        distance_ms = self.conflicts.distance_ms(rewrites, passed_ms)
        self._commit_ms, self._since_ms = now_ms + min(DISTANCE_MAX_MS, distance_ms), now_ms

    def _resize(self, *, lost: int, now_ms: int) -> None:
        if lost:
            self._bytes, self._few = max(BYTES_MIN, self._bytes // 2), FILES_IN_USE
            self._backoff_ms = min(BACKOFF_MAX_MS, max(BACKOFF_MS, 2 * self._backoff_ms))
        else:
            self._bytes, self._few = min(BYTES_MAX, 2 * self._bytes), min(FILES_MAX, 2 * self._few)
            self._backoff_ms = 0
        self._in_use_ms = now_ms + self._backoff_ms

    def _follow(self, foreign: ForeignChanges, now_ms: int) -> None:
        """Bring the files that wait to the version of the commit; files that writers changed come last from now on."""
        if foreign.redefined:
            self._cold, self._in_use = [], []
            return
        cold = [(file, foreign.current(file)) for file in self._cold]
        changed = [replace(now, changed_ms=now_ms) for file, now in cold if now is not None and now is not file]
        self._cold = [file for file, now in cold if now is file]
        self._in_use = [now for file in self._in_use if (now := foreign.current(file)) is not None] + changed
