"""Verifies and describes a job without a running driver."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from backfill_api.spec.spec import BackfillResource
from backfill_api.status import receipt as api
from backfill_api.status.plan import Plan, PlanWarning
from backfill_api.status.source_head import SourceHead
from backfill_core.errors import BackfillError, NotFinishedError, StateMismatchError
from backfill_core.job.after_end import Continue, Refuse, decide_after_end
from backfill_core.job.publishing import hidden_parts
from backfill_core.job.repair import check_whole_versions
from backfill_core.job.state import JobState
from backfill_core.positions.start_time import check_comparable
from backfill_core.protocol.events import Head
from backfill_core.protocol.strategy import PinVersion, ReadNewest, Subscribe
from backfill_core.protocol.work import Position
from backfill_spark.control.wire import to_api_receipt, to_api_source_head
from backfill_spark.driver.event_loop import now
from backfill_spark.driver.job_context import JobContext, OpenedJob
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.opening.plan_warnings import schedule_ignored
from backfill_spark.ports.abilities import closing
from backfill_spark.receipts.comparison import compare
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def verify_offline(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    explain: bool = False,
    by_rows: bool = False,
    statistics: bool = False,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
    starting: Callable[[str], None] = lambda _: None,
) -> tuple[api.Receipt, list[tuple[str, dict[str, Any]]], SourceHead]:
    """Return a receipt of the target's newest version, examples of different rows, and the newest position of the source.

    Examples are present only with `explain`. With `by_rows`, rows are compared also for files that were copied. With `statistics`,
    the statistics of all files of the target are compared with the files' values.

    Raises:
        StateMismatchError: the target has no state of this job.
        InvalidSpecError: the job copies no snapshot.
        BackfillError: a table cannot be opened.
    """
    check_comparable(backfill.spec)
    stop = stop or StopSignal()
    with (
        JobContext.open(backfill, settings, command="verify", spark=spark, stop=stop, starting=starting) as context,
        stop.cancels_jobs_of(context.spark),
    ):
        state = context.state
        if state is None:
            raise StateMismatchError("the target has no state of this job.", hint="Run the job first.")
        with context.open_job() as job:
            if job.start_over is not None:
                raise NotFinishedError(
                    "the job is not finished, and its next attempt starts again from the beginning: there is nothing to compare.",
                    hint="Run the job to its end, then verify it.",
                )
            status, version = job.strategy().status, context.stored.table_version
            check_whole_versions(status.between_parts)
            compared = compare(
                job.tables,
                status.position,
                target_version=version,
                covered=status.covered,
                cut_off=status.cut_off,
                staged=hidden_parts(state.publication),
                check=stop.check,
                by_rows=by_rows,
                statistics=statistics,
            )
            starting("comparing source and target")
            with job.tables.jobs_explained():
                receipt = compared.receipt(epoch=state.epoch)
                examples = compared.examples(receipt) if explain and not receipt.equal else []
            head = newest_of_open_source(job, status.position)
        return (
            to_api_receipt(replace(receipt, verified_ms=now().wall_ms, undo_version=status.undo_version)),
            examples,
            head,
        )


def newest_of_open_source(job: OpenedJob, position: Position) -> SourceHead:
    """Return the newest position of an open source together with the position that the target holds.

    Raises:
        BackfillError: the source cannot be read.
    """
    source = job.tables.source
    with job.explained("reading the source", source):
        return to_api_source_head(source.head(), position, job.format_position, now_ms=now().wall_ms)


def newest_of_source(context: JobContext, position: Position | None) -> SourceHead | None:
    """Return the newest position of the source of a job that has ended; `None` if the source is gone or was replaced."""
    if position is None or context.progress is None:
        return None
    with suppress(BackfillError):
        head, pinned = head_of_source(context), source_id_of(context)
        if pinned and head.source_id and head.source_id != pinned:
            return None
        return to_api_source_head(head, position, context.format_position, now_ms=now().wall_ms)
    return None


def head_of_source(context: JobContext) -> Head:
    """Return the newest position of the source of a job that is not open.

    Raises:
        BackfillError: the source cannot be read.
    """
    with context.explained("reading the source"):
        source = context.plugins.source.open(context.spark, context.backfill.spec.source)
        with closing(source), context.explained("reading the source", source):
            return source.head()


def source_id_of(context: JobContext) -> str:
    """Return the identity of the source that earlier attempts read; empty if unknown."""
    match context.plugins.strategy.open_request(context.progress):
        case PinVersion(table_id=pinned) | ReadNewest(table_id=pinned) | Subscribe(source_id=pinned):
            return pinned
        case _:
            return ""


def plan_after_end(context: JobContext, state: JobState) -> Plan | None:
    """Return the plan of a job that has ended, without reading any rows; `None` if a run continues the job.

    Raises:
        InvalidSpecError: the spec requests a change that a finished job cannot make.
    """
    match decide_after_end(context.backfill.spec, state, refresh=False):
        case Refuse(error=error):
            raise error
        case Continue():
            return None
    message = f"the job has ended at source {context.format_position(state.consumed)}: a run does nothing."
    hint = "Take later changes with `backfill run --refresh`, or give a new job another jobId and target."
    ended = PlanWarning(reason="AlreadyComplete", message=message, hint=hint)
    return Plan(
        rows=0,
        bytes=0,
        files=0,
        splits=0,
        estimated_seconds=0,
        estimated_seconds_low=0,
        estimated_seconds_high=0,
        key_columns=context.backfill.spec.source.params.key,
        target_exists=True,
        resumes_attempt=state.attempt,
        warnings=(ended, *schedule_ignored(context.backfill.spec)),
    )
