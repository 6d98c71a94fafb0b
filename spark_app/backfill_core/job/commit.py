"""One commit at a time.

commit       event                                  then
----------   ------------------------------------   ----------------------------------------------------
Idle         a barrier has something to say         Committing
Committing   `Sealed`                               Idle: acknowledgements leave, the strategy hears of it
Committing   `SealFailed` that may pass             RetryAt, later each time
Committing   `SealFailed`: others changed the       Idle: the last receipt is taken again, up to three times
             target after it was compared
Committing   any other `SealFailed`                 the attempt fails; the next one goes on from the last commit
RetryAt      its time came                          Committing, the same action
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from backfill_core.errors import BackfillError, ForeignCommit, StagedFilesGoneError
from backfill_core.job.state import JobState
from backfill_core.protocol.actions import Seal
from backfill_core.protocol.clock import Now
from backfill_core.protocol.events import CommandReceived

RETRY_MAX_S = 30.0
SECONDS_KEPT_MAX = 512
OTHERS_SHOWN_MAX = 3
OTHERS_KEPT_MAX = 16


@dataclass(frozen=True, slots=True)
class Idle:
    """No commit is under way."""


@dataclass(frozen=True, slots=True)
class Committing:
    """A commit is under way."""

    action: Seal
    commands: tuple[CommandReceived, ...]
    """To be acknowledged once it is durable."""

    verify: bool
    """Is a receipt taken of what it commits?"""

    polls: bool
    """Is the source polled anew once it is durable?"""

    state: JobState
    failures: int = 0

    def fail(self, error: BackfillError, retries_max: int, now: Now) -> RetryAt | None:
        """Return when it is tried again; None: the attempt ends.

        Files that are gone must be staged again, and the state counts them as committed: only the next attempt can.
        """
        failures = self.failures + 1
        final = not error.retryable or error.ends_attempt or failures > retries_max
        if final or isinstance(error, StagedFilesGoneError):
            return None
        return RetryAt(now.mono_s + backoff_s(failures), replace(self, failures=failures))


@dataclass(frozen=True, slots=True)
class RetryAt:
    """A commit failed and may pass when it is tried again."""

    at_s: float
    commit: Committing


CommitInFlight = Idle | Committing | RetryAt


def under_way(commit: CommitInFlight) -> Committing | None:
    """Return the commit that is not durable yet."""
    match commit:
        case Idle():
            return None
        case RetryAt(commit=waiting):
            return waiting
        case Committing():
            return commit


def backoff_s(failures: int) -> float:
    """Return the seconds until the next try, after so many failures in a row."""
    return min(RETRY_MAX_S, 2.0 ** (failures - 1))


@dataclass(frozen=True, slots=True)
class CommitLog:
    """What is known of past commits: our own, and those of others."""

    table_version: int = -1
    sealed_ms: int | None = None
    """When the newest one was durable."""

    seconds: tuple[float, ...] = ()
    others: tuple[ForeignCommit, ...] = ()
    """What others committed to the target, as far as it was seen."""

    def sealed(self, table_version: int, seconds: float, now: Now) -> CommitLog:
        """Return the log with one more commit of ours."""
        kept = (*self.seconds[1 - SECONDS_KEPT_MAX :], seconds)
        return replace(self, table_version=table_version, sealed_ms=now.wall_ms, seconds=kept)

    def note(self, commits: tuple[ForeignCommit, ...]) -> CommitLog:
        """Return the log with commits of others."""
        new = {one.version: one for one in (*self.others, *commits)}
        return replace(self, others=tuple(new[version] for version in sorted(new))[-OTHERS_KEPT_MAX:])

    @property
    def others_words(self) -> str:
        """The newest commits of others, for people."""
        shown = ", ".join(map(str, self.others[-OTHERS_SHOWN_MAX:]))
        more = len(self.others) - OTHERS_SHOWN_MAX
        return f"{shown} and {more} more" if more > 0 else shown
