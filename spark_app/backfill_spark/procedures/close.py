"""Ends a deleted job as its `deletionPolicy` asks for: gives the source back, then releases or drops the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from backfill_api.spec.spec import BackfillResource
from backfill_api.status.ending import Ending
from backfill_api.status.procedure import ProcedureEnd
from backfill_core.command_errors import NotDroppableError
from backfill_core.errors import BackfillError, MissingBucketError
from backfill_core.source_fence.fence import Request, TableHead
from backfill_core.switch_over.deletion import Part, finishing, plan_deletion, standing_of
from backfill_core.switch_over.mark import Mark, give_up_step, lift_step, mark_of
from backfill_core.switch_over.source_name import source_behind
from backfill_spark.driver.fence import ABSENT, TIMEOUT_S, check_gone, end_hold_log, request_of, settled, source_log
from backfill_spark.driver.job_context import JobContext
from backfill_spark.driver.release import drop, finish_release, release
from backfill_spark.jvm.session_scope import session_scope
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.opening.failures import explained
from backfill_spark.ports.source import FencedLog
from backfill_spark.settings import DriverSettings
from backfill_spark.switch_over.command import switch_over
from backfill_spark.switch_over.plan import SwitchOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READING: Final = "reading the log of the source"
UNCHANGED: Final = "the target and the job's state in it are unchanged"
REFUSED_HINT: Final = "End it with `backfill switch --undo` or `--complete`, or with `backfill unfence`, and a file of this job; then release or drop it."
STEPS: Final[dict[Part, str]] = {
    "Finish": "finishing the switch-over", "GiveUp": "lifting the fence of an unfinished switch-over", "EndHold": "restoring the retention of the source",
    "Release": "releasing the target", "Drop": "removing the target", "Open": "lifting the fence of the source",
}  # fmt: skip


def close_job(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    stop: StopSignal,
    starting: Callable[[str], None] = lambda _: None,
    spark: SparkSession | None = None,
) -> Ending:
    """Do what the deletion of a job needs; it may be repeated after any failure.

    Args:
        backfill: The job.
        settings: Settings of this process.
        stop: A requested stop ends it between two parts.
        starting: Called before each part.
        spark: A session to use; by default, a session is opened and closed again.

    Raises:
        BackfillError: a table cannot be read or changed. Run it again.
        StoppedEarly: a stop was requested.
    """
    name = f"backfill close {backfill.job_id}"
    with session_scope(backfill.spec.spark.conf, settings, app_name=name, given=spark, stop=stop) as session:
        starting(READING)
        with explained(session, "the end of the job"):
            closing = _Closing.of(backfill, settings, session, stop)
            standing = standing_of(closing.head, backfill.job_id)
            if "Finish" in plan_deletion(backfill.spec.deletion_policy, standing).parts:
                closing.finish(starting)
                closing = _Closing.of(backfill, settings, session, stop)
                standing = standing_of(closing.head, backfill.job_id)
                standing = "Stuck" if standing == "Between" else standing
            plan = plan_deletion(backfill.spec.deletion_policy, standing)
            try:
                done = list(filter(None, [closing.perform(part, starting) for part in plan.parts]))
            except NotDroppableError as kept:
                return _ending("Refused", kept.message, kept.hint)
    if plan.refused:
        return _ending("Refused", f"{plan.refused}: {UNCHANGED}.", REFUSED_HINT)
    end = "Released" if "Release" in plan.parts else "Dropped" if "Drop" in plan.parts else "Kept"
    return _ending(end, "; ".join(done if end != "Kept" else [*done, UNCHANGED]))


def _ending(end: str, message: str, hint: str = "") -> Ending:
    detail = ProcedureEnd(kind="Close", end=end)
    return Ending(outcome="Complete", reason=end, message=message, hint=hint, procedure=detail)


@dataclass(frozen=True, slots=True)
class _Closing:
    """The tables of the job, and the parts of its end."""

    backfill: BackfillResource
    settings: DriverSettings
    spark: SparkSession
    stop: StopSignal
    log: FencedLog | None
    """Log of the source; `None` if it is gone, or no fence can be added to it."""

    head: TableHead | None
    """Newest version of the source when the end began."""

    @classmethod
    def of(cls, backfill: BackfillResource, settings: DriverSettings, spark: SparkSession, stop: StopSignal) -> Self:
        """Open the source; after a switch-over, its name may point to the target."""
        log = None
        try:
            log = source_log(spark, backfill)
            head = None if log is None else log.head()
            if log is not None and head is not None and backfill.spec.source.params.catalog_name is not None:
                with JobContext.open(backfill, settings, command="close", spark=spark, stop=stop) as target:
                    log = log.at(source_behind(head, target=target.sink.path))
                head = log.head()
        except ABSENT as error:
            path = None
            if isinstance(error, MissingBucketError):
                with JobContext.open(backfill, settings, command="close", spark=spark, stop=stop) as target:
                    path = target.existing
            check_gone(spark, backfill, error, target=path)
            log = head = None
        return cls(backfill, settings, spark, stop, log, head)

    def finish(self, starting: Callable[[str], None]) -> None:
        """Go forward with a decided flip, or back with an undo; after an error that no retry corrects, the log has the result."""
        assert self.head is not None
        mark = mark_of(self.head)
        assert mark is not None
        try:
            switch_over(
                self.backfill, settings=self.settings, goal=finishing(mark), options=SwitchOptions(),
                stop_other=lambda: None, spark=self.spark, stop=self.stop, starting=starting,
            )  # fmt: skip
        except BackfillError as error:
            if error.retryable:
                raise

    def perform(self, part: Part, starting: Callable[[str], None]) -> str:
        """Perform a part; return its description for users, empty if there was nothing to do."""
        self.stop.check()
        starting(STEPS[part])
        match part:
            case "EndHold":
                restored = self.log is not None and end_hold_log(self.log, self.backfill)
                return "the source has its own retention again" if restored else ""
            case "GiveUp" | "Open":
                return self._lift(give_up_step if part == "GiveUp" else lift_step)
            case "Release":
                return self._release()
            case "Drop":
                return self._drop()
            case "Finish":
                return ""  # `finish` performs it, as the only part of its plan

    def _lift(self, step: Callable[[TableHead, Request, Mark | None], object]) -> str:
        assert self.log is not None
        assert self.head is not None
        request, mark = request_of(self.backfill, ""), mark_of(self.head)
        settled(self.log, lambda newest: step(newest, request, mark), self.log.head(), TIMEOUT_S)
        return "the source accepts writes again"

    def _has_state(self) -> bool:
        with JobContext.open(self.backfill, self.settings, command="close", spark=self.spark, stop=self.stop) as target:
            return target.state is not None

    def _release(self) -> str:
        with JobContext.open(self.backfill, self.settings, command="close", spark=self.spark, stop=self.stop) as target:
            if target.state is None:
                finish_release(target)  # the driver before this one may have died between the two commits
                return "the target has no state of the job"
        release(self.backfill, settings=self.settings, force=True, spark=self.spark, stop=self.stop)
        return "the job's state left the target"

    def _drop(self) -> str:
        if not self._has_state():
            return "the target has no state of the job, so nothing was removed"
        dropped = drop(self.backfill, settings=self.settings, force=True, spark=self.spark, stop=self.stop)
        return f"{dropped.path} is removed"
