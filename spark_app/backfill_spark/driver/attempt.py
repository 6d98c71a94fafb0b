"""One attempt at one job, from the spec to the outcome: open, check, fence, run, close.

Order matters. Every check that can reject the spec runs before the first write. The fence (an empty seal
of the new attempt) runs before any step that an older attempt could disturb.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from backfill_api.spec.combinations import knows_bytes
from backfill_api.spec.spec import BackfillResource
from backfill_api.status.progress import Progress
from backfill_api.status.source_head import SourceHead
from backfill_core.errors import (
    EXIT_COMPLETE,
    EXIT_STOPPED,
    BackfillError,
    ColumnsFollowedError,
    StagedFilesGoneError,
    StateMovedError,
)
from backfill_core.job.after_end import describe_early_stop
from backfill_core.job.job import Job
from backfill_core.job.phase import JobSettings
from backfill_core.job.publishing import first_publication
from backfill_core.job.state import JobState
from backfill_core.job.steps import KEY_PROOF, START
from backfill_core.job.view import JobView
from backfill_core.pacing.executors import fixed_for_session
from backfill_core.protocol.actions import Acknowledge, Finish
from backfill_core.protocol.clock import Now
from backfill_core.protocol.publication import Publish
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.source_fence.hold import is_last
from backfill_spark import crash_points as crash
from backfill_spark.control.history import RecordedRun, RunRecord, verdict_of
from backfill_spark.control.lineage import LineageReport
from backfill_spark.control.local_registry import OPENING, LocalRegistry, announced
from backfill_spark.control.metrics import LoopMeter, progress_registry
from backfill_spark.control.operator_binding import OperatorBinding
from backfill_spark.control.wire import format_timestamp
from backfill_spark.driver.action_executor import SparkActionExecutor
from backfill_spark.driver.ended_job import open_ended, stay_ended
from backfill_spark.driver.event_loop import Loop, now
from backfill_spark.driver.fence import describe_hold_left, hold_source
from backfill_spark.driver.gauges import Gauge, auto_settings, gauges, measuring
from backfill_spark.driver.job_context import CHECK_UNIQUE_ROWS_MAX, LOOKING, JobContext, OpenedJob
from backfill_spark.driver.offline_verify import newest_of_open_source, newest_of_source
from backfill_spark.driver.orphan_cleanup import OrphanRemoval
from backfill_spark.driver.progress import progress_of, while_silent
from backfill_spark.executors.watch import ExecutorWatch
from backfill_spark.jvm.java_process import JavaWatch
from backfill_spark.jvm.stop_signal import StoppedEarly, StopSignal
from backfill_spark.opening.warm_up import start_warm_ups
from backfill_spark.settings import DriverSettings, lineage_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


REOPENED_MAX = 3
"""Maximum number of times that an attempt opens the tables again. A killed process has at most one commit in flight, so three are enough."""


@dataclass(frozen=True)
class RunOutcome:
    """Result of an attempt."""

    outcome: str
    """Complete, Stopped or Failed."""

    exit_code: int
    reason: str
    message: str
    hint: str
    progress: Progress | None
    receipt: TableReceipt | None
    error: BackfillError | None = None
    """The failure; `None` unless the attempt failed."""

    source_head: SourceHead | None = None
    """The newest position of the source after the job is complete; `None` before that, or if the source cannot be read."""


@dataclass(frozen=True)
class _Caller:
    """Arguments that an attempt gets from its caller."""

    settings: DriverSettings
    registry: LocalRegistry
    stop: StopSignal
    observe: Callable[[Progress], None]
    starting: Callable[[str], None]
    embedded: bool
    """True if the caller passed no session, so that the driver owns the JVM."""


def run_driver(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    observe: Callable[[Progress], None] = lambda _: None,
    starting: Callable[[str], None] = lambda _: None,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
) -> RunOutcome:
    """Run one attempt to its end. The outcome reports problems of the spec, a table or the environment; none is raised.

    Args:
        backfill: The job.
        settings: Settings of this process.
        observe: Called about four times a second with the progress, on the calling thread.
        starting: Called before each step of the start with the step's name; `observe` is not called yet. Other processes on this
            machine see the step too.
        spark: A session to use; by default, a session is opened and closed again.
        stop: A requested stop ends the attempt at a barrier, also before and during the start.
    """
    crash.arm(settings.crash_at)
    began_s = now().mono_s
    stop, opened = stop or StopSignal(), list[JobContext]()
    record, lineage = RunRecord(settings.state_dir, backfill.job_id), LineageReport(lineage_settings(), backfill, now)
    try:
        with LocalRegistry(settings.state_dir, backfill.job_id) as registry:
            seen = lineage.observing(observe)
            caller = _Caller(settings, registry, stop, seen, announced(registry, starting), spark is None)
            record.begin(format_timestamp(now().wall_ms))
            caller.starting(OPENING)
            with JobContext.open(
                backfill, settings, command="run", spark=spark, stop=stop, starting=caller.starting
            ) as context:
                opened.append(context)
                outcome = _run_with_hold(context, caller, began_s)
    except StoppedEarly:
        message = describe_early_stop(opened[0].state if opened else None)
        outcome = RunOutcome("Stopped", EXIT_STOPPED, "Stopped", message, "", None, None)
    except BackfillError as error:
        outcome = _failed(error, None, None)
    record.finish(_recorded(backfill.job_id, outcome))
    lineage.end(outcome.outcome, outcome.reason, outcome.message)
    return outcome


def _recorded(job_id: str, outcome: RunOutcome) -> RecordedRun:
    """Return a run that ends now, for the history of this machine."""
    progress = outcome.progress or Progress()
    return RecordedRun(
        job_id, "", format_timestamp(now().wall_ms), outcome.outcome, outcome.reason, outcome.message, outcome.exit_code,
        progress.attempt, progress.rows_done, progress.changes_done, verdict_of(outcome.receipt),
    )  # fmt: skip


def _run_with_hold(context: JobContext, caller: _Caller, began_s: float) -> RunOutcome:
    """Run an attempt; the last one of a job restores the retention of the source."""
    try:
        outcome = _run_until_fenced(context, caller, began_s)
    except BackfillError as error:
        outcome = _failed(error, None, None)
    left = describe_hold_left(context.spark, context.backfill) if is_last(outcome.outcome, outcome.error) else ""
    return replace(outcome, message="; ".join(filter(None, (outcome.message, left))))


def _run_until_fenced(context: JobContext, caller: _Caller, began_s: float) -> RunOutcome:
    """Run an attempt; open the tables again while a killed predecessor's commit still lands, or when staged files are gone.

    The tables are also opened again after a commit that changed the target's columns: the attempt's schemas are then outdated.
    """
    reopened, executors = 0, ExecutorWatch(context.spark, context.spark.sparkContext.getConf().get)
    while True:
        try:
            return _run_attempt(context, caller, began_s, executors)
        except ColumnsFollowedError:
            reopened = -1
        except (StateMovedError, StagedFilesGoneError):
            if reopened == REOPENED_MAX:
                raise
        reopened, began_s = reopened + 1, now().mono_s
        caller.starting(LOOKING)
        with caller.stop.cancels_jobs_of(context.spark):
            context = context.reopened()


def _run_attempt(context: JobContext, caller: _Caller, began_s: float, executors: ExecutorWatch) -> RunOutcome:
    state = context.state
    ended = state is not None and state.finished and not state.dropped(context.stored.txn_version)
    if (
        state is not None
        and ended
        and (stay := stay_ended(context, refresh=caller.settings.mode == "refresh")) is not None
    ):
        head = newest_of_source(context, state.consumed)
        return RunOutcome(
            "Complete", EXIT_COMPLETE, stay.reason, stay.message, "", None, state.receipt, source_head=head
        )
    with ExitStack() as opened:
        with caller.stop.cancels_jobs_of(context.spark):
            warm_up = partial(start_warm_ups, context.spark if caller.embedded else None)
            job = opened.enter_context(open_ended(context) if ended else context.open_job(warm_up))
            measures = gauges(job)
            caller.stop.check()
            caller.starting("checking the key's values")
            checked_s = now().mono_s
            with job.tables.jobs_explained():
                key_proven = _check_keys(job, caller.settings)
            proof_s = now().mono_s - checked_s if key_proven else 0.0
        hold_source(context.spark, context.backfill)
        caller.starting("preparing the target")
        job.tables.make_target()
        job = job.emptied()
        # A proof before the first write is a separate step, not part of the start.
        spent = {START: now().mono_s - began_s - proof_s} | ({KEY_PROOF: proof_s} if proof_s else {})
        return _Attempt(job, caller, executors, key_proven=key_proven, spent=spent).run(measures)


def _check_keys(job: OpenedJob, settings: DriverSettings) -> bool:
    """Check the key's values before the first write of a job; return True if that proves the target's key unique.

    A resumed job was checked before its first write, so it is not checked again.
    """
    tables = job.tables
    if job.resumes is not None or not tables.proves_key:
        return False
    unique = settings.check_unique
    if unique is None:
        # No proof reads rows that are hidden, so their key is proven before the first write.
        hidden = Publish(tables.spec.target.params.publish) is not Publish.CONTINUOUSLY
        unique = tables.opened.rows <= CHECK_UNIQUE_ROWS_MAX or job.splits_keys or hidden
    tables.opened.check_no_null_key(tables.spec.transform.where)
    if tables.spec.source.params.skips_snapshot:
        return False  # the target may have rows from elsewhere, which only a proof in the target covers
    if unique:
        tables.check_one_row_a_key()
    return unique


class _Attempt:
    """Connects the parts of one running attempt."""

    def __init__(
        self,
        opened: OpenedJob,
        caller: _Caller,
        executors: ExecutorWatch,
        *,
        key_proven: bool,
        spent: Mapping[str, float],
    ) -> None:
        """Build the core from the stored state and the executor from the opened job."""
        self._caller = caller
        self._job_id, self._job = opened.backfill.job_id, opened
        spec, moment = opened.backfill.spec, now()
        fixed = fixed_for_session(spec, executors.setting, ours=caller.embedded)
        state = _next_state(opened, moment, fixed)
        self._attempt = state.attempt
        proves_key = caller.settings.check_unique is not False and opened.tables.proves_key
        pace = JobSettings(
            interval_s=spec.barrier.interval_ms / 1000,
            commit_every=spec.barrier.commit_every,
            verify_final=spec.verify != "None",
            follows=spec.after == "Follow",
            knows_bytes=knows_bytes(spec.source),
            fixed_width=fixed,
            comparable=not spec.source.params.skips_snapshot,
            auto=auto_settings(spec.throttle.auto),
            suspects=opened.tables.suspects,
            publish=Publish(spec.target.params.publish),
        )
        self._executor = SparkActionExecutor(opened, attempt=state.attempt)
        with opened.tables.jobs_explained():
            decodes = self._executor.decodes
        strategy = opened.strategy(proves_key=proves_key, key_proven=key_proven, decodes=decodes, continues=True)
        job = Job(state, strategy, pace, moment, spent)
        self._server: OperatorBinding | None = None
        self._orphans = OrphanRemoval(self._executor.remove_orphans)
        self._metrics = progress_registry(self._job_id, self._progress_now)
        meter = LoopMeter(self._job_id, self._metrics)
        self._loop = Loop(job, self._executor, acknowledge=self._acknowledge, observe=self._on_view, watch=meter)
        self._view: JobView = job.view(moment)
        self._format_position = opened.format_position
        self._java = JavaWatch(opened.spark, lambda: self._loop.mark, ours=caller.embedded)
        self._executors = executors
        self._progress: Progress = progress_of(self._view, moment, self._format_position)

    def run(self, measures: Sequence[Gauge]) -> RunOutcome:
        """Run the loop together with a control server and the measurements of `throttle.auto`."""
        stop, registry = self._caller.stop, self._caller.registry
        server = OperatorBinding(
            self._caller.settings,
            attempt=self._attempt,
            job_id=self._job_id,
            submit=self._loop.put,
            progress=self._progress_now,
            alive=lambda: self._java.pulse.healthy,
            receipt=lambda: self._view.receipt,
            registry=self._metrics,
        )
        self._server = server
        try:
            server.start()
            registry.publish(url=server.url, token=server.token, attempt=server.attempt)
            with stop.subscribe(self._loop.put), self._java.running(), measuring(measures, self._loop.put):
                finish = self._loop.run()
            crash.crash_point("after_finish")
            if isinstance(finish.error, StateMovedError | StagedFilesGoneError):
                raise finish.error
            if finish.outcome == "Complete":
                with suppress(Exception):
                    self._executor.tidy()
                self._orphans.finish(until=lambda: stop.requested)
                with suppress(Exception):
                    self._executor.drop_manifest()
        finally:
            self._executor.close()
            registry.withdraw()
            server.close()
        return self._outcome(finish)

    def _progress_now(self) -> Progress:
        return while_silent(self._progress, self._java.warnings)

    def _acknowledge(self, ack: Acknowledge) -> None:
        if self._server is not None:
            self._server.acknowledge(ack)

    def _on_view(self, view: JobView) -> None:
        moment = now()
        self._executors.look(view.controls.width.executors, moment.mono_s)
        warnings = (*view.warnings, *self._executors.warnings, *self._executor.warnings)
        self._view = replace(view, warnings=warnings, executors_lost=self._executors.lost)
        self._progress = progress_of(self._view, moment, self._format_position)
        self._orphans.look(view)
        self._caller.observe(self._progress_now())

    def _outcome(self, finish: Finish) -> RunOutcome:
        view = self._view
        if finish.error is not None:
            return _failed(finish.error, self._progress, view.receipt)
        if finish.outcome == "Stopped":
            return RunOutcome(
                "Stopped", EXIT_STOPPED, "Stopped", "stopped at a barrier; run it again to resume", "",
                self._progress, view.receipt,
            )  # fmt: skip
        head = None
        with suppress(BackfillError):  # the job is complete even if the source is gone
            head = newest_of_open_source(self._job, view.strategy.consumed)
        refresh, strategy = view.refresh, view.strategy
        refreshed = (
            "" if refresh is None else refresh.describe(strategy.consumed, view.changes_done, self._format_position)
        )
        message = "; ".join(filter(None, (refreshed, finish.message)))
        return RunOutcome(
            "Complete", EXIT_COMPLETE, "Complete", message, finish.hint, self._progress, view.receipt, source_head=head
        )


def _next_state(opened: OpenedJob, moment: Now, fixed_width: Collection[str]) -> JobState:
    """Return the initial state of the attempt: the stored state with the current spec's settings."""
    backfill, spec = opened.backfill, opened.backfill.spec
    state = opened.state or JobState(
        job_id=backfill.job_id, spec_hash=backfill.spec_hash, attempt=0, epoch=0, strategy=spec.strategy.type,
        publication=first_publication(spec, opened.stored.table_version), created_target=opened.stored.table_version < 0,
    )  # fmt: skip
    # A receipt that reports a difference is taken again, not reused.
    receipt = state.receipt if state.receipt is not None and state.receipt.equal else None
    if opened.start_over is not None:
        state = replace(state.begun_anew(), publication=first_publication(spec, opened.stored.table_version))
    elif state.finished:
        state = state.continued(moment.wall_ms, follows=spec.after == "Follow")
    return replace(
        state,
        attempt=opened.attempts_before + 1,
        controls=state.controls.of_attempt(spec, moment.wall_ms, fixed_width),
        receipt=receipt,
        spec_fields=backfill.spec_fields,
        driver=secrets.token_hex(8),
    )


def _failed(error: BackfillError, progress: Progress | None, receipt: TableReceipt | None) -> RunOutcome:
    return RunOutcome("Failed", error.exit_code, error.reason, error.message, error.hint, progress, receipt, error)
