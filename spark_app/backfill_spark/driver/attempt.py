"""One attempt at one job, from the spec to the outcome: open, check, fence, run, close.

Order matters: everything that can refuse the spec comes before the first write, and the fence (an empty seal
of the new attempt) comes before anything that an older attempt could disturb.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from backfill_api.spec.spec import Backfill
from backfill_api.status.progress import Progress
from backfill_core import strategies
from backfill_core.errors import (
    EXIT_COMPLETE,
    EXIT_STOPPED,
    BackfillError,
    StagedFilesGoneError,
    StateMovedError,
)
from backfill_core.job.job import Job, JobSettings, JobView
from backfill_core.job.state import JobState
from backfill_core.job.steps import KEY_PROOF, START
from backfill_core.plugins import choose
from backfill_core.protocol.actions import Acknowledge, Finish
from backfill_core.protocol.clock import Now
from backfill_core.protocol.receipt import Receipt
from backfill_core.protocol.strategy import Strategy
from backfill_spark import crash_points as crash
from backfill_spark.control.local_registry import LocalRegistry
from backfill_spark.control.metrics import LoopMeter, progress_registry
from backfill_spark.control.operator_binding import OperatorBinding
from backfill_spark.driver import stopping
from backfill_spark.driver.action_executor import UPSERT, Parts, SparkActionExecutor
from backfill_spark.driver.event_loop import Loop, now
from backfill_spark.driver.job_context import Opened, as_pinned, open_job, open_target, session_for
from backfill_spark.driver.orphan_cleanup import OrphanRemoval
from backfill_spark.driver.progress import progress_of
from backfill_spark.jvm.death import death, java_died
from backfill_spark.jvm.failures import unexplained
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECK_UNIQUE_ROWS_MAX = 5_000_000
"""Up to so many rows the key is proven unique before the start (a few seconds); beyond, once history is there."""

STOPPED_EARLY = "stopped before anything was written; run it again to begin"

REOPENED_MAX = 3
"""A killed process has at most one commit under way; three looks are plenty."""


@dataclass(frozen=True)
class RunOutcome:
    """How an attempt ended."""

    outcome: str
    """Complete, Stopped or Failed."""

    exit_code: int
    reason: str
    message: str
    hint: str
    progress: Progress | None
    receipt: Receipt | None


def request_stop(force: bool) -> None:
    """Ask the attempt that runs or is about to start to stop at a barrier; safe in a signal handler."""
    stopping.ask(force=force)


def run_driver(
    backfill: Backfill,
    *,
    settings: DriverSettings,
    observe: Callable[[Progress], None] = lambda _: None,
    starting: Callable[[str], None] = lambda _: None,
    spark: SparkSession | None = None,
) -> RunOutcome:
    """Run one attempt to its end; never raises for what a spec, a table or the world can do wrong.

    Args:
        backfill: The job.
        settings: Of this process.
        observe: Called about four times a second, from the thread that called this.
        starting: Called before each step of the start, with what it is; there is nothing to observe yet.
        spark: A session to use; else one is opened and closed again.
    """
    crash.arm(settings.crash_at)
    began_s = now().mono_s
    try:
        with (
            LocalRegistry(settings.state_dir, backfill.job_id) as registry,
            session_for(backfill, settings, app_name=f"backfill {backfill.job_id}", given=spark) as session,
        ):
            return _run_until_fenced(session, backfill, settings, registry, observe, starting, began_s)
    except stopping.StoppedEarly:
        return RunOutcome("Stopped", EXIT_STOPPED, "Stopped", STOPPED_EARLY, "", None, None)
    except BackfillError as error:
        return _failed(error, None, None)
    finally:
        stopping.forget()


def _run_until_fenced(
    spark: SparkSession,
    backfill: Backfill,
    settings: DriverSettings,
    registry: LocalRegistry,
    observe: Callable[[Progress], None],
    starting: Callable[[str], None],
    began_s: float,
) -> RunOutcome:
    """Run an attempt, and open anew while a killed predecessor's commit still lands, or what was staged is gone."""
    for _ in range(REOPENED_MAX):
        with suppress(StateMovedError, StagedFilesGoneError):
            return _run_attempt(spark, backfill, settings, registry, observe, starting, began_s)
        began_s = now().mono_s
    return _run_attempt(spark, backfill, settings, registry, observe, starting, began_s)


