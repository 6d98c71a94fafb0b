"""Executes the core's actions: runs Spark jobs in threads, with one scheduler pool each for splits, changes and verification.

Every unit of work has its own job group, so that a pause can cancel it. Every unit of work answers exactly once.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from backfill_core.errors import BackfillError, ColumnsFollowedError, InvalidSpecError
from backfill_core.protocol.actions import Seal
from backfill_core.protocol.events import (
    Event,
    Head,
    HooksRan,
    OthersCommitted,
    WorkCancelled,
    WorkFailed,
    WorkFinished,
)
from backfill_core.protocol.publication import ManifestPart
from backfill_core.protocol.quarantine import AnnouncedRecords
from backfill_core.protocol.strategy import JobWarning
from backfill_core.protocol.work import Position, Result, Work, WorkKind
from backfill_spark.crash_points import crash_point
from backfill_spark.file_copies.job_copies import JobCopies
from backfill_spark.jvm.event_log import refused_log_warnings
from backfill_spark.jvm.gateway import activate, java_context
from backfill_spark.jvm.java_process import java_died
from backfill_spark.jvm.thread_priority import CopyPriority
from backfill_spark.jvm.workers import Workers
from backfill_spark.opening.source import PinnedSource
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.committer import HidesRows, SealedCommit, SupportsColumns
from backfill_spark.ports.sink import Sink, SupportsPublication
from backfill_spark.records.quarantine import no_quarantine
from backfill_spark.runners.runner import WorkRunner, discover
from backfill_spark.work.context import WorkContext, WorkLedger

if TYPE_CHECKING:
    from backfill_spark.driver.job_context import OpenedJob

THREADS_MAX = 8
POOLS = {WorkKind.HISTORY: "splits", WorkKind.CHANGES: "changes", WorkKind.CHECK: "verify"}


class SparkActionExecutor:
    """Satisfies `event_loop.ActionExecutor` on Spark and Delta."""

    def __init__(self, job: OpenedJob, *, attempt: int) -> None:
        """Take the job and the number of its attempt; start nothing."""
        self._job, self._tables = job, job.tables
        self._attempt = attempt
        # Spark rejects jobs of a cancelled group for the rest of the session. The same session may reuse an attempt number after a
        # restart of the job, or after an attempt that was lost before its first commit. The random suffix keeps groups distinct.
        self._groups = f"backfill-{job.committer.app_id}-{attempt}-{secrets.token_hex(4)}"
        # These threads are daemons: not even the end of the process waits for cancelled work.
        self._workers = Workers(THREADS_MAX, "work")
        self._under_way: dict[int, Callable[[Event], None]] = {}
        """Callback for the answer of each running unit of work, by work id."""

        self._ledger, self._job_copies = WorkLedger(), JobCopies(job.tables)
        self._runners = discover()
        self._copies = CopyPriority(job.spark)
        self._lock = threading.Lock()
        self._sealed: list[int] = []
        """Versions of our newest commits; foreign commits may lie between two of them."""

        self._log_warnings = refused_log_warnings(job.spark.sparkContext.getConf().get)
        self._hooks_failed = False
        self._has_other_columns = False
        """True after a commit that changed the columns: the schemas that this attempt opened are outdated."""

    @property
    def decodes(self) -> bool:
        """True if columns of every file of the pinned version are decoded; `False` for sources without files, or read by key."""
        files = self._job.line is None and isinstance(self._tables.opened, PinnedSource)
        return files and self._job_copies.modes.decodes_columns

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Warnings about the way in which files are copied, and about the event log."""
        refusal = self._job_copies.refusal
        message = f"the driver streams all files, because the store refuses to copy them: {refusal}"
        return (*self._log_warnings, JobWarning("CopiesStreamed", message)) if refusal else self._log_warnings

    # ------------------------------------------------------------------ background work
    def start(self, work: Work, answer: Callable[[Event], None]) -> None:
        """Start work in the background and answer once."""
        with self._lock:
            self._under_way[work.work_id] = answer
        self._workers.submit(lambda: self._run(work))

    def cancel(self, work_id: int) -> None:
        """Cancel the Spark jobs of one unit of work, including jobs that it has not submitted yet, and answer for it.

        Java may plan for several seconds before it submits a job that Spark then rejects. A later result of cancelled work is ignored.
        If the work has started to change the target, the executor waits for the work's own answer instead.
        """
        waits = self._ledger.cancel(work_id)
        java_context(self._tables.spark).sc().cancelJobGroupAndFutureJobs(self._group(work_id))
        if not waits:
            self._answer(WorkCancelled(work_id))

    def _answer(self, event: WorkFinished | WorkFailed | WorkCancelled) -> None:
        work_id = event.result.work_id if isinstance(event, WorkFinished) else event.work_id
        with self._lock:
            answer = self._under_way.pop(work_id, None)
        if answer is not None:
            answer(event)

    @property
    def _sinks(self) -> tuple[Sink, ...]:
        quarantine = self._tables.quarantine
        return (self._tables.sink,) if quarantine is None else (self._tables.sink, quarantine.sink)

    def close(self) -> None:
        """Close without waiting; the end of the session or the caller cancels the work that still runs."""
        self._copies.restore()
        self._workers.close()

    def tidy(self) -> None:
        """Remove staged files that no commit references. Call it only when the job is complete."""
        self._tables.sink.discard(sorted(self._ledger.unsealed))

    def _group(self, work_id: int) -> str:
        return f"{self._groups}-{work_id}"

    def _run(self, work: Work) -> None:
        """Answer exactly once, even after an error: the core has no timeout for work."""
        try:
            event = self._event(work)
        except Exception as error:  # noqa: BLE001 - thread boundary: every error becomes an event
            event = WorkFailed(work.work_id, self.explain(error))
        self._answer(event)

    def _event(self, work: Work) -> WorkFinished | WorkFailed | WorkCancelled:
        work_id = work.work_id
        try:
            activate(self._tables.spark)
            context = self._tables.spark.sparkContext
            context.setLocalProperty("spark.scheduler.pool", POOLS[work.kind])
            context.setJobGroup(self._group(work_id), f"{type(work).__name__} {work_id}", interruptOnCancel=False)
            return WorkFinished(self._do(work))
        except Exception as error:
            if java_died(self._tables.spark, error):
                raise
            return self._after_failure(work, error)

    def _do(self, work: Work) -> Result:
        if self._has_other_columns:
            raise ColumnsFollowedError("the target has followed a change of the source's columns.")
        return self._runner(work).run(work, self._context(work))

    def _runner(self, work: Work) -> WorkRunner:
        """Return the runner for a unit of work.

        Raises:
            InvalidSpecError: no installed runner handles this kind; the built-in strategies never request such work.
        """
        runner = self._runners.get(type(work))
        if runner is None:
            raise InvalidSpecError(
                f"spec.strategy: no installed runner handles work of the kind {type(work).__name__}.",
                hint="Install the full package of the strategy; it registers its runners in the entry point group backfill.work.",
            )
        return runner

    def _context(self, work: Work) -> WorkContext:
        return WorkContext(self._tables, self._attempt, work.work_id, self._ledger, self._job_copies)

    def _after_failure(self, work: Work, error: Exception) -> WorkFinished | WorkFailed | WorkCancelled:
        cancelled = self._ledger.is_cancelled(work.work_id)
        effect = self._effect(work)
        if effect is not None:
            return WorkFinished(effect)
        if work.kind is not WorkKind.CHECK:
            # No commit references files that remain; a later attempt removes them.
            for sink in self._sinks:
                with suppress(Exception):
                    sink.discard_work(self._attempt, work.work_id)
        return WorkCancelled(work.work_id) if cancelled else WorkFailed(work.work_id, self.explain(error))

    def _effect(self, work: Work) -> Result | None:
        runner = self._runners.get(type(work))
        took_effect = None if runner is None else runner.took_effect
        return None if took_effect is None else took_effect(work, self._context(work))

    # ------------------------------------------------------------------ other methods of the loop's protocol
    def remove_orphans(self) -> None:
        """Remove files that earlier attempts staged and never committed.

        Call it after the fence: by then the files that these attempts announced are committed.
        """
        activate(self._tables.spark)
        publication = None if self._job.state is None else self._job.state.publication
        for sink in self._sinks:
            if publication is not None and isinstance(sink, SupportsPublication):
                sink.remove_orphans_except(self._attempt, publication.parts)
                if publication.published:
                    sink.drop_manifest()
            else:
                sink.remove_orphans(self._attempt)

    def drop_manifest(self) -> None:
        """Remove the manifest of a complete job; call it after `remove_orphans`, which reads it."""
        sink = self._tables.sink
        if isinstance(sink, SupportsPublication):
            sink.drop_manifest()

    def seal(self, action: Seal) -> SealedCommit:
        """Commit to the target, then commit the announced bad records. The transaction version identifies a commit whose answer was lost."""
        activate(self._tables.spark)
        if action.files:
            self._tables.sink.check_staged(action.files)
        sealed = self._commit(action)
        reopens = sealed.outdates or (action.columns is not None and action.columns.reopens)
        self._has_other_columns = self._has_other_columns or reopens
        if action.quarantine is not None:
            self._commit_bad_records(action.quarantine)
        self._ledger.unsealed.difference_update(file.path for file in action.files)
        with self._lock:
            self._sealed.append(sealed.version)
        return sealed

    def _commit_bad_records(self, announced: AnnouncedRecords) -> None:
        quarantine = self._tables.quarantine
        if quarantine is None:
            raise no_quarantine(announced)
        crash_point("before_quarantine")
        quarantine.commit(announced)
        crash_point("after_quarantine")

    def _commit(self, action: Seal) -> SealedCommit:
        committer = self._tables.committer
        try:
            if action.fences:
                claim, opened = self._job.claim, self._job.stored
                return committer.fence(action.txn_version, action.state, opened=opened, claim=claim)
            if action.state_only_after is not None:
                return committer.replace_state(action.state_only_after, action.state)
            if action.manifest is not None:
                hiding = ability(committer, HidesRows)
                staged = (action.txn_version, action.files, action.state, action.manifest)
                return hiding.seal_staged(*staged, scope_pin=action.scope_pin)
            if action.publishes is not None:
                return self._publish(ability(committer, HidesRows), action, action.publishes)
            given = (action.txn_version, action.files, action.state)
            sealing = committer
            if action.columns is not None:
                sealing = ability(committer, SupportsColumns).with_columns(action.columns)
            return sealing.seal(*given, compared=action.compared, removed=action.removed)
        except BackfillError:
            stored = committer.read_state()
            # A MERGE may have committed after a state-only commit that ran concurrently with it.
            committed = stored.txn_version == action.txn_version or action.state_only_after is not None
            if committed and stored.text == action.state:
                return SealedCommit(stored.table_version)
            raise

    def _publish(self, committer: HidesRows, action: Seal, parts: Sequence[ManifestPart]) -> SealedCommit:
        crash_point("before_publish")
        shared = bool(self._job.claim.shares)
        state, pin = action.state, action.scope_pin
        sealed = committer.publish(action.txn_version, state, parts, shared=shared, scope_pin=pin)
        crash_point("after_publish")
        return sealed

    def after_seal(self) -> tuple[Event, ...]:
        """Run the hooks of past commits (checkpoints, checksums), and detect foreign commits between ours."""
        activate(self._tables.spark)
        self._copies.lower()
        ran = self._run_hooks()
        with self._lock:
            versions, self._sealed = sorted(self._sealed), self._sealed[-1:]
        committer, shared = self._tables.committer, bool(self._job.claim.shares)
        foreign = tuple(
            commit
            for earlier, later in pairwise(versions)
            if later - earlier > 1
            for commit in committer.commits_of_others(earlier, later - 1, shared=shared)
        )
        return (*ran, OthersCommitted(foreign)) if foreign else ran

    def _run_hooks(self) -> tuple[HooksRan, ...]:
        """Run the hooks of each table that the job fills; return an event if a hook fails, or if all succeed again after a failure."""
        failure: BackfillError | None = None
        quarantine = self._tables.quarantine
        committers = [self._tables.committer] if quarantine is None else [self._tables.committer, quarantine.committer]
        for committer in committers:
            try:
                committer.run_hooks()
            except BackfillError as error:
                failure = failure or error
        failed, self._hooks_failed = self._hooks_failed, failure is not None
        return (HooksRan(failure),) if failed or failure is not None else ()

    def head(self, kept_after: Position | None) -> Head:
        """Return the source's newest position, and check that the source still keeps everything after `kept_after`."""
        activate(self._tables.spark)
        head = self._tables.source.head()
        if kept_after is not None:
            self._tables.source.check_kept(kept_after, head)
        # A job with a scope replaces it by one version of the source: it sees no later one.
        scoped = self._tables.spec.target.params.scope is not None
        return replace(head, position=self._tables.pinned.version) if scoped else head

    def explain(self, error: Exception) -> BackfillError:
        """Translate an error; an unknown error is retryable only if it looks transient."""
        return self._tables.explain(error)
