"""A commit: data files + state + transaction id in one Delta commit, made by Delta Kernel without a Spark job.

Beside `delta/log.py`, which only reads, this is the only file that touches Delta Kernel. The calls and their figures are measured: begin and footers
12-20 ms, commit 38-55 ms, so a barrier costs about 100 ms while all cores copy.

A second writer with the same application id is refused: an older or equal transaction version when the
transaction is built, a concurrent one when it commits. Other people's appends and merges are rebased over.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

from backfill_core.errors import (
    FencedError,
    ForeignCommit,
    StateMovedError,
    TargetChangedError,
    TargetGoneError,
    TargetNotEmptyError,
    TransientError,
)
from backfill_core.job.owner import OWNER_DOMAIN, Claim, check_claim, claimed, claims_in, released
from backfill_core.protocol.actions import Durable
from backfill_core.protocol.work import NewColumns, RemovedFile, StagedFile
from backfill_spark.delta.added_files import AddedFiles, Statistics
from backfill_spark.delta.checkpoints.hooks import CommitHooks
from backfill_spark.delta.log import logged_files
from backfill_spark.delta.statistics.footer_statistics import CopiedFile
from backfill_spark.delta.table_layout import Layout
from backfill_spark.jvm.errors import JAVA_ERRORS, is_no_table
from backfill_spark.jvm.gateway import java
from backfill_spark.jvm.log_stores.kernel import kernel_settings
from backfill_spark.ports.committer import SealedCommit, StoredState
from backfill_spark.sinks.delta.create import ENGINE_INFO, with_columns
from backfill_spark.sinks.delta.failures import (
    BEGIN_ANEW,
    FENCED_HINT,
    explain_commit,
    explain_staged,
    explain_target,
)
from backfill_spark.sinks.delta.foreign_commits import check_alone, commits_of_others

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_ANY_JOB = "backfill-"
"""How the application ids of all jobs begin; jobs that share a target are not foreign."""


class DeltaCommitter:
    """Satisfies `ports.committer.Committer` on one Delta table, for one application id."""

    def __init__(self, spark: SparkSession, path: str, *, app_id: str, domain: str, alone: bool = False) -> None:
        """Take the table's path; nothing is read yet, the table may not exist.

        Args:
            spark: The session.
            path: The table's.
            app_id: Name of the job in Delta's transactions.
            domain: Where its state is.
            alone: May no other writer touch the files, not even to rearrange them?
        """
        self._alone = alone
        self._spark = spark
        self._jvm = java(spark)
        self._path = path
        self.app_id = app_id
        """Name of the job in Delta's transactions."""

        self._domain = domain
        self._kernel = self._jvm.io.delta.kernel
        conf = kernel_settings(spark)
        self._engine = self._kernel.defaults.engine.DefaultEngine.create(conf)
        self._added = AddedFiles(spark, path, self._kernel, self._engine, conf)
        self.hooks = CommitHooks(spark, path, self._kernel, self._engine)
        self._lock = threading.Lock()
        self._layout: Layout | None = None
        self._columns: NewColumns | None = None
        self._sealed = -1
        """Version of our newest commit."""

    # ------------------------------------------------------------------ reading
    def read_state(self) -> StoredState:
        """Read the job's state, the newest version and our newest transaction, without a Spark job."""
        snapshot = self._newest()
        return StoredState(None, -1, None) if snapshot is None else self._state_in(snapshot)

    def _newest(self) -> Any:
        """Return the newest version as Kernel sees it; None where there is no table."""
        try:
            return self._kernel.Table.forPath(self._engine, self._path).getLatestSnapshot(self._engine)
        except JAVA_ERRORS as error:
            if is_no_table(error):
                return None
            raise explain_target(error, path=self._path, doing="the look at the target") from error

    def _state_in(self, snapshot: Any) -> StoredState:
        try:
            found = snapshot.getActiveDomainMetadataMap()
            stored = {str(name): found.get(name) for name in found.keySet().toArray()}
            txn = snapshot.getLatestTransactionVersion(self._engine, self.app_id)
            version = snapshot.getVersion()
        except JAVA_ERRORS as error:
            raise explain_target(error, path=self._path, doing="the look at the target") from error
        domains = {name: str(one.getConfiguration()) for name, one in stored.items()}
        return StoredState(
            domains.get(self._domain),
            version,
            txn.get() if txn.isPresent() else None,
            claims_in(domains),
            domains.get(OWNER_DOMAIN),
        )

    def domains(self) -> tuple[str, ...]:
        """Return the names of everything that is kept in the newest version's domains, of whomever."""
        snapshot = self._newest()
        return () if snapshot is None else tuple(sorted(snapshot.getActiveDomainMetadataMap().keySet().toArray()))

    def _has_rows(self, snapshot: Any) -> bool:
        """Has a version any row that a reader sees? What the log does not count is one."""
        try:
            files = snapshot.getScanBuilder().build().getScanFiles(self._engine, True)  # with statistics
            try:
                return any(file.rows is None or file.rows > file.deleted for file in logged_files(self._spark, files))
            finally:
                files.close()
        except JAVA_ERRORS as error:
            raise explain_commit(error, self._path) from error

    def check(self) -> None:
        """Begin a commit and drop it, so that Kernel names what it cannot write before anything is written.

        Raises:
            UnsupportedTargetFeatureError: names the feature.
            TargetDamagedError: the newest checkpoint is incomplete.
            PermissionDeniedError, TransientError: the storage refused.
        """
        self._known_layout()
        try:
            self.hooks.check()
        except JAVA_ERRORS as error:
            raise explain_commit(error, self._path) from error

    # ------------------------------------------------------------------ measuring
    def measure(self, paths: Sequence[str]) -> tuple[StagedFile, ...]:
        """Read sizes and footer statistics of staged files; off the barrier's path, from any thread.

        Files without rows are left out. Partition values are those of the `column=value` folders, which have the
        columns' physical names where the table maps them.
        """
        layout = self._known_layout()

        def measured(path: str) -> StagedFile:
            with self._staged_explained(path):
                return self._added.measured(path, layout)

        return tuple(file for file in map(measured, paths) if file.rows)

    @contextmanager
    def _staged_explained(self, path: str) -> Iterator[None]:
        try:
            yield
        except JAVA_ERRORS as error:
            raise explain_staged(error, path, target=self._path) from error

    def _known_layout(self) -> Layout:
        with self._lock:
            if self._layout is None:
                try:
                    txn = self._altered(self._begin(None))
                    self._layout = Layout(txn, self._kernel, self._engine, self._jvm)
                except JAVA_ERRORS as error:
                    raise explain_commit(error, self._path) from error
            return self._layout

    def statistics(self, path: str, copied: CopiedFile) -> Statistics:
        """Return size, rows and statistics of a staged file whose column chunks others wrote.

        Raises:
            What `measure` raises.
        """
        layout = self._known_layout()
        with self._staged_explained(path):
            return self._added.statistics(path, layout, copied)

    # ------------------------------------------------------------------ sealing
    def fence(self, txn_version: int, state: str, *, opened: StoredState, claim: Claim | None = None) -> SealedCommit:
        """Make the first, empty commit of an attempt: no older attempt can commit after it, nor did unseen before.

        Args:
            txn_version: Of this attempt's first epoch.
            state: What was read, under this attempt's number.
            opened: What was read.
            claim: What the job says of the target; of two jobs that make a first commit at once one is refused.

        Raises:
            StateMovedError: an older attempt committed after the state was read; read it again.
            TargetTakenError, TargetNotEmptyError: another writer came first.
            FencedError, UnsupportedTargetFeatureError, StorageFullError, PermissionDeniedError, TransientError:
                as `seal`.
        """
        before: StoredState | None = None
        try:
            # Of a target that a job keeps alone nothing may lie between the look at it and the commit.
            txn = self._begun(txn_version, retries=0 if self._alone else None)
            # Whatever lands after this look meets the transaction that was begun before it.
            before = self._look_before_fence(opened, txn_version, claim)
            owner = None if claim is None else claimed(claim, before.claims, before.owner)
            if self._alone and opened.txn_version is not None:
                self._check_alone(int(txn.getReadTableVersion()))
            return self._commit(txn, (), state, owner=owner)
        except (FencedError, TransientError) as refused:
            # A commit that lands meanwhile is in conflict with ours by its transaction (a newer attempt), by the
            # state that both write (an older one) or by the claim (another job): Kernel has a word for the first only.
            after = self._look_before_fence(opened, txn_version, claim)
            # No newer attempt is there: the other job's claim may have landed before the first look or after it.
            by_claim = isinstance(refused, FencedError) and (after.txn_version or 0) < txn_version
            if by_claim or (before is not None and after.owner != before.owner):
                raise StateMovedError(
                    "another job made its first commit to the target just now.", hint="Start the job again."
                ) from None
            raise

    def _look_before_fence(self, opened: StoredState, txn_version: int, claim: Claim | None) -> StoredState:
        """Look at the newest version for a quicker writer: another attempt, another job, rows without a job."""
        snapshot = self._newest()
        found = StoredState(None, -1, None) if snapshot is None else self._state_in(snapshot)
        # An earlier attempt, or one that took the same number; a newer one has won.
        moved = (found.txn_version, found.text) != (opened.txn_version, opened.text)
        if moved and (found.txn_version or 0) <= txn_version:
            raise StateMovedError(
                f"an earlier attempt's commit (transaction {found.txn_version}) landed after its state was read "
                f"(transaction {opened.txn_version}).",
                hint="Start the job again: it goes on from the newer state.",
            )
        if claim is not None:
            check_claim(claim, found.claims, path=self._path)
            if claim.begins and not claim.shares and snapshot is not None and self._has_rows(snapshot):
                raise TargetNotEmptyError(
                    f"{self._path} got rows after it was looked at, and they are not of this job.",
                    hint="Use an empty target, and keep others from writing to it.",
                )
        return found

    def seal(
        self,
        txn_version: int,
        files: Sequence[StagedFile],
        state: str,
        *,
        compared: int | None = None,
        removed: Sequence[RemovedFile] = (),
    ) -> SealedCommit:
        """Make one commit of files, state and transaction id.

        Args:
            txn_version: Of the epoch.
            files: Measured.
            state: The job's.
            compared: Version of the table that a receipt is about: no change of others may come after it and before
                this commit.
            removed: What goes, with a `CommitLine`; where a file is in both, its removal is that of its earlier vector.

        Raises:
            TargetChangedError: one did, or others touched the files of a target that a job keeps alone; names them.
            FencedError: this or a newer transaction version is in the table already.
            UnsupportedTargetFeatureError: Kernel cannot write the table; names the feature.
            StorageFullError, PermissionDeniedError, TransientError: the storage refused.
        """
        if compared is None and not self._alone:
            return self._commit(self._begun(txn_version), (*files, *removed), state)
        # Without retries Kernel commits right after the version that was looked at, or not at all.
        txn = self._begun(txn_version, retries=0)
        newest = int(txn.getReadTableVersion())
        if self._alone:
            self._check_alone(newest)
        others = () if compared is None else self.commits_of_others(compared, newest)
        if others:
            words = ", ".join(map(str, others[:5]))
            raise TargetChangedError(
                f"others changed {self._path} while it was compared: {words}.", commits=others, newest=newest
            )
        return self._commit(self._altered(txn), (*files, *removed), state)

    def with_columns(self, columns: NewColumns) -> DeltaCommitter:
        """See `ports.committer.SupportsColumns`."""
        other = copy(self)
        other._layout, other._columns = None, columns  # noqa: SLF001 - a copy of this one
        return other

    def _altered(self, txn: Any) -> Any:
        """Return a transaction that gives the table other columns too, where it gets some."""
        columns = self._columns
        return txn if columns is None else with_columns(self._spark, self._engine, self._path, txn, columns)

    def _check_alone(self, newest: int) -> None:
        """See `foreign_commits.check_alone`."""
        known = self._sealed if self._sealed >= 0 else None
        if newest != known:
            check_alone(self._spark, self._path, newest, self.app_id, known=known)

    def commits_of_others(self, after: int, upto: int, *, shared: bool = False) -> tuple[ForeignCommit, ...]:
        """See `ports.committer.Committer`."""
        friends = OF_ANY_JOB if shared else None
        return commits_of_others(self._spark, self._path, after, upto, self.app_id, friends=friends)

    def replace_state(self, before: Durable, state: str) -> SealedCommit:
        """See `ports.committer.Committer`."""
        # Without retries Kernel commits right after the version that it read; that was there before the look.
        txn = self._begun(None, retries=0)
        found = self.read_state()
        if found.text != before.state:
            raise FencedError("a newer attempt of this job has committed.", hint=FENCED_HINT)
        if found.txn_version != before.txn_version:
            raise TargetChangedError(f"the MERGE {found.txn_version} has landed.", newest=found.table_version)
        return self._commit(txn, (), state)

    def release(self, txn_version: int, stored: StoredState) -> SealedCommit:
        """Take the job's state and its claim out of the table, in one commit that no driver of the job can follow.

        Args:
            txn_version: Above that of every attempt.
            stored: What was read.

        Raises:
            FencedError, PermissionDeniedError, TransientError: as `seal`.
        """
        owner = released(self._domain, stored.owner)
        try:
            txn = self._begin(txn_version)
            txn.removeDomainMetadata(self._domain)
            if owner is not None:
                txn.addDomainMetadata(OWNER_DOMAIN, owner)
            elif stored.owner is not None:
                txn.removeDomainMetadata(OWNER_DOMAIN)
            nothing = self._kernel.utils.CloseableIterable.emptyIterable()
            return SealedCommit(txn.commit(self._engine, nothing).getVersion())
        except JAVA_ERRORS as error:
            raise explain_commit(error, self._path) from error

    def _begun(self, txn_version: int | None, retries: int | None = None) -> Any:
        try:
            txn = self._begin(txn_version, retries)
        except JAVA_ERRORS as error:
            raise explain_commit(error, self._path) from error
        if txn.getReadTableVersion() < self._sealed:
            # Another table would take our files, without those that the dropped one took along.
            raise TargetGoneError(
                f"the target {self._path} was dropped and made again: it is at version {txn.getReadTableVersion()}, "
                f"and version {self._sealed} was ours.",
                hint=BEGIN_ANEW,
            )
        return txn

    def _commit(
        self, txn: Any, files: Sequence[StagedFile | RemovedFile], state: str, *, owner: str | None = None
    ) -> SealedCommit:
        self.hooks.check_found()
        try:
            state_row = txn.getTransactionState(self._engine)
            actions = self._added.actions(files, self._known_layout(), state_row)
            txn.addDomainMetadata(self._domain, state)
            if owner is not None:
                txn.addDomainMetadata(OWNER_DOMAIN, owner)
            rows = self._kernel.internal.util.Utils.toCloseableIterator(actions.iterator())
            iterable = self._kernel.utils.CloseableIterable.inMemoryIterable(rows)
            result = txn.commit(self._engine, iterable)
        except JAVA_ERRORS as error:
            raise explain_commit(error, self._path) from error
        self.hooks.add(result, plain=all(isinstance(one, StagedFile) for one in files))
        self._sealed = result.getVersion()
        return SealedCommit(self._sealed)

    def run_hooks(self) -> None:
        """Run the hooks of past commits (checksums, checkpoints), each; those that fail are tried again next time.

        Raises:
            BackfillError: what the first of them met.
        """
        try:
            self.hooks.run()
        except JAVA_ERRORS as error:
            raise explain_commit(error, self._path) from error

    def _begin(self, txn_version: int | None, retries: int | None = None) -> Any:
        table = self._kernel.Table.forPath(self._engine, self._path)
        builder = table.createTransactionBuilder(self._engine, ENGINE_INFO, self._kernel.Operation.WRITE)
        if txn_version is not None:
            builder = builder.withTransactionId(self._engine, self.app_id, txn_version)
        if retries is not None:
            builder = builder.withMaxRetries(retries)
        return builder.withDomainMetadataSupported().build(self._engine)
