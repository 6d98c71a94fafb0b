"""One commit at a time.

commit       event                                  then
----------   ------------------------------------   ----------------------------------------------------
Idle         a barrier has something to commit      Committing
Committing   `Sealed`                               Idle: acknowledgements leave, the strategy is notified
Committing   a retryable `SealFailed`               RetryAt, with a delay that doubles each time
Committing   `SealFailed`: other writers changed    Idle: the last receipt is taken again, up to three times
             the target after it was compared
Committing   `SealFailed`: a MERGE committed        Idle: the commit that follows the MERGE holds the commands
             before the state-only commit
Committing   any other `SealFailed`                 the attempt fails; the next one resumes from the last commit
RetryAt      the delay has passed                   Committing, the same action
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from backfill_core.errors import (
    BackfillError,
    ForeignCommit,
    StagedFilesGoneError,
    TargetChangedError,
    VerificationFailedError,
)
from backfill_core.job.publishing import PublicationStep
from backfill_core.job.state import JobState
from backfill_core.protocol.actions import Acknowledge, Action, Durable, Seal
from backfill_core.protocol.clock import Now
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import CommandReceived, Sealed
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.protocol.strategy import CommitRequest, JobWarning

RETRY_MAX_S = 30.0
COMPARED_AGAIN_MAX = 3
"""Most times that the last receipt is taken again because other writers changed the target after it. One more ends the attempt."""

SECONDS_KEPT_MAX = 512
FOREIGN_HINT = "Another writer changed the target: find the rows with `backfill verify --explain`, correct them with `backfill repair`, or fill a new target."
UNEXPLAINED_HINT = (
    "No commit of another writer to the target is known{suspects}. Find the rows with `backfill verify --explain`, and report them with the "
    "spec and the source's log: the job may have read the source wrongly. `backfill repair` corrects the rows."
)
RESTORE_HINT = "Something changed files of the target without a commit: copy them again with `backfill repair`, or fill a new target."
STAGED_HINT = (
    "The rows are staged, and readers see none of them. Find the rows with `backfill verify --explain`. If something changed the staged files, "
    "run `backfill release --force`, then the job: it copies from the beginning."
)

VNODES_SHOWN_MAX, FILES_SHOWN_MAX, OTHERS_SHOWN_MAX = 10, 3, 3
OTHERS_KEPT_MAX = 16


@dataclass(frozen=True, slots=True)
class Idle:
    """No commit is under way."""


@dataclass(frozen=True, slots=True)
class Committing:
    """A commit is under way."""

    action: Seal
    commands: tuple[CommandReceived, ...]
    """Acknowledged once the commit is durable."""

    verify: bool
    """True if a receipt is taken of this commit."""

    polls: bool
    """True if the source is polled again once the commit is durable."""

    state: JobState
    failures: int = 0

    def acknowledgements(self) -> list[Action]:
        """Return the answers that leave once the commit is durable."""
        epoch = self.action.epoch
        return [Acknowledge(event.attempt, epoch, event.revision, "Applied") for event in self.commands]

    def fail(self, error: BackfillError, retries_max: int, now: Now) -> RetryAt | None:
        """Return the time of the next try; `None` if the attempt ends.

        Missing files must be staged again, but the state counts them as committed. Only the next attempt can repair that.
        """
        failures = self.failures + 1
        final = not error.retryable or error.ends_attempt or failures > retries_max
        if final or isinstance(error, StagedFilesGoneError):
            return None
        return RetryAt(now.mono_s + backoff_s(failures), replace(self, failures=failures))


@dataclass(frozen=True, slots=True)
class RetryAt:
    """A commit failed with a retryable error."""

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
    """Return the seconds until the next try, after this number of failures in a row."""
    return min(RETRY_MAX_S, 2.0 ** (failures - 1))


@dataclass(frozen=True, slots=True)
class CommitLog:
    """Past commits to the target: those of this job, and those of other writers."""

    table_version: int = -1
    sealed_ms: int | None = None
    """Time at which the newest commit became durable, in milliseconds."""

    percent: int = 0
    """Finished part of the job according to the newest commit."""

    seconds: tuple[float, ...] = ()
    count: int = 0
    """Number of commits of this attempt."""

    others: tuple[ForeignCommit, ...] = ()
    """Foreign commits to the target seen so far, oldest first; only the newest are kept."""

    hooks_failure: BackfillError | None = None
    """Failure of the newest hooks; `None` if they succeeded."""

    def sealed(self, event: Sealed, percent: int, now: Now) -> CommitLog:
        """Return the log with one more commit of this job, whose state stores this percentage."""
        kept = (*self.seconds[1 - SECONDS_KEPT_MAX :], event.seconds)
        return replace(
            self,
            table_version=event.table_version,
            sealed_ms=now.wall_ms,
            percent=percent,
            seconds=kept,
            count=self.count + 1,
        )

    def note(self, commits: tuple[ForeignCommit, ...]) -> CommitLog:
        """Return the log with more foreign commits."""
        new = {commit.version: commit for commit in (*self.others, *commits)}
        return replace(self, others=tuple(new[version] for version in sorted(new))[-OTHERS_KEPT_MAX:])

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Warnings for the user about the target's log."""
        others = f"other writers changed the target: {self.foreign_summary}"
        failed = f"the target's log has no new checkpoint; the job tries again: {self.hooks_failure}"
        return (
            *((JobWarning("ForeignCommits", others),) if self.others else ()),
            *((JobWarning("CheckpointFailed", failed),) if self.hooks_failure is not None else ()),
        )

    @property
    def foreign_summary(self) -> str:
        """Description of the newest foreign commits, for messages."""
        return _join_shown(map(str, self.others[-OTHERS_SHOWN_MAX:]), more=len(self.others) - OTHERS_SHOWN_MAX)

    def mismatch(
        self, receipt: TableReceipt, suspects: Sequence[str] = (), *, hidden: bool = False
    ) -> VerificationFailedError:
        """Return the error for a receipt whose sides differ; `suspects` decide which rows the target has, or hides."""
        others = f" Other writers committed {self.foreign_summary}." if self.others else ""
        where = " and in ".join(filter(None, (_describe_vnodes(receipt), _describe_files(receipt))))
        return VerificationFailedError(
            f"source {receipt.source_position} and target version {receipt.target_version} differ in {where}.{others}",
            hint=STAGED_HINT if hidden else self._hint(receipt, suspects),
        )

    def _hint(self, receipt: TableReceipt, suspects: Sequence[str]) -> str:
        if not receipt.mismatches:
            return RESTORE_HINT
        if self.others:
            return FOREIGN_HINT
        named = f", and the rows are decided by {', '.join(suspects)}" if suspects else ""
        return UNEXPLAINED_HINT.format(suspects=named)