def _run_attempt(
    spark: SparkSession,
    backfill: Backfill,
    settings: DriverSettings,
    registry: LocalRegistry,
    observe: Callable[[Progress], None],
    starting: Callable[[str], None],
    began_s: float,
) -> RunOutcome:
    opened: Opened | None = None
    try:
        with stopping.jobs_end_on_stop(spark):
            starting("looking at the tables")
            target = open_target(spark, backfill)
            if target.state is not None and target.state.finished:
                return RunOutcome(
                    "Complete", EXIT_COMPLETE, "AlreadyComplete", "the target says that this job is finished", "", None,
                    target.state.receipt,
                )  # fmt: skip
            opened = open_job(spark, backfill, target)
            stopping.check()
            starting("looking at the key's values")
            looked_s = now().mono_s
            key_proven = _check_keys(backfill, opened, settings)
            proof_s = now().mono_s - looked_s if key_proven and opened.state is None else 0.0
        starting("making the target ready")
        opened.sink.prepare(opened.transform.output_schema(spark, opened.pinned.schema))
    except (BackfillError, stopping.StoppedEarly):
        raise
    except Exception as error:
        if java_died(spark, error):
            raise death(error) from error
        # Source and target explain what they raise themselves; what is left is a Spark job's, such as the proof of a key.
        doing = "the start"
        raise (opened.explain(error, doing=doing) if opened else unexplained(error, doing=doing)) from error
    # A proof before the first write is a step of its own, not part of the start.
    spent = {START: now().mono_s - began_s - proof_s} | ({KEY_PROOF: proof_s} if proof_s else {})
    attempt = _Attempt(
        spark, backfill, opened, registry, observe,
        key_proven=key_proven, proves_key=settings.check_unique is not False, spent=spent,
    )  # fmt: skip
    return attempt.run(settings)


def _check_keys(backfill: Backfill, opened: Opened, settings: DriverSettings) -> bool:
    """Look at the key's values before the first write of a job; return whether the target's key is proven by that.

    A resumed job was looked at then.
    """
    spec = backfill.spec
    if opened.state is not None or spec.target.params.write_mode != UPSERT:
        return opened.state is not None and opened.state.key_proven
    unique = settings.check_unique
    if unique is None:
        unique = opened.pinned.live_rows <= CHECK_UNIQUE_ROWS_MAX
    opened.source.check_no_null_key(spec.transform.where)
    if unique:
        opened.check_one_row_a_key(spec.key)
    return unique


