"""Removes a job's state and claim from its target, so that any writer may use the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backfill_api.amounts import counted
from backfill_api.spec.spec import BackfillResource
from backfill_core.errors import NotFinishedError, StateMismatchError
from backfill_core.job.state import JobState
from backfill_core.protocol.epochs import txn_version
from backfill_spark.control.local_registry import LocalRegistry
from backfill_spark.driver.fence import end_hold
from backfill_spark.driver.job_context import JobContext
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.ports.sink import KeepsFeatures
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Released:
    """Result of a release."""

    path: str
    table_version: int
    """Version of the commit that removed the state."""

    features: tuple[str, ...]
    """Writer features that the table still has."""


def release(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    force: bool = False,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
    starting: Callable[[str], None] = lambda _: None,
) -> Released:
    """Remove the job's state and its claim from the target, and the table feature that only they needed (R-PROG-5).

    Before that, the retention of the source is restored if the job extended it.

    Args:
        backfill: The job.
        settings: Settings of this process.
        force: Release a job that is not finished too; it can never resume.
        spark: A session to use; by default, a session is opened and closed again.
        stop: A requested stop ends the start.
        starting: Called before each step.

    Raises:
        AlreadyRunningError: a driver of the job runs on this machine.
        NotFinishedError: the job is not finished.
        StateMismatchError: the target holds no state of this job, and the job does not hold its source.
        BackfillError: the retention of the source cannot be restored; the state stays.
    """
    with (
        LocalRegistry(settings.state_dir, backfill.job_id),
        JobContext.open(backfill, settings, command="release", spark=spark, stop=stop, starting=starting) as target,
    ):
        if target.state is not None:
            _check_finished(target.state, force=force)
        held = end_hold(target.spark, backfill)
        if target.state is None and held:
            return Released(target.sink.path, target.stored.table_version, ())
        attempt = _attempt_after(target)
        starting("removing the state of the job")
        version = target.committer.release(txn_version(attempt, 0), target.stored).version
        table = target.sink
        if not isinstance(table, KeepsFeatures):
            return Released(table.path, version, ())
        # Dropping the feature would also remove the states of all other jobs.
        if not target.committer.domains():
            table.drop_feature()
        return Released(table.path, version, table.features())


def _check_finished(state: JobState, *, force: bool) -> None:
    if not state.finished and not force:
        raise NotFinishedError(
            f"the job is not finished: the target holds {counted(state.rows_done, 'row')}, attempt {state.attempt}.",
            hint="Let it finish with `backfill run`, or abandon it with --force: it can then never resume, "
            "and its rows stay in the target.",
        )


def _attempt_after(target: JobContext) -> int:
    """Return a number greater than that of every attempt; it fences a driver on another machine."""
    if target.state is None:
        raise StateMismatchError(
            "the target has no state of this job.", hint="Nothing to do: the job was released, or it never started."
        )
    return target.state.attempt + 1
