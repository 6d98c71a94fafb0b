"""Commits of data files, state and transaction id in one Delta commit, by Delta Kernel and without a Spark job.

Only this file and `delta/log.py`, which only reads, use Delta Kernel. Measured times: begin and footers 12-20 ms, commit
38-55 ms, so a barrier takes about 100 ms while all cores copy.

Kernel rejects a second writer with the same application id. It rejects an older or equal transaction version at the build of
the transaction, and a concurrent one at its commit. Commits of other applications do not conflict: Kernel rebases over them.
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
from backfill_spark.delta.checkpoint_hooks import CommitHooks
from backfill_spark.delta.log import logged_files
from backfill_spark.delta.statistics.footer_statistics import CopiedFile, Measures, measures_of
from backfill_spark.delta.table_layout import Layout
from backfill_spark.jvm.errors import JAVA_ERRORS, is_no_table
from backfill_spark.jvm.gateway import java
from backfill_spark.jvm.log_stores.kernel import kernel_settings
from backfill_spark.ports.committer import SealedCommit, StoredState
from backfill_spark.sinks.delta.create import ENGINE_INFO, with_columns
from backfill_spark.sinks.delta.failures import (
    FENCED_HINT,
    START_AGAIN,
    explain_commit,
    explain_staged,
    explain_target,
)
from backfill_spark.sinks.delta.foreign_commits import check_alone, commits_of_others, touched_by_others

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_ANY_JOB = "backfill-"
"""Prefix of all jobs' application ids; commits of jobs that share a target are not foreign."""


