"""Removes a job's state and claim from its target, so that any writer may use the table; or the whole target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backfill_api.amounts import counted
from backfill_api.spec.spec import BackfillResource
from backfill_core.command_errors import NotDroppableError
from backfill_core.errors import NotFinishedError, StateMismatchError
from backfill_core.job.owner import OWNER_DOMAIN, PREFIX
from backfill_core.job.state import JobState
from backfill_core.protocol.epochs import txn_version
from backfill_core.protocol.removal import check_droppable
from backfill_core.switch_over.state_feature import STATE_FEATURE
from backfill_spark.control.local_registry import LocalRegistry
from backfill_spark.driver.fence import end_hold, source_state
from backfill_spark.driver.job_context import JobContext
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.sink import KeepsFeatures, SupportsStartOver, TargetRemoval
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

    Before that, the retention of the source is restored if the job extended it. A release that was killed between the two commits
    continues with the second one.

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
        held = end_hold(target.spark, backfill, target=target.existing)
        starting("removing the state of the job")
        if target.state is None:
            finished = finish_release(target)
            if not held and not finished:
                raise no_state()
            version = target.committer.read_state().table_version
            return Released(target.sink.path, version, _features(target) if finished else ())
        version = target.committer.release(txn_version(_attempt_after(target), 0), target.stored).version
        _drop_feature(target)
        return Released(target.sink.path, version, _features(target))


def finish_release(target: JobContext) -> bool:
    """Drop the table feature that a release left, because it was killed after its commit; return whether it did."""
    if target.state is not None or target.stored.txn_version is None:
        return False  # a release leaves the transactions of the job
    before = _features(target)
    if STATE_FEATURE not in before:
        return False
    _drop_feature(target)
    return _features(target) != before


def _features(target: JobContext) -> tuple[str, ...]:
    return target.sink.features() if isinstance(target.sink, KeepsFeatures) else ()


def _drop_feature(target: JobContext) -> None:
    # Dropping the feature would also remove the states of all other jobs.
    if isinstance(target.sink, KeepsFeatures) and not target.committer.domains():
        target.sink.drop_feature()


@dataclass(frozen=True)
class Dropped:
    """A target that is removed, or would be."""

    path: str
    files: int
    bytes: int


def plan_drop(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    force: bool = False,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
    starting: Callable[[str], None] = lambda _: None,
) -> Dropped:
    """Return what `drop` would remove; changes nothing, and raises the same errors."""
    with (
        LocalRegistry(settings.state_dir, backfill.job_id),
        JobContext.open(backfill, settings, command="drop", spark=spark, stop=stop, starting=starting) as target,
    ):
        return _sized(target, _checked(target, force=force))


def drop(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    force: bool = False,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
    starting: Callable[[str], None] = lambda _: None,
) -> Dropped:
    """Remove the target of a job, with its log: only if the job created it and no other writer changed it.

    Its rows are removed in one commit first. So no driver can commit afterwards, and a commit of another writer is seen.

    Args:
        backfill: The job.
        settings: Settings of this process.
        force: Also for an unfinished job.
        spark: A session to use; by default, a session is opened and closed again.
        stop: A requested stop ends the start.
        starting: Called before each step.

    Raises:
        NotDroppableError: the target may have rows of other writers, or be in use; nothing was removed.
        AlreadyRunningError, NotFinishedError, StateMismatchError: as for `release`.
        BackfillError: the storage failed; run it again.
    """
    with (
        LocalRegistry(settings.state_dir, backfill.job_id),
        JobContext.open(backfill, settings, command="drop", spark=spark, stop=stop, starting=starting) as target,
    ):
        removal = _checked(target, force=force)
        dropped = _sized(target, removal)
        end_hold(target.spark, backfill, target=target.existing)
        starting("removing the rows of the target")
        first = txn_version(_attempt_after(target), 0)
        with target.explained("removing the rows of the target", target.sink):
            ability(target.sink, SupportsStartOver).drop_rows(app_id=target.committer.app_id, txn_version=first)
        _checked(target.reopened(), force=force)
        starting("removing the files of the target")
        removal.remove()
        return dropped


def _checked(target: JobContext, *, force: bool) -> TargetRemoval:
    """Return the removal of a target that may be removed."""
    state = target.state
    if state is None:
        raise no_state()
    _check_finished(state, force=force)
    plan = target.plugins.sink.removal
    if plan is None:
        raise NotDroppableError(
            f"{target.sink.path} stays: such a target cannot be removed.", hint="Remove it yourself."
        )
    removal = plan(target.spark, target.backfill)
    own = {target.claim.domain, OWNER_DOMAIN}
    jobs = tuple(name for name in target.committer.domains() if name.startswith(PREFIX) and name not in own)
    check_droppable(
        target.backfill.spec,
        removal.evidence(target.committer.app_id, jobs),
        source_state(target.spark, target.backfill, target=target.sink.path),
        created=state.created_target,
        staging=target.committer.app_id,
    )
    return removal


def _sized(target: JobContext, removal: TargetRemoval) -> Dropped:
    size = removal.size()
    return Dropped(target.sink.path, size.files, size.bytes)


def no_state() -> StateMismatchError:
    """Return the error of a target without a state of the job."""
    return StateMismatchError(
        "the target has no state of this job.", hint="Nothing to do: the job was released, or it never started."
    )


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
        raise no_state()
    return target.state.attempt + 1
