"""Executes the core's actions: Spark jobs in threads, one scheduler pool for splits, changes and verification each.

Every piece of work has its own job group, so that a pause can cancel it; and answers exactly once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from backfill_core.errors import BackfillError, ForeignCommit, StateMovedError
from backfill_core.job.accounting import check_read, check_staged
from backfill_core.job.owner import Claim
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
from backfill_spark.delta.foreign_commits import commits_of_others
from backfill_spark.jvm.death import death, java_died
from backfill_spark.jvm.failures import unexplained
from backfill_spark.jvm.thread_priority import CopyPriority
from backfill_spark.jvm.workers import Workers
from backfill_spark.rows import changes as change_rows
from backfill_spark.rows.comparison import Comparison
from backfill_spark.rows.counted_rows import CountedRows
from backfill_spark.rows.verification import check_one_row_a_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from backfill_spark.ports.committer import Committer
    from backfill_spark.ports.sink import Sink
    from backfill_spark.ports.source import Source
    from backfill_spark.rows.transform import Transform

THREADS_MAX = 8
UPSERT, APPEND, CHANGELOG = "Upsert", "Append", "Changelog"
POOLS = {ReadSplit: "splits", ApplyChanges: "changes", Verify: "verify", ProveKey: "verify"}
OF_ANY_JOB = "backfill-"
"""How the application ids of all jobs begin; those that share a target are no strangers."""


@dataclass(frozen=True)
class Parts:
    """What one attempt works with."""

    spark: SparkSession
    source: Source
    sink: Sink
    committer: Committer
    transform: Transform
    app_id: str
    attempt: int
    write_mode: str
    key: tuple[str, ...]
    """Key in terms of the target; empty for targets without one."""

    vnodes: int
    prefix: tuple[int, ...]
    """Prefix sums of the rows of the pinned version's files."""

    opened_at: int | None
    """Newest transaction version of the job when its state was read."""

    claim: Claim | None = None
    """What the job says of the target."""


class _CancelledError(Exception):
    """Work was cancelled between two of its jobs."""