class DeltaCommitter:
    """Implementation of `ports.committer.Committer` for one Delta table and one application id."""

    def __init__(self, spark: SparkSession, path: str, *, app_id: str, domain: str, alone: bool = False) -> None:
        """Store the table's path; reads nothing yet, and the table may not exist.

        Args:
            spark: The session.
            path: The table's path.
            app_id: Application id of the job in Delta transactions.
            domain: Metadata domain of the job's state; empty if commits store none, so that the table's protocol stays.
            alone: True if no other writer may change files, not even with OPTIMIZE.
        """
        self._alone = alone
        self._spark = spark
        self._jvm = java(spark)
        self._path = path
        self.app_id = app_id
        """Application id of the job in Delta transactions."""

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
        """Version of this committer's newest commit; -1 before the first."""

    # ------------------------------------------------------------------ reading
    def read_state(self) -> StoredState:
        """Read the job's state, the newest version and our newest transaction, without a Spark job."""
        snapshot = self._newest()
        return StoredState(None, -1, None) if snapshot is None else self._state_in(snapshot)

    def _newest(self) -> Any:
        """Return Kernel's snapshot of the newest version; `None` if the table does not exist."""
        try:
            return self._kernel.Table.forPath(self._engine, self._path).getLatestSnapshot(self._engine)
        except JAVA_ERRORS as error:
            if is_no_table(error):
                return None
            raise explain_target(error, path=self._path, doing="reading the target") from error

    def _state_in(self, snapshot: Any) -> StoredState:
        try:
            active = snapshot.getActiveDomainMetadataMap()
            stored = {str(name): active.get(name) for name in active.keySet().toArray()}
            txn = snapshot.getLatestTransactionVersion(self._engine, self.app_id)
            version = snapshot.getVersion()
        except JAVA_ERRORS as error:
            raise explain_target(error, path=self._path, doing="reading the target") from error
        domains = {name: str(metadata.getConfiguration()) for name, metadata in stored.items()}
        return StoredState(
            domains.get(self._domain),
            version,
            txn.get() if txn.isPresent() else None,
            claims_in(domains),
            domains.get(OWNER_DOMAIN),
        )

    def domains(self) -> tuple[str, ...]:
        """Return the names of all metadata domains in the newest version, of any writer."""
        snapshot = self._newest()
        return () if snapshot is None else tuple(sorted(snapshot.getActiveDomainMetadataMap().keySet().toArray()))

    def _has_rows(self, snapshot: Any) -> bool:
        """Return True if a version has visible rows; a file without a row count is assumed to have some."""
        try:
            files = snapshot.getScanBuilder().build().getScanFiles(self._engine, True)  # with statistics
            try:
                return any(file.rows is None or file.rows > file.deleted for file in logged_files(self._spark, files))
            finally:
                files.close()
        except JAVA_ERRORS as error:
            raise explain_commit(error, self._path) from error

    def check(self) -> None:
        """Begin a commit and abandon it, so that Kernel reports unsupported features before anything is written.

        Raises:
            UnsupportedTargetFeatureError: names the feature.
            TargetDamagedError: the newest checkpoint is incomplete.
            PermissionDeniedError, TransientError: the storage failed.
        """
        self._cached_layout()
        try:
            self.hooks.check()
        except JAVA_ERRORS as error:
            raise explain_commit(error, self._path) from error

    # ------------------------------------------------------------------ measuring
    def measure(self, paths: Sequence[str]) -> tuple[StagedFile, ...]:
        """Read sizes and footer statistics of staged files; called outside of barriers. Thread-safe.

        Files without rows are left out. Partition values come from the `column=value` folders, which use physical column
        names if the table has column mapping.
        """
        layout = self._cached_layout()

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

    def _cached_layout(self) -> Layout:
        with self._lock:
            if self._layout is None:
                try:
                    txn = self._altered(self._begin(None))
                    self._layout = Layout(txn, self._kernel, self._engine, self._jvm)
                except JAVA_ERRORS as error:
                    raise explain_commit(error, self._path) from error
            return self._layout

    def statistics(self, path: str, copied: CopiedFile) -> Statistics:
        """Return size, rows and statistics of a staged file whose column chunks another writer wrote.

        Raises:
            The same errors as `measure`.
        """
        layout = self._cached_layout()
        with self._staged_explained(path):
            return self._added.statistics(path, layout, copied)

    def measures(self, copied: CopiedFile) -> Measures | None:
        """Return the statistics of files like `copied`; `None` if each of them must be measured by `statistics`."""
        return measures_of(self._cached_layout(), copied)

    # ------------------------------------------------------------------ sealing
    def fence(self, txn_version: int, state: str, *, opened: StoredState, claim: Claim | None = None) -> SealedCommit:
        """Make the first, empty commit of an attempt: older attempts cannot commit afterwards, or unnoticed before it.

        Args:
            txn_version: Transaction version of this attempt's first epoch.
            state: The state that was read, with this attempt's number.
            opened: The stored state that was read.
            claim: The job's claim to the target; if two jobs make a first commit at once, one fails.

        Raises:
            StateMovedError: an older attempt committed after the state was read; read it again.
            TargetTakenError, TargetNotEmptyError: another writer came first.
            FencedError, UnsupportedTargetFeatureError, StorageFullError, PermissionDeniedError, TransientError:
                as `seal`.
        """
        before: StoredState | None = None
        try:
            # If the job owns the target exclusively, no commit may land between the check and ours.
            txn = self._begun(txn_version, retries=0 if self._alone else None)
            # Commits that land after this check conflict with the transaction, which began earlier.
            before = self._check_before_fence(opened, txn_version, claim)
            owner = None if claim is None else claimed(claim, before.claims, before.owner)
            if self._alone and opened.txn_version is not None:
                self._check_alone(int(txn.getReadTableVersion()))
            return self._commit(txn, (), state, owner=owner)
        except (FencedError, TransientError) as refused:
            # A commit that lands in between conflicts by its transaction (a newer attempt), by the state (an older
            # attempt) or by the claim (another job). Kernel has a specific error for the first only.
            after = self._check_before_fence(opened, txn_version, claim)
            # Without a newer attempt, another job's claim landed, before the first check or after it.
            by_claim = isinstance(refused, FencedError) and (after.txn_version or 0) < txn_version
            if by_claim or (before is not None and after.owner != before.owner):
                raise StateMovedError(
                    "another job made its first commit to the target just now.", hint="Start the job again."
                ) from None
            raise

    def _check_before_fence(self, opened: StoredState, txn_version: int, claim: Claim | None) -> StoredState:
        """Return the newest state; fail if another writer came first: another attempt, another job, or foreign rows."""
        snapshot = self._newest()
        newest = StoredState(None, -1, None) if snapshot is None else self._state_in(snapshot)
        # Only an earlier attempt, or one with the same number, is an error here; a newer one fences this attempt.
        moved = (newest.txn_version, newest.text) != (opened.txn_version, opened.text)
        if moved and (newest.txn_version or 0) <= txn_version:
            raise StateMovedError(
                f"an earlier attempt's commit (transaction {newest.txn_version}) landed after its state was read "
                f"(transaction {opened.txn_version}).",
                hint="Start the job again: it resumes from the newer state.",
            )
        if claim is not None:
            check_claim(claim, newest.claims, path=self._path)
            if claim.begins and not claim.shares and snapshot is not None and self._has_rows(snapshot):
                raise TargetNotEmptyError(
                    f"another writer added rows to {self._path} after the check of the target.",
                    hint="Use an empty target, and stop its other writers.",
                )
        return newest

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
            txn_version: Transaction version of the epoch.
            files: Measured files.
            state: The job's state.
            compared: Version of the table that a receipt covers; no foreign change may land between it and this commit.
            removed: Files to remove, each with a `CommitLine`; a file in both lists gets a new deletion vector.

        Raises:
            TargetChangedError: a foreign change landed, or another writer changed files that the job owns exclusively.
            FencedError: the table already has this or a newer transaction version.
            UnsupportedTargetFeatureError: Kernel cannot write the table; names the feature.
            StorageFullError, PermissionDeniedError, TransientError: the storage failed.
        """
        if compared is None and not self._alone:
            return self._commit(self._begun(txn_version), (*files, *removed), state)
        # Without retries, Kernel commits directly after the checked version, or fails.
        txn = self._begun(txn_version, retries=0)
        newest = int(txn.getReadTableVersion())
        if self._alone:
            self._check_alone(newest)
        others = () if compared is None else self.commits_of_others(compared, newest)
        if others:
            listed = ", ".join(map(str, others[:5]))
            raise TargetChangedError(
                f"another writer changed {self._path} during the comparison: {listed}.", commits=others, newest=newest
            )
        return self._commit(self._altered(txn), (*files, *removed), state)

    def with_columns(self, columns: NewColumns) -> DeltaCommitter:
        """See `ports.committer.SupportsColumns`."""
        other = copy(self)
        other._layout, other._columns = None, columns  # noqa: SLF001 - a copy of this one
        return other

    def _altered(self, txn: Any) -> Any:
        """Return a transaction that also changes the table's columns, if new columns are set."""
        columns = self._columns
        return txn if columns is None else with_columns(self._spark, self._engine, self._path, txn, columns)

    def _check_alone(self, newest: int) -> None:
        """See `foreign_commits.check_alone`."""
        after = self._sealed if self._sealed >= 0 else None
        if newest != after:
            check_alone(self._spark, self._path, newest, self.app_id, after=after)

    def commits_of_others(self, after: int, upto: int, *, shared: bool = False) -> tuple[ForeignCommit, ...]:
        """See `ports.committer.Committer`."""
        friends = OF_ANY_JOB if shared else None
        return commits_of_others(self._spark, self._path, after, upto, self.app_id, friends=friends)

    def touched_by_others(self, after: int, upto: int) -> tuple[ForeignCommit, ...]:
        """See `ports.committer.Committer`."""
        return touched_by_others(self._spark, self._path, after, upto, self.app_id)

    def replace_state(self, before: Durable, state: str) -> SealedCommit:
        """See `ports.committer.Committer`."""
        # Without retries, Kernel commits directly after the version that it read, which is not newer than the state read next.
        txn = self._begun(None, retries=0)
        stored = self.read_state()
        if stored.text != before.state:
            raise FencedError("a newer attempt of this job has committed.", hint=FENCED_HINT)
        if stored.txn_version != before.txn_version:
            raise TargetChangedError(f"the MERGE {stored.txn_version} has landed.", newest=stored.table_version)
        return self._commit(txn, (), state)

    def release(self, txn_version: int, stored: StoredState) -> SealedCommit:
        """See `ports.committer.Committer`."""
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
            # The new table would accept our files, but the files of earlier commits are lost.
            raise TargetGoneError(
                f"the target {self._path} was dropped and created again: it is at version {txn.getReadTableVersion()}, "
                f"but this job committed version {self._sealed}.",
                hint=START_AGAIN,
            )
        return txn

    def _commit(
        self, txn: Any, files: Sequence[StagedFile | RemovedFile], state: str, *, owner: str | None = None
    ) -> SealedCommit:
        self.hooks.check_found()
        try:
            state_row = txn.getTransactionState(self._engine)
            actions = self._added.actions(files, self._cached_layout(), state_row)
            if self._domain:
                txn.addDomainMetadata(self._domain, state)
            if owner is not None:
                txn.addDomainMetadata(OWNER_DOMAIN, owner)
            rows = self._kernel.internal.util.Utils.toCloseableIterator(actions.iterator())
            iterable = self._kernel.utils.CloseableIterable.inMemoryIterable(rows)
            result = txn.commit(self._engine, iterable)
        except JAVA_ERRORS as error:
            raise explain_commit(error, self._path) from error
        self.hooks.add(result, plain=all(isinstance(file, StagedFile) for file in files))
        self._sealed = result.getVersion()
        return SealedCommit(self._sealed)

    def run_hooks(self) -> None:
        """Run all hooks of past commits (checksums, checkpoints); failed hooks run again at the next call.

        Raises:
            BackfillError: the error of the first failed hook.
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
        return (builder.withDomainMetadataSupported() if self._domain else builder).build(self._engine)
