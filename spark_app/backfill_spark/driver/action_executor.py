"""Executes the core's actions: Spark jobs in threads, one scheduler pool for splits, changes and verification each.

Every piece of work has its own job group, so that a pause can cancel it; and answers exactly once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from backfill_core.errors import BackfillError, ForeignCommit, StateMovedError
from backfill_core.phases.accounting import check_read, check_staged
from backfill_core.positions.file_ranges import file_ranges
from backfill_core.protocol.actions import Seal
from backfill_core.protocol.events import Event, Head, WorkCancelled, WorkFailed, WorkFinished
from backfill_core.protocol.work import (
    ApplyChanges,
    ChangesApplied,
    KeyProven,
    ProveKey,
    ReadSplit,
    Result,
    SplitStaged,
    StagedFile,
    Verified,
    Verify,
    Work,
)
from backfill_spark.crash_points import crash_point
from backfill_spark.jvm.gateway import java_context
from backfill_spark.jvm.java_process import java_died
from backfill_spark.jvm.thread_priority import CopyPriority
from backfill_spark.jvm.workers import Workers
from backfill_spark.ports.sink import SupportsMerge, SupportsSegments
from backfill_spark.rows.changes import check_net_changes
from backfill_spark.rows.counted_rows import CountedRows
from backfill_spark.rows.verification import check_one_row_a_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_spark.driver.job_context import OpenedJob

THREADS_MAX = 8
POOLS = {ReadSplit: "splits", ApplyChanges: "changes", Verify: "verify", ProveKey: "verify"}


class _CancelledError(Exception):
    """Work was cancelled between two of its jobs."""


class SparkActionExecutor:
    """Satisfies `event_loop.ActionExecutor` on Spark and Delta."""

    def __init__(self, job: OpenedJob, *, attempt: int) -> None:
        """Take the job and the number of its attempt; start nothing."""
        self._job = job
        self._attempt = attempt
        self._row_offsets = job.row_offsets
        # Cancelled work is not waited for, not even by the end of the process.
        self._workers = Workers(THREADS_MAX, "work")
        self._under_way: dict[int, Callable[[Event], None]] = {}
        """Where the answer of each running work goes, by its id."""

        self._merging: set[int] = set()
        """Work that may have changed the target: its own result is waited for."""

        self._cancelled: set[int] = set()
        self._copies = CopyPriority(job.spark)
        self._lock = threading.Lock()
        self._unsealed: set[str] = set()
        """Files that this attempt staged and no commit names yet."""

        self._sealed: list[int] = []
        """Versions of our newest commits: others may have committed between two of them."""

    # ------------------------------------------------------------------ background work
    def start(self, work: Work, answer: Callable[[Event], None]) -> None:
        """Begin work in the background and answer once."""
        with self._lock:
            self._under_way[work.work_id] = answer
        self._workers.submit(lambda: self._run(work))

    def cancel(self, work_id: int) -> None:
        """End the Spark jobs of one piece of work, also those it has not submitted yet, and answer for it.

        Java may plan for seconds yet before it submits one that is refused. What comes of it then counts no more. Only for
        what has begun to change the target its own answer is waited for.
        """
        with self._lock:
            self._cancelled.add(work_id)
            waits = work_id in self._merging
        java_context(self._job.spark).sc().cancelJobGroupAndFutureJobs(self._group(work_id))
        if not waits:
            self._answer(WorkCancelled(work_id))

    def _answer(self, event: WorkFinished | WorkFailed | WorkCancelled) -> None:
        work_id = event.result.work_id if isinstance(event, WorkFinished) else event.work_id
        with self._lock:
            answer = self._under_way.pop(work_id, None)
        if answer is not None:
            answer(event)

    def close(self) -> None:
        """Wait for nothing: what still runs is cancelled by the session's end or by the caller."""
        self._copies.restore()
        self._workers.close()

    def tidy(self) -> None:
        """Remove staged files that no commit names; only once the job is complete."""
        self._job.sink.discard(sorted(self._unsealed))

    def _group(self, work_id: int) -> str:
        return f"backfill-{self._job.committer.app_id}-{self._attempt}-{work_id}"

    def _run(self, work: Work) -> None:
        """Answer exactly once, whatever happens: the core has no timeout for work."""
        try:
            event = self._event(work)
        except Exception as error:  # noqa: BLE001 - a thread's border: whatever it was becomes an event
            event = WorkFailed(work.work_id, self.explain(error))
        self._answer(event)

    def _event(self, work: Work) -> WorkFinished | WorkFailed | WorkCancelled:
        work_id = work.work_id
        try:
            context = self._job.spark.sparkContext
            context.setLocalProperty("spark.scheduler.pool", POOLS[type(work)])
            context.setJobGroup(self._group(work_id), f"{type(work).__name__} {work_id}", interruptOnCancel=False)
            return WorkFinished(self._do(work))
        except Exception as error:
            if java_died(self._job.spark, error):
                raise
            return self._after_failure(work, error)

    def _do(self, work: Work) -> Result:
        match work:
            case ReadSplit():
                return self._read(work)
            case ApplyChanges():
                return self._apply(work)
            case Verify():
                return self._verify(work)
            case ProveKey():
                check_one_row_a_key(self._job.sink.at(work.target_version), self._job.key, what="the target")
                return KeyProven(work.work_id)

    def _after_failure(self, work: Work, error: Exception) -> WorkFinished | WorkFailed | WorkCancelled:
        with self._lock:
            cancelled = work.work_id in self._cancelled
        if isinstance(work, ApplyChanges) and self._merge_landed(work):
            # The answer was lost, the effect was not: doing it again under another number would be right
            # too, but the state must not say less than the target holds.
            return WorkFinished(ChangesApplied(work.work_id, 0))
        if isinstance(work, ReadSplit):
            # No commit names what stays; a later attempt removes it.
            with suppress(Exception):
                self._job.sink.discard_work(self._attempt, work.work_id)
        return WorkCancelled(work.work_id) if cancelled else WorkFailed(work.work_id, self.explain(error))

    def _merge_landed(self, work: ApplyChanges) -> bool:
        """Is a MERGE in the target whose answer was lost?

        Raises:
            StateMovedError: it cannot be told now; the next attempt can, by the announcement and its number.
        """
        if not self._job.mode.merges:
            return False
        try:
            return self._job.committer.read_state().txn_version == work.txn_version
        except Exception as error:
            # The reason does not matter: what happened is unknown.
            raise StateMovedError(
                f"the changes up to version {work.upto} may be in the target, which cannot be read now: {error}",
                hint="Start the job again: it looks first.",
            ) from error

    # ------------------------------------------------------------------ splits
    def _read(self, work: ReadSplit) -> SplitStaged:
        job = self._job
        crash_point("before_stage")
        if work.boundaries:
            files = self._stage_segments(work)
        else:
            files = self._stage(work, self._history(work, job.source.read(work.ranges)))
        crash_point("after_stage")
        if not job.transform.where and all(one.whole for one in work.ranges):
            read = sum(file.rows for file in files)
            check_read(_rows_of(work), read=read, promised=job.source.live_rows(work.ranges))
        return SplitStaged(work.work_id, files)

    def _stage(self, work: ReadSplit | ApplyChanges, rows: DataFrame) -> tuple[StagedFile, ...]:
        """Stage rows, which the job itself counts: files may be gone before their footers are read."""
        job, counted = self._job, CountedRows(self._job.spark, rows)
        paths = job.sink.stage(counted.frame, attempt=self._attempt, work_id=work.work_id)
        return self._known(work, counted, job.committer.measure(paths))

    def _known(
        self, work: ReadSplit | ApplyChanges, counted: CountedRows, files: tuple[StagedFile, ...]
    ) -> tuple[StagedFile, ...]:
        self._unsealed.update(file.path for file in files)
        check_staged(_rows_of(work), written=counted.rows(), found=sum(file.rows for file in files))
        return files

    def _stage_segments(self, work: ReadSplit) -> tuple[StagedFile, ...]:
        """Stage all segments of a split in one job, as each would be staged alone."""
        job, sink = self._job, self._job.sink
        assert isinstance(sink, SupportsSegments)  # any other was refused with the spec
        spans = [file_ranges(self._row_offsets, start, stop) for start, stop in work.segments]
        read, label = job.source.read_segments(spans)
        counted = CountedRows(job.spark, self._history(work, read, label))
        staged = sink.stage_segments(counted.frame, label=label, attempt=self._attempt, work_id=work.work_id)
        files = [(segment, job.committer.measure(paths)) for segment, paths in staged.items()]
        known = tuple(replace(file, segment=segment) for segment, measured in files for file in measured)
        return self._known(work, counted, known)

    def _history(self, work: ReadSplit, rows: DataFrame, *labels: str) -> DataFrame:
        job = self._job
        return job.mode.history_rows(job.transform.apply(rows, *labels), epoch=work.epoch, version=job.source.version)

    # ------------------------------------------------------------------ changes
    def _apply(self, work: ApplyChanges) -> ChangesApplied:
        job = self._job
        job.source.check_versions(work.after, work.upto)
        changes = job.source.changes(work.after, work.upto)
        rows = job.mode.change_rows(changes, job.transform, key=job.key, epoch=work.epoch)
        if job.mode.merges:
            return self._merge(work, rows)
        files = self._stage(work, rows)
        return ChangesApplied(work.work_id, sum(file.rows for file in files), files)

    def _merge(self, work: ApplyChanges, rows: DataFrame) -> ChangesApplied:
        job, sink = self._job, self._job.sink
        assert isinstance(sink, SupportsMerge)  # any other was refused with the spec
        net = job.sink.as_stored(rows)
        # Computed once, and not by cache(): Delta refuses a MERGE whose source is cached.
        net = net.localCheckpoint()
        changed = check_net_changes(net, job.key)
        if changed == 0:
            return ChangesApplied(work.work_id, 0)
        with self._lock:
            if work.work_id in self._cancelled:
                raise _CancelledError
            self._merging.add(work.work_id)
        crash_point("before_merge")
        sink.merge(net, app_id=job.committer.app_id, txn_version=work.txn_version)
        crash_point("after_merge")
        return ChangesApplied(work.work_id, changed)

    # ------------------------------------------------------------------ verification
    def _verify(self, work: Verify) -> Verified:
        compared = self._job.comparison(
            source_version=work.position, target_version=work.target_version, done=work.covered
        )
        return Verified(work.work_id, compared.receipt(epoch=work.epoch))

    # ------------------------------------------------------------------ the loop's other needs
    def seal(self, action: Seal) -> int:
        """Commit; a commit whose answer was lost is recognised by its transaction version."""
        if action.files:
            self._job.sink.check_staged(action.files)
        version = self._commit(action)
        self._unsealed.difference_update(file.path for file in action.files)
        with self._lock:
            self._sealed.append(version)
        return version

    def _commit(self, action: Seal) -> int:
        committer = self._job.committer
        try:
            if action.fences:
                claim, opened_at = self._job.claim, self._job.stored.txn_version
                return committer.fence(action.txn_version, action.state, opened_at=opened_at, claim=claim).version
            return committer.seal(action.txn_version, action.files, action.state, compared=action.compared).version
        except BackfillError:
            stored = committer.read_state()
            if stored.txn_version == action.txn_version and stored.text == action.state:
                return stored.table_version
            raise

    def after_seal(self) -> tuple[ForeignCommit, ...]:
        """Run the hooks of past commits (checkpoints, checksums); return what others committed between ours."""
        self._copies.lower()
        with suppress(BackfillError):  # a missed checkpoint costs readers time, and is tried again
            self._job.committer.run_hooks()
        with self._lock:
            versions, self._sealed = sorted(self._sealed), self._sealed[-1:]
        committer, shared = self._job.committer, bool(self._job.claim.shares)
        return tuple(
            commit
            for one, two in pairwise(versions)
            if two - one > 1
            for commit in committer.commits_of_others(one, two - 1, shared=shared)
        )

    def head(self, kept_after: int | None) -> Head:
        """Look at the source's newest version, and whether the one after `kept_after` is still there."""
        head = self._job.source.head()
        if kept_after is not None and kept_after < head.version:
            self._job.source.check_kept(kept_after + 1)
        return head

    def explain(self, error: Exception) -> BackfillError:
        """Say in our words what went wrong; what is unknown is worth another try."""
        return self._job.explain(error)


def _rows_of(work: ReadSplit | ApplyChanges) -> str:
    if isinstance(work, ReadSplit):
        return f"rows {work.start} to {work.stop} of the snapshot"
    return f"the changes of versions {work.after + 1} to {work.upto}"