class _Attempt:
    """The parts of one running attempt, wired."""

    def __init__(
        self,
        spark: SparkSession,
        backfill: Backfill,
        opened: Opened,
        registry: LocalRegistry,
        observe: Callable[[Progress], None],
        *,
        key_proven: bool,
        proves_key: bool,
        spent: Mapping[str, float],
    ) -> None:
        """Build the core from the stored state and the executor from the opened parts."""
        self._backfill = backfill
        self._opened = opened
        self._registry = registry
        self._observe = observe
        spec, moment = backfill.spec, now()
        state = replace(self._next_state(moment), key_proven=key_proven)
        self._attempt = state.attempt
        self._strategy = self._build_strategy()
        settings = JobSettings(
            interval_s=spec.barrier.interval_ms / 1000,
            seal_every=spec.barrier.seal_every,
            verify_final=spec.verify == "Final",
            proves_key=proves_key and spec.target.params.write_mode == UPSERT,
            follows=spec.after == "Follow",
        )
        self._job = Job(state, self._strategy, settings, moment, spent)
        write_mode = spec.target.params.write_mode
        prefix = [0]
        for rows in opened.pinned.rows:
            prefix.append(prefix[-1] + rows)
        self._executor = SparkActionExecutor(
            Parts(
                spark=spark,
                source=opened.source,
                sink=opened.sink,
                committer=opened.committer,
                transform=opened.transform,
                app_id=opened.committer.app_id,
                attempt=state.attempt,
                write_mode=write_mode,
                key=spec.key,
                vnodes=spec.strategy.params.vnodes,
                prefix=tuple(prefix),
                opened_at=opened.stored.txn_version,
                claim=opened.target.claim,
            )
        )
        self._server: OperatorBinding | None = None
        self._orphans = OrphanRemoval(lambda: opened.sink.remove_orphans(self._attempt))
        self._metrics = progress_registry(backfill.job_id, lambda: self._progress)
        meter = LoopMeter(backfill.job_id, self._metrics)
        self._loop = Loop(self._job, self._executor, acknowledge=self._acknowledge, observe=self._on_view, watch=meter)
        self._progress: Progress = progress_of(self._job.view(moment), moment)
        self._view: JobView = self._job.view(moment)

    def _next_state(self, moment: Now) -> JobState:
        spec, stored = self._backfill.spec, self._opened.state
        state = stored or JobState(
            job_id=self._backfill.job_id,
            spec_hash=self._backfill.spec_hash,
            attempt=0,
            epoch=0,
            strategy=spec.strategy.type,
        )
        paused = spec.pause.scope if spec.desired_state == "Paused" else None
        # A receipt that found a difference must be taken again, not believed again.
        receipt = state.receipt if state.receipt is not None and state.receipt.equal else None
        return replace(
            state,
            attempt=state.attempt + 1,
            controls=state.controls.under_spec(paused, spec.throttle.rows_per_second).at(moment.wall_ms),
            receipt=receipt,
            spec_fields=self._backfill.spec_fields,
            driver=secrets.token_hex(8),
        )

    def _build_strategy(self) -> Strategy:
        spec = self._backfill.spec
        plugin = choose(strategies.discover(), spec.strategy.type, "spec.strategy.type")
        strategy = plugin.build(spec, as_pinned(self._opened.pinned, self._opened.state))
        if self._opened.state is not None:
            strategy.resume(self._opened.state.progress, self._opened.stored.txn_version)
        return strategy

    # ------------------------------------------------------------------ running
    def run(self, settings: DriverSettings) -> RunOutcome:
        """Run the loop with a control server beside it."""
        server = OperatorBinding(
            settings,
            attempt=self._attempt,
            job_id=self._backfill.job_id,
            submit=self._loop.put,
            progress=lambda: self._progress,
            receipt=lambda: self._view.receipt,
            registry=self._metrics,
        )
        self._server = server
        server.start()
        self._registry.publish(url=server.url, token=server.token, attempt=server.attempt)
        try:
            with stopping.heard_by(self._loop.put):
                finish = self._loop.run()
            crash.crash_point("after_finish")
            if isinstance(finish.error, StateMovedError | StagedFilesGoneError):
                raise finish.error
            if finish.outcome == "Complete":
                with suppress(Exception):
                    self._executor.tidy()
                self._orphans.finish(until=stopping.asked)
        finally:
            self._executor.close()
            self._registry.withdraw()
            server.close()
        return self._outcome(finish)

    def _acknowledge(self, ack: Acknowledge) -> None:
        if self._server is not None:
            self._server.acknowledge(ack)

    def _on_view(self, view: JobView) -> None:
        self._view = view
        self._progress = progress_of(view, now())
        self._orphans.look(view)
        self._observe(self._progress)

    def _outcome(self, finish: Finish) -> RunOutcome:
        view = self._view
        if finish.error is not None:
            return _failed(finish.error, self._progress, view.receipt)
        if finish.outcome == "Stopped":
            return RunOutcome(
                "Stopped", EXIT_STOPPED, "Stopped", "stopped at a barrier; run it again to go on", "",
                self._progress, view.receipt,
            )  # fmt: skip
        return RunOutcome("Complete", EXIT_COMPLETE, "Complete", "", "", self._progress, view.receipt)


def _failed(error: BackfillError, progress: Progress | None, receipt: Receipt | None) -> RunOutcome:
    return RunOutcome("Failed", error.exit_code, error.reason, error.message, error.hint, progress, receipt)
