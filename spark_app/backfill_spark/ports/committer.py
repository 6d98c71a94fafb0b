"""What commits to a target: the job's state, its fence and its rows; a sink brings its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from backfill_core.errors import ForeignCommit
from backfill_core.job.owner import Claim
from backfill_core.protocol.actions import Durable
from backfill_core.protocol.work import NewColumns, RemovedFile, StagedFile

if TYPE_CHECKING:
    from backfill_spark.delta.added_files import Statistics
    from backfill_spark.delta.statistics.footer_statistics import CopiedFile


@dataclass(frozen=True, slots=True)
class StoredState:
    """A job's state in a target; `table_version` is -1 when there is no table."""

    text: str | None
    table_version: int
    txn_version: int | None
    claims: tuple[Claim, ...] = ()
    """Of every job that has a state in the table, this one too."""

    owner: str | None = None
    """The claims of all jobs, as they are stored."""


@dataclass(frozen=True, slots=True)
class SealedCommit:
    """A durable commit."""

    version: int


class Committer(Protocol):
    """Commits to one target for one application id. Safe to use from several threads, one commit at a time.

    Laws: a commit holds files, state and transaction version together, or nothing of them; a transaction version is
    committed once, and none after a greater one; `read_state` after a commit returns its state.
    """

    app_id: str
    """Name of the job in the target's transactions."""

    def read_state(self) -> StoredState:
        """Return the job's state, the newest version and the job's newest transaction version."""

    def domains(self) -> tuple[str, ...]:
        """Return the names of all states that the target keeps, of every job."""

    def check(self) -> None:
        """Refuse a target that cannot be committed to, before anything is written."""

    def measure(self, paths: Sequence[str]) -> tuple[StagedFile, ...]:
        """Return size, rows and statistics of staged files; files without rows are left out. From any thread."""

    def statistics(self, path: str, copied: CopiedFile) -> Statistics:
        """Return size, rows and statistics of a staged file whose column chunks others wrote."""

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
            txn_version: Above that of every earlier commit of the job.
            files: As `measure` returned them.
            state: The job's.
            compared: Version of the target that a receipt is about; refused when others changed the target after it.
            removed: Files that go; one that is among `files` too stays, as that says.

        Raises:
            FencedError: this or a newer transaction version is in the target already.
            TargetChangedError: others changed the target after `compared`.
        """

    def replace_state(self, before: Durable, state: str) -> SealedCommit:
        """Commit a state alone, without a transaction version, while a MERGE of the job may run; it does not disturb that.

        Raises:
            TargetChangedError: the job's newest transaction version is another one: the MERGE has landed.
            FencedError: the state in the target is another one.
            TransientError: another commit was quicker.
        """

    def release(self, txn_version: int, stored: StoredState) -> SealedCommit:
        """Take the job's state and claim out of the target."""

    def commits_of_others(self, after: int, upto: int, *, shared: bool = False) -> tuple[ForeignCommit, ...]:
        """Return the commits of the versions `(after, upto]` that change rows and are of no job, or not of this one.

        Args:
            after: Version before the first that is looked at.
            upto: The last one.
            shared: Do other jobs fill the target too? Then their commits do not count.

        Raises:
            BackfillError: a commit cannot be read; says whether it may be later.
        """

    def run_hooks(self) -> None:
        """Do what past commits left to do, such as checkpoints; what fails is tried again next time."""


@runtime_checkable
class SupportsColumns(Protocol):
    """A committer of a target that one job keeps alone, and that gets other columns when its source does."""

    def with_columns(self, columns: NewColumns) -> Committer:
        """Return one whose `seal` gives the target these columns in the same commit, and which measures files as it has them then."""
