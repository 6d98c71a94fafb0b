"""Repair of a target that differs from its source: the jobs that allow it, and the states that its commits store.

job                                               decision
-----------------------------------------------   ------------------------------------------------------------------
no receipt so far                                 NotRepairable: nothing states which version both sides should have
rows that are staged for a publication            NotRepairable: the target has none of them
a topic, a changelog, a target with other rows    NotRepairable: the target's rows do not follow from a version alone
the copy is not complete                          NotFinished: the job itself adds the missing rows
a receipt that differs, or an earlier equal one   both sides are compared again, and the differences are repaired
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import BackfillError, NotFinishedError, NotRepairableError, SnapshotExpiredError
from backfill_core.job.publishing import is_hidden
from backfill_core.job.state import JobState
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.protocol.replacement import find_obstacle
from backfill_core.protocol.work import Covered

EXPIRED_HINT = (
    "Take the later changes of the source first with `backfill run --refresh`, then repair at that version. If these changes are "
    "gone too, copy everything again with another jobId and another target."
)


def check_repairable(spec: BackfillSpec, state: JobState) -> None:
    """Reject a job whose target cannot be repaired.

    Raises:
        NotRepairableError: the message contains the field, its value and the remedy.
    """
    if spec.source.params.skips_snapshot:
        raise NotRepairableError(
            f"spec.source.{spec.source.member}.changesOnly is set, so the target lacks the rows that never changed.",
            hint="Fill a new target with another jobId, without changesOnly.",
        )
    if is_hidden(state.publication):
        raise NotRepairableError(
            f"spec.target.{spec.target.member}.publish is {spec.target.params.publish}, and the rows of the job are staged: the target has "
            "no rows that a repair can correct.",
            hint="Run the job again: it publishes them. If their receipt differs, run `backfill release --force`, then the job: it copies "
            "from the beginning.",
        )
    if state.receipt is None:
        raise NotRepairableError(
            f"the job has no receipt: spec.verify is {spec.verify}.",
            hint="Set spec.verify: Final, and take one with `backfill run --refresh`. Then run the repair again.",
        )
    if spec.transform.set:
        raise NotRepairableError(
            f"spec.strategy.type is {spec.strategy.type}: source and target are one table.",
            hint="Fill the rows again with another jobId, and select them with transform.setWhere.",
        )
    if isinstance(state.consumed, dict):
        raise NotRepairableError(
            f"spec.source.type is {spec.source.type}, whose records have offsets and no versions.",
            hint="Fill a new target with another jobId.",
        )
    if spec.write_mode == "Changelog":
        raise NotRepairableError(
            f"spec.target.{spec.target.member}.writeMode is Changelog, so the target has each change and not the rows of one version.",
            hint="Fill a new target with another jobId.",
        )
    if spec.target.params.scope is not None:
        raise NotRepairableError(
            f"spec.target.{spec.target.member}.scope is set, so most rows of the target are not from this job.",
            hint="Replace the rows of the scope again with another jobId.",
        )
    if spec.target.params.existing_rows == "Keep":
        raise NotRepairableError(
            f"spec.target.{spec.target.member}.existingRows is Keep, so the target may have rows of other writers, which a repair would remove.",
            hint="Compare the rows of the job by a query, and correct them there.",
        )


def check_complete(covered: Covered) -> None:
    """Reject a job whose copy is not complete; `covered` is the compared part, `None` for all rows."""
    if covered is not None:
        raise NotFinishedError(
            "the copy is not complete, so missing rows are no damage.", hint="Run the job to its end, then repair it."
        )


def check_whole_versions(parts: str) -> None:
    """Reject a comparison of a target between two parts of a batch; `parts` is `StrategyStatus.between_parts` (R-PART-6)."""
    if parts:
        raise NotFinishedError(
            f"the target has {parts}, so its rows are of no version of the source.",
            hint="Run the job until it has merged the last part.",
        )


def check_replacement(properties: Mapping[str, str], *, removed: int, added: int) -> None:
    """Reject a repair whose commit a table property forbids.

    Args:
        properties: Table properties of the target.
        removed: Number of rows that the repair removes, or of files if no row differs.
        added: Number of rows or files that it adds, rows included that stay of a file that is written again.

    Raises:
        NotRepairableError: names the property, its value and the remedy.
    """
    obstacle = find_obstacle(properties, removed=removed, added=added)
    if obstacle is not None:
        also = " and add others" if added else ""
        raise NotRepairableError(
            f"the target has {obstacle.name} = true, {obstacle.reason}, and the repair must remove {removed:,} of its rows{also}.",
            hint=obstacle.hint,
        )


def expired_for_repair(error: BackfillError, position: str) -> BackfillError:
    """Return the error of a repair whose source no longer has the compared version; other errors are unchanged."""
    if not isinstance(error, SnapshotExpiredError):
        return error
    return SnapshotExpiredError(
        f"a repair reads the source at {position}, which is gone: {error.message}", hint=EXPIRED_HINT
    )


@dataclass(frozen=True, slots=True)
class RepairState:
    """State of a job during a repair, which counts as an attempt; each commit has the next epoch."""

    state: JobState

    @property
    def txn_version(self) -> int:
        """Transaction version of the next commit of this state."""
        return Epoch(self.state.attempt, self.state.epoch).txn_version

    @classmethod
    def begun(cls, state: JobState, *, driver: str, now_ms: int) -> RepairState:
        """Return the state of the first commit, which fences all earlier attempts."""
        begun = replace(state, attempt=state.attempt + 1, epoch=state.epoch + 1, driver=driver, committed_ms=now_ms)
        return cls(begun)

    def with_receipt(self, receipt: TableReceipt, *, now_ms: int) -> RepairState:
        """Return the state of the next commit, with a receipt."""
        kept = replace(receipt, verified_ms=now_ms, epoch=self.state.epoch)
        return RepairState(replace(self.state, epoch=self.state.epoch + 1, receipt=kept, committed_ms=now_ms))


def repaired_receipt(before: TableReceipt, vnodes: TableReceipt) -> TableReceipt:
    """Return the receipt of all vnodes after the repair of some.

    Args:
        before: The receipt of all vnodes, at the version before the repair.
        vnodes: The receipt of the repaired vnodes only, at the version after it.
    """
    return replace(
        before,
        target_version=vnodes.target_version,
        mismatches=vnodes.mismatches,
        seconds=round(before.seconds + vnodes.seconds, 3),
    )