def describe_suspects(where: str | None, partitions: Iterable[str], pinned_version: int | None) -> tuple[str, ...]:
    """Describe the settings that decide which rows a target has, for a difference that no foreign commit explains.

    Args:
        where: The filter of the spec.
        partitions: Partition columns of the source.
        pinned_version: The version that was copied; `None` if the source has no versions.
    """
    columns = ", ".join(partitions)
    return (
        *([f"the filter spec.transform.where ({where})"] if where else []),
        *([f"the partition columns of the source ({columns})"] if columns else []),
        *([] if pinned_version is None else [f"the changes after version {pinned_version}"]),
    )


def _describe_vnodes(receipt: TableReceipt) -> str:
    shown = [str(mismatch.vnode) for mismatch in receipt.mismatches[:VNODES_SHOWN_MAX]]
    vnodes = _join_shown(shown, more=len(receipt.mismatches) - VNODES_SHOWN_MAX)
    return f"vnode {vnodes} of {receipt.vnodes}" if shown else ""


def _describe_files(receipt: TableReceipt) -> str:
    shown = (f"file {file.path} ({file.what})" for file in receipt.files[:FILES_SHOWN_MAX])
    return _join_shown(shown, more=len(receipt.files) - FILES_SHOWN_MAX)


def _join_shown(shown: Iterable[str], *, more: int) -> str:
    joined = ", ".join(shown)
    return f"{joined} and {more} more" if more > 0 else joined


NOTHING = CommitRequest((), 0, 0, changed=False, announces=False, polls=False)
"""A commit of the state without files."""


