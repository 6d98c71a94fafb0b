"""Performs the procedure of an attempt, from the spec to the termination message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from backfill_api.environment import PROCEDURE_MODES
from backfill_api.spec.spec import BackfillResource
from backfill_api.status.ending import Ending
from backfill_api.status.procedure import ProcedureEnd, ProcedureKind
from backfill_core.copy_back.following import resumed
from backfill_core.errors import EXIT_COMPLETE, EXIT_STOPPED, BackfillError, VerificationFailedError
from backfill_core.switch_over.requests import refused_switch
from backfill_core.switch_over.steps import End, Goal
from backfill_spark.control.wire import to_api_receipt
from backfill_spark.driver import termination_message
from backfill_spark.jvm.java_process import JavaWatch
from backfill_spark.jvm.stop_signal import StoppedEarly, StopSignal
from backfill_spark.procedures.close import close_job
from backfill_spark.procedures.step_server import StepServer, without_operator
from backfill_spark.repair.repair import repair_target
from backfill_spark.settings import DriverSettings
from backfill_spark.switch_over.command import switch_over
from backfill_spark.switch_over.copy_back import CopiedBack
from backfill_spark.switch_over.follow_back import follow_back
from backfill_spark.switch_over.plan import SwitchOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS: Final[dict[str, ProcedureKind]] = {
    PROCEDURE_MODES[kind]: kind for kind in ("Switch", "UndoSwitch", "CompleteSwitch", "FollowBack", "Repair", "Close")
}
GOALS: Final = {"Switch": Goal.SWITCH, "UndoSwitch": Goal.UNDO, "CompleteSwitch": Goal.COMPLETE}
COPY_BACK_ENDED: Final = "CopyBackEnded"
STOPPED: Final = "stopped before the end; the next attempt begins again"


@dataclass(frozen=True, slots=True)
class Performed:
    """End of an attempt that performed a procedure."""

    ending: Ending
    exit_code: int


def perform(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    stop: StopSignal,
    starting: Callable[[str], None] = lambda _: None,
    spark: SparkSession | None = None,
) -> Performed:
    """Perform the procedure that `settings.mode` names; no error of the job is raised.

    Args:
        backfill: The job.
        settings: Settings of this process.
        stop: A requested stop ends a switch-over before its flip.
        starting: Called before each step.
        spark: A session to use; by default, a session is opened and closed again.
    """
    kind, ends = KINDS[settings.mode], list[ProcedureEnd]()
    with StepServer(settings, backfill.job_id, stop) as server:

        def announce(step: str) -> None:
            server.starting(step)
            starting(step)

        def ended(end: End, has_state: bool | None) -> None:
            copies_back = end is End.SWITCHED and backfill.spec.switch.keep_source == "Following"
            ends.append(ProcedureEnd(kind=kind, end=end.value, has_state=has_state, copies_back=copies_back))

        procedure = _Procedure(backfill, without_operator(settings), stop, announce, server.watch, spark)
        try:
            match kind:
                case "Repair":
                    ending = procedure.repair()
                case "Close":
                    ending = procedure.close()
                case "FollowBack":
                    ending = procedure.follow_back(server.copied)
                case _:
                    ending = procedure.switch(kind, ended)
        except StoppedEarly:
            end = ends[-1] if ends else None
            stopped = Ending(outcome="Stopped", reason="Stopped", message=STOPPED, procedure=end)
            return Performed(stopped, EXIT_STOPPED)
        except BackfillError as error:
            end = ends[-1] if ends else None
            failed = termination_message.of_error(error).model_copy(update={"procedure": end})
            return Performed(failed, error.exit_code)
    return Performed(ending, EXIT_COMPLETE)


@dataclass(frozen=True, slots=True)
class _Procedure:
    """One procedure of one job."""

    backfill: BackfillResource
    settings: DriverSettings
    stop: StopSignal
    starting: Callable[[str], None]
    watched: Callable[[JavaWatch], None]
    spark: SparkSession | None

    def switch(self, kind: ProcedureKind, ended: Callable[[End, bool | None], None]) -> Ending:
        """Switch over, undo or complete."""
        goal = GOALS[kind]
        if goal is Goal.SWITCH and (error := refused_switch(self.backfill.spec)) is not None:
            raise error
        result = switch_over(
            self.backfill, settings=self.settings, goal=goal, options=SwitchOptions(), stop_other=lambda: None,
            spark=self.spark, stop=self.stop, starting=self.starting, ended=ended,
        )  # fmt: skip
        end = End.UNDONE if goal is Goal.UNDO else result.end
        if end is End.SWITCHED and self.backfill.spec.switch.keep_source == "Released":
            end = End.COMPLETED
        spent_s = result.unavailable_s
        detail = ProcedureEnd(
            kind=kind, end=end.value, version=None if result.fence is None else result.fence.version,
            unavailable_ms=None if spent_s is None else round(spent_s * 1000),
            copies_back=end is End.SWITCHED and self.backfill.spec.switch.keep_source == "Following",
        )  # fmt: skip
        receipt = None if result.receipt is None else to_api_receipt(result.receipt).summary
        return Ending(outcome="Complete", reason=end.value, receipt=receipt, procedure=detail)

    def follow_back(self, committed: Callable[[int], None]) -> Ending:
        """Copy the target's changes back to the source until another command undoes or completes the switch-over."""

        def copied(state: CopiedBack) -> None:
            if state.commits:  # without a commit of this process, the version is that of an earlier attempt
                committed(state.version)

        stop = follow_back(
            self.backfill, settings=self.settings, copied=copied, begins=resumed, spark=self.spark,
            stop=self.stop, starting=self.starting, watched=self.watched,
        )  # fmt: skip
        detail = ProcedureEnd(kind="FollowBack", end="Ended")
        return Ending(outcome="Complete", reason=COPY_BACK_ENDED, message=f"{stop.value}.", procedure=detail)

    def close(self) -> Ending:
        """End a deleted job."""
        return close_job(
            self.backfill, settings=self.settings, stop=self.stop, starting=self.starting, spark=self.spark
        )

    def repair(self) -> Ending:
        """Repair the target; a job that has ended stays ended."""
        repaired = repair_target(
            self.backfill, settings=self.settings, spark=self.spark, stop=self.stop, starting=self.starting
        )
        if not repaired.receipt.equal:
            raise VerificationFailedError(
                "source and target still differ after the repair.",
                hint="Stop other writers of the target, then repair it again.",
            )
        rows, changed = repaired.rows, repaired.version is not None
        detail = ProcedureEnd(
            kind="Repair", end="Repaired" if changed else "Equal", version=repaired.version,
            rows_inserted=rows.inserted, rows_updated=rows.updated, rows_deleted=rows.deleted,
            files_copied=repaired.files_copied, files_removed=repaired.files_removed,
        )  # fmt: skip
        return Ending(
            outcome="Complete" if repaired.finished else "Stopped",
            reason=detail.end,
            receipt=repaired.receipt.summary,
            procedure=detail,
        )