class SparkActionExecutor:
    """Satisfies `event_loop.ActionExecutor` on Spark and Delta."""

    def __init__(self, parts: Parts) -> None:
        """Take the parts; start nothing."""
        self._parts = parts
        # Nobody waits for what was cancelled, not even the end of the process.
        self._workers = Workers(THREADS_MAX, "work")
        self._under_way: dict[int, Callable[[Event], None]] = {}
        """Who waits for the answer of which work."""

        self._merging: set[int] = set()
        """Work that may have changed the target: only its own end tells."""

        self._cancelled: set[int] = set()
        self._copies = CopyPriority(parts.spark)
        self._lock = threading.Lock()
        self._unsealed: set[str] = set()
        """Files that this attempt staged and no seal named."""

        self._sealed: list[int] = []
        """Versions of the newest seals: between two of them others may have committed."""

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
        self._parts.spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._group(work_id))
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

    def tidy(self) -> None:
        """Remove what was staged and given up; only once the job is complete, when nothing is sealed any more."""
        self._parts.sink.discard(sorted(self._unsealed))

    def _group(self, work_id: int) -> str:
        return f"backfill-{self._parts.app_id}-{self._parts.attempt}-{work_id}"

    def _run(self, work: Work) -> None:
        """Answer once, whatever happens: the core waits for ever for work that says nothing."""
        try:
            event = self._event(work)
        except Exception as error:  # noqa: BLE001 - a thread's border: whatever it was becomes an event
            event = WorkFailed(work.work_id, self.explain(error))
        self._answer(event)

    def _event(self, work: Work) -> WorkFinished | WorkFailed | WorkCancelled:
        work_id = work.work_id
        try:
            context = self._parts.spark.sparkContext
            context.setLocalProperty("spark.scheduler.pool", POOLS[type(work)])
            context.setJobGroup(self._group(work_id), f"{type(work).__name__} {work_id}", interruptOnCancel=False)
            return WorkFinished(self._do(work))
        except Exception as error:
            if java_died(self._parts.spark, error):
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
                check_one_row_a_key(self._parts.sink.at(work.target_version), self._parts.key, what="the target")
                return KeyProven(work.work_id)

    def _after_failure(self, work: Work, error: Exception) -> WorkFinished | WorkFailed | WorkCancelled:
        with self._lock:
            cancelled = work.work_id in self._cancelled
        if isinstance(work, ApplyChanges) and self._merge_landed(work):
            # The answer was lost, the effect was not: doing it again under another number would be right
            # too, but the state must not say less than the target holds.
            return WorkFinished(ChangesApplied(work.work_id, 0))
        if isinstance(work, ReadSplit):
            # What stays is no seal's; a later attempt removes it.
            with suppress(Exception):
                self._parts.sink.discard_work(self._parts.attempt, work.work_id)
        return WorkCancelled(work.work_id) if cancelled else WorkFailed(work.work_id, self.explain(error))

    def _merge_landed(self, work: ApplyChanges) -> bool:
        """Is a MERGE in the target whose answer was lost?

        Raises:
            StateMovedError: nobody can tell now; the next attempt can, by the announcement and its number.
        """
        if self._parts.write_mode != UPSERT:
            return False
        try:
            return self._parts.committer.read_state().txn_version == work.txn_version
        except Exception as error:
            # Whatever kept us from looking, nobody knows.
            raise StateMovedError(
                f"the changes up to version {work.upto} may be in the target, which cannot be read now: {error}",
                hint="Start the job again: it looks first.",
            ) from error

    # ------------------------------------------------------------------ splits
    def _read(self, work: ReadSplit) -> SplitStaged:
        parts = self._parts
        crash_point("before_stage")
        if work.boundaries:
            files = self._stage_segments(work)
        else:
            files = self._stage(work, self._told(work, parts.transform.apply(parts.source.read(work.ranges))))
        crash_point("after_stage")
        if not parts.transform.where and all(one.whole for one in work.ranges):
            read = sum(file.rows for file in files)
            check_read(_rows_of(work), read=read, promised=parts.source.live_rows(work.ranges))
        return SplitStaged(work.work_id, files)

    def _stage(self, work: ReadSplit | ApplyChanges, rows: DataFrame) -> tuple[StagedFile, ...]:
        """Stage rows, which the job itself counts: files may be gone before their footers are read."""
        parts, counted = self._parts, CountedRows(self._parts.spark, rows)
        paths = parts.sink.stage(counted.frame, attempt=parts.attempt, work_id=work.work_id)
        return self._known(work, counted, parts.committer.measure(paths))

    def _known(
        self, work: ReadSplit | ApplyChanges, counted: CountedRows, files: tuple[StagedFile, ...]
    ) -> tuple[StagedFile, ...]:
        self._unsealed.update(file.path for file in files)
        check_staged(_rows_of(work), written=counted.rows(), found=sum(file.rows for file in files))
        return files

    def _stage_segments(self, work: ReadSplit) -> tuple[StagedFile, ...]:
        """Stage all segments of a split in one job, as each would be staged alone."""
        parts = self._parts
        spans = [file_ranges(parts.prefix, start, stop) for start, stop in work.segments]
        read, label = parts.source.read_segments(spans)
        counted = CountedRows(parts.spark, self._told(work, parts.transform.apply(read, label)))
        staged = parts.sink.stage_segments(counted.frame, label=label, attempt=parts.attempt, work_id=work.work_id)
        files = [(segment, parts.committer.measure(paths)) for segment, paths in staged.items()]
        known = tuple(replace(file, segment=segment) for segment, measured in files for file in measured)
        return self._known(work, counted, known)

    def _told(self, work: ReadSplit, rows: DataFrame) -> DataFrame:
        if self._parts.write_mode != CHANGELOG:
            return rows
        return change_rows.snapshot_rows(rows, epoch=work.epoch, version=self._parts.source.version)

    # ------------------------------------------------------------------ changes
    def _apply(self, work: ApplyChanges) -> ChangesApplied:
        parts = self._parts
        parts.source.check_versions(work.after, work.upto)
        rows = parts.source.changes(work.after, work.upto)
        match parts.write_mode:
            case mode if mode == UPSERT:
                return self._merge(work, rows)
            case mode if mode == APPEND:
                out = parts.transform.apply(change_rows.append_rows(rows))
            case _:
                out = change_rows.changelog_rows(rows, parts.transform, key=parts.key, epoch=work.epoch)
        files = self._stage(work, out)
        return ChangesApplied(work.work_id, sum(file.rows for file in files), files)

    def _merge(self, work: ApplyChanges, rows: DataFrame) -> ChangesApplied:
        parts = self._parts
        net = parts.sink.as_stored(change_rows.net_changes(rows, parts.transform, parts.key))
        # Computed once, and not by cache(): Delta refuses a MERGE whose source is cached.
        net = net.localCheckpoint()
        changed = change_rows.check_net_changes(net, parts.key)
        if changed == 0:
            return ChangesApplied(work.work_id, 0)
        with self._lock:
            if work.work_id in self._cancelled:
                raise _CancelledError
            self._merging.add(work.work_id)
        crash_point("before_merge")
        parts.sink.merge(net, app_id=parts.app_id, txn_version=work.txn_version)
        crash_point("after_merge")
        return ChangesApplied(work.work_id, changed)

    # ------------------------------------------------------------------ verification
    def _verify(self, work: Verify) -> Verified:
        parts = self._parts
        compared = Comparison(
            source=parts.source,
            sink=parts.sink,
            transform=parts.transform,
            key=parts.key,
            vnodes=parts.vnodes,
            prefix=parts.prefix,
            changelog=parts.write_mode == CHANGELOG,
            source_version=work.source_version,
            target_version=work.target_version,
            done=work.done,
        )
        return Verified(work.work_id, compared.receipt(epoch=work.epoch))

    # ------------------------------------------------------------------ the loop's other needs
    def seal(self, action: Seal) -> int:
        """Commit; a commit whose answer was lost is recognised by its transaction version."""
        if action.files:
            self._parts.sink.check_staged(action.files)
        version = self._commit(action)
        self._unsealed.difference_update(file.path for file in action.files)
        with self._lock:
            self._sealed.append(version)
        return version

    def _commit(self, action: Seal) -> int:
        committer = self._parts.committer
        try:
            if action.fences:
                claim, opened_at = self._parts.claim, self._parts.opened_at
                return committer.fence(action.txn_version, action.state, opened_at=opened_at, claim=claim).version
            return committer.seal(action.txn_version, action.files, action.state, compared=action.compared).version
        except BackfillError:
            stored = committer.read_state()
            if stored.txn_version == action.txn_version and stored.text == action.state:
                return stored.table_version
            raise

    def after_seal(self) -> tuple[ForeignCommit, ...]:
        """Run the hooks of past commits (checkpoints, checksums); return what others committed between our seals."""
        self._copies.lower()
        with suppress(BackfillError):  # a missed checkpoint costs readers time, and is tried again
            self._parts.committer.run_hooks()
        with self._lock:
            versions, self._sealed = sorted(self._sealed), self._sealed[-1:]
        parts = self._parts
        friends = OF_ANY_JOB if parts.claim is not None and parts.claim.shares else None
        between = [(one, two - 1) for one, two in pairwise(versions) if two - one > 1]
        return tuple(
            commit
            for after, upto in between
            for commit in commits_of_others(parts.spark, parts.sink.path, after, upto, parts.app_id, friends=friends)
        )

    def head(self, kept_after: int | None) -> Head:
        """Look at the source's newest version, and whether the one after `kept_after` is still there."""
        head = self._parts.source.head()
        if kept_after is not None and kept_after < head.version:
            self._parts.source.check_kept(kept_after + 1)
        return head

    def explain(self, error: Exception) -> BackfillError:
        """Say in our words what went wrong; what nobody knows is worth another try."""
        if isinstance(error, BackfillError):
            return error
        if java_died(self._parts.spark, error):
            return death(error)
        parts = self._parts
        # What the sink raises in a row itself looks like what a transform raises.
        known = (
            parts.sink.explain_failure(error)
            or parts.transform.explain_failure(error)
            or parts.source.explain_failure(error)
        )
        if known is not None:
            return known
        return unexplained(error, doing="a Spark job")


def _rows_of(work: ReadSplit | ApplyChanges) -> str:
    if isinstance(work, ReadSplit):
        return f"rows {work.start} to {work.stop} of the snapshot"
    return f"the changes of versions {work.after + 1} to {work.upto}"
