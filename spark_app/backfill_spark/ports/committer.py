"""The interface that commits the job's state, its fence and its rows to a target; each sink implements it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from backfill_core.errors import ForeignCommit
from backfill_core.job.owner import Claim
from backfill_core.protocol.actions import Durable
from backfill_core.protocol.publication import ManifestPart, ManifestWrite
from backfill_core.protocol.work import NewColumns, RemovedFile, StagedFile

if TYPE_CHECKING:
    from backfill_spark.delta.added_files import Statistics
    from backfill_spark.delta.statistics.footer_statistics import CopiedFile, Measures


@dataclass(frozen=True, slots=True)
class StoredState:
    """A job's state in a target; `table_version` is -1 if there is no table."""

    text: str | None
    table_version: int
    txn_version: int | None
    claims: tuple[Claim, ...] = ()
    """Claims of all jobs that have a state in the table, this one included."""

    owner: str | None = None
    """The claims of all jobs, in their stored form."""


@dataclass(frozen=True, slots=True)
class SealedCommit:
    """A durable commit."""

    version: int
    foreign: object = None
    """Foreign changes that the commit was adapted to (`Sealed.foreign`)."""

    outdates: bool = False
    """True if other writers changed columns or features before it: the attempt must open the tables again."""


class Committer(Protocol):
    """Commits to one target for one application id. Safe to use from several threads, one commit at a time.

    Laws: a commit contains files, state and transaction version together, or none of them. Each transaction version is
    committed at most once, and never after a greater one. `read_state` after a commit returns that commit's state.
    """

    app_id: str
    """Name of the job in the target's transactions."""

    def read_state(self) -> StoredState:
        """Return the job's state, the newest version and the job's newest transaction version."""

    def domains(self) -> tuple[str, ...]:
        """Return the names of all states that the target keeps, of every job."""

    def check(self) -> None:
        """Reject a target that does not accept commits, before anything is written."""

    def measure(self, paths: Sequence[str]) -> tuple[StagedFile, ...]:
        """Return size, rows and statistics of staged files; omit files without rows. Safe from any thread."""

    def statistics(self, path: str, copied: CopiedFile) -> Statistics:
        """Return size, rows and statistics of a staged file whose column chunks were copied from another file."""

    def measures(self, copied: CopiedFile) -> Measures | None:
        """Return the statistics of copied files like this one; `None` if each of them must be measured by `statistics`."""

    def fence(self, txn_version: int, state: str, *, opened: StoredState, claim: Claim | None = None) -> SealedCommit:
        """Make the first, empty commit of an attempt: no older attempt can commit after it.

        Raises:
            StateMovedError: the state that was read (`opened`) is not the newest; read it again.
            FencedError: a newer attempt has committed.
        """

    def seal(
        self,
        txn_version: int,
        files: Sequence[StagedFile],
        state: str,
        *,
        compared: int | None = None,
        removed: Sequence[RemovedFile] = (),
    ) -> SealedCommit:
        """Make one commit of files, state and transaction version.

        Args:
            txn_version: Greater than that of every earlier commit of the job.
            files: Staged files, as `measure` returned them.
            state: State of the job.
            compared: Version of the target that a receipt verified; the commit is rejected if other writers changed the target after it.
            removed: Files to remove; a file that `files` also contains stays, with the description in `files`.

        Raises:
            FencedError: this or a newer transaction version is already in the target.
            TargetChangedError: other writers changed the target after `compared`.
        """

    def replace_state(self, before: Durable, state: str) -> SealedCommit:
        """Commit only a state, without a transaction version; a concurrent MERGE of the job is not disturbed.

        Raises:
            TargetChangedError: the job's newest transaction version differs from `before`: the MERGE has committed.
            FencedError: the state in the target differs from `before`.
            TransientError: another commit came first.
        """

    def release(self, txn_version: int, stored: StoredState) -> SealedCommit:
        """Remove the job's state and claim from the target; no driver of the job can commit afterwards.

        Args:
            txn_version: A version above those of all attempts.
            stored: The stored state that was read.

        Raises:
            FencedError, PermissionDeniedError, TransientError: as `seal`.
        """

    def commits_of_others(self, after: int, upto: int, *, shared: bool = False) -> tuple[ForeignCommit, ...]:
        """Return the foreign commits that change rows, in the versions `(after, upto]`.

        Args:
            after: Version before the first one that is checked.
            upto: The last version.
            shared: True if other jobs may fill the target too; commits of all jobs are then excluded. Otherwise, only those of this job are.

        Raises:
            BackfillError: a commit cannot be read; the error is retryable if a later read may succeed.
        """

    def touched_by_others(self, after: int, upto: int) -> tuple[ForeignCommit, ...]:
        """Return the foreign commits that change files or columns, also compactions, in the versions `(after, upto]`.

        Raises:
            BackfillError: a commit cannot be read; the error is retryable if a later read may succeed.
        """

    def run_hooks(self) -> None:
        """Run the pending hooks of past commits, such as checkpoints; a hook that fails is tried again next time."""


@runtime_checkable
class SupportsColumns(Protocol):
    """A committer of a target that one job owns exclusively, and whose columns follow those of its source."""

    def with_columns(self, columns: NewColumns) -> Committer:
        """Return a committer that measures files with the new columns, and whose `seal` sets them in the same commit."""


@runtime_checkable
class CompletesEntries(Protocol):
    """A committer of a table whose files a job replaces; see `ports.sink.LiveTarget`."""

    def with_lines(self, files: Sequence[StagedFile]) -> tuple[StagedFile, ...]:
        """Return measured files with their complete entries of the log."""


@runtime_checkable
class HidesRows(Protocol):
    """A committer that can hide files from readers, and make them visible together; `publish: WhenComplete` requires it."""

    def seal_staged(
        self,
        txn_version: int,
        files: Sequence[StagedFile],
        state: str,
        write: ManifestWrite,
        *,
        scope_pin: int | None = None,
    ) -> SealedCommit:
        """Write a part of the manifest that lists the files, then commit the state without them; raises as `Committer.seal`.

        With a `scope_pin` (see `publish`), it also rejects files with rows outside of the scope, by RowOutsideScopeError.
        """

    def publish(
        self,
        txn_version: int,
        state: str,
        parts: Sequence[ManifestPart],
        *,
        shared: bool = False,
        scope_pin: int | None = None,
    ) -> SealedCommit:
        """Make one commit of all files in the parts of a manifest, state and transaction version; with a scope, remove its files.

        Args:
            txn_version: As in `seal`.
            state: State of the job.
            parts: Parts that the state of the newest commit names.
            shared: True if the target may have rows of other writers.
            scope_pin: Version after which no other writer may change rows of the scope; `None` if the job has no scope.

        Raises:
            ScopeNotSeparatedError: another writer joined rows inside and outside of the scope in one file.
            TargetChangedError: another writer changed rows of the scope, or the target has rows of another writer, or files or parts are gone or damaged.
            FencedError: this or a newer transaction version is already in the target.
        """