class Commits:
    """The commit in flight, and the log of past ones."""

    def __init__(self) -> None:
        """Start before the first commit."""
        self.in_flight: CommitInFlight = Idle()
        self.log = CommitLog()
        self._compared_again = self._failures_before = 0
        self._durable: Durable | None = None

    @property
    def idle(self) -> bool:
        """True if a commit may begin."""
        return isinstance(self.in_flight, Idle)

    @property
    def commands(self) -> tuple[CommandReceived, ...]:
        """Commands in the commit under way."""
        commit = under_way(self.in_flight)
        return () if commit is None else commit.commands

    @property
    def publishes(self) -> bool:
        """True while the commit that makes staged rows visible is not durable."""
        commit = under_way(self.in_flight)
        return commit is not None and commit.action.publishes is not None

    @property
    def retry_at_s(self) -> float | None:
        """Monotonic time of the next try; `None` unless a commit waits for one."""
        return self.in_flight.at_s if isinstance(self.in_flight, RetryAt) else None

    def begin(
        self,
        epoch: Epoch,
        state: JobState,
        request: CommitRequest,
        commands: tuple[CommandReceived, ...],
        step: PublicationStep,
        *,
        verify: bool,
        fences: bool,
        final: bool,
    ) -> Seal:
        """Begin a commit of a state and a strategy's request; `final` if a finished job must have been compared before.

        The fence of an attempt needs no comparison: it changes no row.
        """
        receipt = state.receipt if state.finished and final and not fences else None
        compared = None if receipt is None else receipt.target_version
        files = tuple(file for file in request.files if file.quarantined_by is None)
        announced = state.quarantine.announced
        action = Seal(
            epoch.number, epoch.txn_version, files, state.encode(), fences, compared, announced, request.removed,
            request.columns, manifest=step.manifest, publishes=step.publishes, scope_pin=step.scope_pin,
        )  # fmt: skip
        self.in_flight = Committing(action, commands, verify, request.polls, state, self._failures_before)
        return action

    def begin_state_only(self, epoch: Epoch, state: JobState, commands: tuple[CommandReceived, ...]) -> Seal:
        """Begin a state-only commit, after a first commit and while the strategy writes to the target itself."""
        assert self._durable is not None
        text, txn_version = state.encode(), self._durable.txn_version
        action = Seal(epoch.number, txn_version, (), text, state_only_after=self._durable)
        self.in_flight = Committing(action, commands, verify=False, polls=False, state=state)
        return action

    def retry(self, now: Now) -> list[Action]:
        """Return the waiting commit if its delay has passed."""
        if not isinstance(self.in_flight, RetryAt) or now.mono_s < self.in_flight.at_s:
            return []
        self.in_flight = self.in_flight.commit
        return [self.in_flight.action]

    def seal(self, event: Sealed, now: Now) -> Committing | None:
        """Take the answer; return the commit that is durable now, or `None` if the answer belongs to another one."""
        commit = under_way(self.in_flight)
        if commit is None or commit.action.epoch != event.epoch:
            return None
        self.in_flight, self._failures_before = Idle(), 0
        self._durable = Durable(commit.action.state, commit.action.txn_version)
        self.log = self.log.sealed(event, commit.state.percent, now)
        return commit

    def fail(self, error: BackfillError, retries_max: int, now: Now) -> tuple[BackfillError | None, Committing | None]:
        """Take the answer; return the error that ends the attempt, or the abandoned commit, or neither."""
        commit = under_way(self.in_flight)
        if commit is None:
            return (error if error.ends_attempt else None), None
        if isinstance(error, TargetChangedError) and commit.action.state_only_after is not None:
            self.in_flight = Idle()
            return None, commit
        if not isinstance(error, TargetChangedError) or commit.action.compared is None:
            again = commit.fail(error, retries_max, now)
            self.in_flight = again or self.in_flight
            return (error if again is None else None), None
        self.log = replace(self.log.note(error.commits), table_version=error.newest)
        self._compared_again += 1
        if self._compared_again > COMPARED_AGAIN_MAX:
            message = f"other writers changed the target during each of {self._compared_again} comparisons"
            hint = "Keep other writers away from the target until the job is finished, then run the job again."
            return TargetChangedError(f"{message}, most recently with {self.log.foreign_summary}.", hint=hint), None
        self.in_flight, self._failures_before = Idle(), commit.failures
        return None, commit
