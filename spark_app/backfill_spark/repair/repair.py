"""Repairs the target of a job: compares both sides, replaces what differs in one commit, and compares again.

A kill before the commit leaves the target as it was; a kill after it leaves a repaired target, and the next repair finds nothing to do.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from backfill_api.spec.params import TargetAbility
from backfill_api.spec.spec import BackfillResource
from backfill_core.errors import (
    BackfillError,
    NotFinishedError,
    NotRepairableError,
    StateMismatchError,
    TargetChangedError,
)
from backfill_core.job.repair import (
    RepairState,
    check_complete,
    check_repairable,
    check_replacement,
    check_whole_versions,
    expired_for_repair,
    repaired_receipt,
)
from backfill_core.job.state import JobState
from backfill_core.log_shipping.target_files import TargetFile, TargetStep
from backfill_core.protocol.receipt import DifferenceCounts, TableReceipt
from backfill_core.protocol.work import RemovedFile, StagedFile
from backfill_spark.control.local_registry import LocalRegistry
from backfill_spark.control.wire import to_api_receipt
from backfill_spark.crash_points import arm, crash_point
from backfill_spark.delta.added_files import CommitLine
from backfill_spark.driver.job_context import JobContext, OpenedJob
from backfill_spark.file_copies.job_copies import JobCopies
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.log_shipping.file_actions import removal
from backfill_spark.log_shipping.staged_step import stage_step
from backfill_spark.ports.sink import RepairCommits
from backfill_spark.receipts.comparison import TableComparison, compare
from backfill_spark.receipts.differences import RowDifferences
from backfill_spark.receipts.row_sums import take_receipt
from backfill_spark.repair.file_differences import FilesOfTarget, replaced
from backfill_spark.repair.result import Repaired
from backfill_spark.settings import DriverSettings
from backfill_spark.work.context import WorkContext, WorkLedger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OF_FILES, OF_ROWS = 0, 1
"""Numbers of the two pieces of work, which stage files in separate folders."""


def repair_target(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    dry_run: bool = False,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
    starting: Callable[[str], None] = lambda _: None,
) -> Repaired:
    """Make the target equal to the source at the position that the job has consumed, and verify it.

    Args:
        backfill: The job.
        settings: Settings of this process.
        dry_run: Only compare both sides, and count the rows and files that a repair would change.
        spark: A session to use; by default, a session is opened and closed again.
        stop: A requested stop ends the start.
        starting: Called before each step.

    Raises:
        AlreadyRunningError: a driver of the job runs on this machine.
        NotRepairableError: the target of this job cannot be repaired.
        NotFinishedError: the copy is not complete.
        SnapshotExpiredError: the source no longer has the version.
        TargetChangedError: another writer changed the target during the repair; nothing was repaired.
        StateMismatchError: the target has no state of this job.
    """
    stop = stop or StopSignal()
    with (
        LocalRegistry(settings.state_dir, backfill.job_id),
        JobContext.open(backfill, settings, command="repair", spark=spark, stop=stop, starting=starting) as context,
        stop.cancels_jobs_of(context.spark),
    ):
        if settings.crash_at:
            arm(settings.crash_at)
        state = _repairable(context)
        with _expiry_explained(context.format_position(state.consumed)), context.open_job() as job:
            if job.start_over is not None:
                raise NotFinishedError(
                    "the job is not finished, and its next attempt starts again from the beginning.",
                    hint="Run the job to its end, then repair it.",
                )
            repair = _Repair(job, state, stop, starting)
            return repair.counted() if dry_run else repair.made()


def _repairable(context: JobContext) -> JobState:
    if context.state is None:
        raise StateMismatchError("the target has no state of this job.", hint="Run the job first.")
    check_repairable(context.backfill.spec, context.state)
    context.check_claim()
    return context.state


@contextmanager
def _expiry_explained(position: str) -> Iterator[None]:
    try:
        yield
    except BackfillError as error:
        expired = expired_for_repair(error, position)
        if expired is error:
            raise
        raise expired from error


@dataclass(frozen=True)
class _Found:
    """The differences between both sides."""

    compared: TableComparison
    receipt: TableReceipt
    target: FilesOfTarget
    step: TargetStep
    """Files that are copied again, and the files that these replace."""

    rows: RowDifferences | None
    """Rows that differ one by one; `None` if there are none."""

    rewritten: tuple[TargetFile, ...]
    """Files that are written again without their wrong rows."""

    @property
    def counts(self) -> DifferenceCounts:
        return DifferenceCounts() if self.rows is None else self.rows.counts

    @property
    def removed(self) -> int:
        """Number of rows to remove, or of files if no row differs."""
        counts = self.counts
        return counts.deleted + counts.updated or len(self.step.removals) + len(self.rewritten)

    @property
    def added(self) -> int:
        """Number of rows and files to add; a row that a file keeps when it is written again counts."""
        counts = self.counts
        rows = [file.rows for file in self.rewritten]
        kept = 1 if None in rows else sum(filter(None, rows)) - counts.deleted - counts.updated
        return counts.inserted + counts.updated + len(self.step.copies) + max(kept, 0)


class _Repair:
    """One repair of one job."""

    def __init__(self, job: OpenedJob, state: JobState, stop: StopSignal, starting: Callable[[str], None]) -> None:
        self._job, self._state, self._stop, self._starting = job, state, stop, starting
        self._tables = job.tables
        self._ships = TargetAbility.SHIPPING in job.backfill.spec.strategy.variant.needs
        status = job.strategy().status
        check_complete(status.covered)
        check_whole_versions(status.between_parts)
        self._position = status.position

    def counted(self) -> Repaired:
        """Compare both sides, and count what differs."""
        with self._tables.jobs_explained():
            before = self._compared(self._job.stored.table_version)
            receipt = before.receipt(epoch=self._state.epoch)
            if receipt.equal:
                return self._result(receipt, receipt, None, None)
            return self._result(receipt, receipt, self._found(before, receipt), None)

    def made(self) -> Repaired:
        """Compare both sides, repair what differs, and verify it."""
        commits = self._commits()
        with self._tables.jobs_explained():
            before = self._compared(self._job.stored.table_version)
            receipt = before.receipt(epoch=self._state.epoch)
            now = RepairState.begun(self._state, driver=secrets.token_hex(8), now_ms=_now_ms())
            if receipt.equal:
                self._keep(receipt, now, commits)
                return self._result(receipt, receipt, None, None)
            found = self._found(before, receipt)
            check_replacement(commits.properties(), removed=found.removed, added=found.added)
            commits.fence(now.txn_version, now.state.encode(), opened=self._job.stored)
            crash_point("before_repair")
            files, removed = self._staged(found, now.state.attempt)
            now = now.with_receipt(receipt, now_ms=_now_ms())
            version = self._replaced(commits, now, files, removed)
            crash_point("after_repair")
            self._starting("verifying the repaired target")
            after = self._verified(found, version)
            now = now.with_receipt(after, now_ms=_now_ms())
            committer = self._tables.committer
            committer.seal(now.txn_version, (), now.state.encode(), compared=after.target_version)
            with suppress(BackfillError):  # the next run of the job tries again
                committer.run_hooks()
            return self._result(receipt, after, found, version)

    def _replaced(
        self, commits: RepairCommits, now: RepairState, files: list[StagedFile], removed: list[RemovedFile]
    ) -> int:
        try:
            return commits.replace(now.txn_version, files, now.state.encode(), removed=removed).version
        except TargetChangedError:
            self._discard(now.state.attempt)  # after any other error the commit may exist
            raise

    def _discard(self, attempt: int) -> None:
        for work_id in (OF_FILES, OF_ROWS):
            self._tables.sink.discard_work(attempt, work_id)

    def _commits(self) -> RepairCommits:
        plugin = self._job.plugins.sink
        if plugin.repairs is None:
            raise NotRepairableError(
                f"spec.target.type is {plugin.name}, whose tables cannot be repaired.", hint="Fill a new target."
            )
        return plugin.repairs(self._tables.spark, self._job.backfill)

    def _keep(self, receipt: TableReceipt, now: RepairState, commits: RepairCommits) -> None:
        """Store an equal receipt if the stored one differs, as after a repair that was killed before its verification."""
        if self._state.receipt is not None and not self._state.receipt.equal:
            now = now.with_receipt(receipt, now_ms=_now_ms())
            commits.fence(now.txn_version, now.state.encode(), opened=self._job.stored)

    def _compared(self, version: int) -> TableComparison:
        self._starting("comparing source and target")
        return compare(self._tables, self._position, target_version=version, covered=None, check=self._stop.check)

    def _found(self, compared: TableComparison, receipt: TableReceipt) -> _Found:
        self._starting("finding the rows that differ")
        target = FilesOfTarget(self._tables.spark, self._tables.sink.path, compared.target_version)
        named = frozenset(file.path for file in receipt.files)
        wrong = tuple(mismatch.vnode for mismatch in receipt.mismatches)
        if self._ships:
            # Rows tell which of the files are wrong that were not compared by their bytes, such as decoded ones.
            differing, held = (
                RowDifferences(compared, wrong).suspects if wrong else (frozenset[str](), frozenset[str]())
            )
            damaged = named | {file.path for file in target.named(held)}
            step = replaced(self._tables, compared, target, damaged, ships=True, differing=differing)
            return _Found(compared, receipt, target, step, None, ())
        proof = compared.proven
        # The rows of these files were not compared, so they are copied again as a whole. The rows of all others were.
        damaged = proof.wrong_copies
        step = replaced(self._tables, compared, target, damaged, ships=False)
        rows = RowDifferences(compared, wrong) if wrong else None
        surplus = [] if rows is None else target.named(rows.files)
        misstated = (named - {file.path for file in proof.notes} | {file.path for file in proof.wrong}) - damaged
        rewritten = {file.path: file for file in (*surplus, *(file for file in target.files if file.path in misstated))}
        return _Found(compared, receipt, target, step, rows, tuple(rewritten.values()))

    def _staged(self, found: _Found, attempt: int) -> tuple[list[StagedFile], list[RemovedFile]]:
        self._starting("writing the repaired rows and files")
        ledger, copies = WorkLedger(), JobCopies(self._tables)
        contexts = [WorkContext(self._tables, attempt, work, ledger, copies) for work in (OF_FILES, OF_ROWS)]
        try:
            return self._written(found, *contexts)
        except BaseException:
            self._discard(attempt)
            raise

    def _written(
        self, found: _Found, of_files: WorkContext, of_rows: WorkContext
    ) -> tuple[list[StagedFile], list[RemovedFile]]:
        version = found.compared.source_version
        assert version is not None, "a source without versions is rejected"
        files: list[StagedFile] = []
        removed: list[RemovedFile] = []
        if found.step.copies or found.step.removals:
            added, gone = stage_step(found.step, version, of_files)
            files, removed = [*added], [*gone]
        rewritten = list(found.rewritten)
        if found.rows is not None or rewritten:
            rows = self._corrected(found, rewritten)
            files += of_rows.stage(rows, what="the repaired rows")
            removed += [
                RemovedFile(
                    of_files.copies.staged_path(unquote(file.path)),
                    CommitLine(removal(file.action, data_change=True, now_ms=_now_ms())),
                )
                for file in rewritten
            ]
        return files, removed

    def _corrected(self, found: _Found, rewritten: list[TargetFile]) -> DataFrame:
        """Return the rows that replace files of the target, and the rows that it lacks; lazy."""
        if found.rows is None:
            return found.target.rows(rewritten)
        if not rewritten:
            return found.rows.lacking
        return found.rows.corrected(found.target.rows(rewritten), found.target.uris(rewritten))

    def _verified(self, found: _Found, version: int) -> TableReceipt:
        """Compare the repaired vnodes, or everything that was not proven by bytes, at the version of the repair."""
        before, notes = found.compared, {file.path for file in found.compared.proven.notes}
        only_rows = not before.proven.source_paths and all(file.path in notes for file in found.receipt.files)
        if found.rows is not None and only_rows:
            vnodes = take_receipt(
                found.rows.source,
                found.rows.target(version),
                key=before.key,
                vnodes=before.vnodes,
                source_version=before.source_version,
                target_version=version,
                epoch=self._state.epoch,
                mode=before.mode,
            )
            return repaired_receipt(replace(found.receipt, files=()), vnodes)  # a note counts only if rows differ
        known = before.proven.same_ids
        after = compare(
            self._tables, self._position, target_version=version, covered=None, check=self._stop.check, read_back=known
        )
        return after.receipt(epoch=self._state.epoch)

    def _result(self, before: TableReceipt, after: TableReceipt, found: _Found | None, version: int | None) -> Repaired:
        at = _now_ms()
        step = TargetStep((), (), (), (), ()) if found is None else found.step
        return Repaired(
            path=self._tables.sink.path,
            before=to_api_receipt(replace(before, verified_ms=at)),
            receipt=to_api_receipt(replace(after, verified_ms=at)),
            version=version,
            rows=DifferenceCounts() if found is None else found.counts,
            files_copied=len(step.copies),
            bytes_copied=sum(copy.file.bytes for copy in step.copies),
            finished=self._state.finished,
            files_removed=len(step.removals) + (0 if found is None else len(found.rewritten)),
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
