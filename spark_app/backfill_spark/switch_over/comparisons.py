"""Comparisons of a switch-over: one before the fence, while the driver follows, and one of the changes after it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from backfill_core.protocol.receipt import TableReceipt
from backfill_core.protocol.work import Position
from backfill_core.switch_over.coverage import Coverage, Everything, OnlyChanges, coverage
from backfill_spark.receipts.basis import basis_of
from backfill_spark.receipts.changed_rows import ChangedRows, ChangesReceipt
from backfill_spark.receipts.comparison import compare

if TYPE_CHECKING:
    from backfill_spark.driver.job_context import JobContext, OpenedJob

REQUESTED = "all rows were requested"


@dataclass(frozen=True)
class Compared:
    """One comparison, and the part of the tables that it read."""

    receipt: TableReceipt
    coverage: Coverage
    changes: ChangesReceipt | None = None
    """Changed files; `None` if everything was compared."""

    def describe(self) -> str:
        """Describe the compared part for users."""
        match self.coverage:
            case Everything(reason=reason):
                return f"compared everything at version {self.receipt.source_version} of the source: {reason}"
            case OnlyChanges(base=base):
                assert self.changes is not None, "only changed files were compared"
                source, target = self.changes.source, self.changes.target
                return (
                    f"compared the changes up to version {self.receipt.source_version} of the source: {source.count} changed files of the "
                    f"source, {target.count} of the target; the receipt of version {base.source_version} covers all others"
                )


class Comparisons:
    """The job of a switch-over, open for comparisons while it is entered."""

    def __init__(self, context: JobContext, check: Callable[[], None]) -> None:
        """Open nothing yet.

        Args:
            context: The job.
            check: Called often; an exception that it raises ends a comparison.
        """
        self._context, self._check = context, check
        self._opened = ExitStack()
        self._job: OpenedJob | None = None

    def __enter__(self) -> Self:
        """Return the comparisons."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the source."""
        self._opened.close()

    def while_following(self) -> Compared:
        """Compare the target's newest version with the version of the source that it holds; the job's last receipt is the base."""
        job = self._reopened()
        base = None if job.state is None else job.state.receipt
        return self._taken(job, job.stored.table_version, job.strategy().status.position, base)

    def of_fenced(self, fence_version: int, base: Compared | None) -> Compared:
        """Compare the target's newest version, which holds the last rows, with the fenced source.

        Args:
            fence_version: Version at which the source stands still.
            base: The comparison before the fence; `None` to compare all rows.
        """
        job = self._job
        if base is None or job is None:
            job = self._reopened()
            return self._whole(job, job.stored.table_version, fence_version, Everything(REQUESTED), by_rows=True)
        return self._taken(job, job.committer.read_state().table_version, fence_version, base.receipt)

    def _reopened(self) -> OpenedJob:
        self._opened.close()
        self._job = self._opened.enter_context(self._context.reopened().open_job())
        return self._job

    def _taken(self, job: OpenedJob, target_version: int, position: Position, base: TableReceipt | None) -> Compared:
        basis = basis_of(job.tables, position, target_version)
        chosen = coverage(base, basis, source_version=position, target_version=target_version)
        if isinstance(chosen, OnlyChanges):
            assert basis is not None, "a base without the same basis is not used"
            changed = ChangedRows(job.tables, chosen.base, basis, position, target_version, self._check)
            with job.tables.jobs_explained():
                result = changed.receipt(epoch=0 if job.state is None else job.state.epoch)
            if isinstance(result, ChangesReceipt):
                return Compared(result.receipt, chosen, result)
            chosen = result
        # The columns may have changed since the tables were opened.
        return self._whole(self._reopened(), target_version, position, chosen)

    def _whole(
        self, job: OpenedJob, target_version: int, position: Position, chosen: Everything, *, by_rows: bool = False
    ) -> Compared:
        compared = compare(
            job.tables, position, target_version=target_version, covered=job.strategy().status.covered, check=self._check,
            by_rows=by_rows,
        )  # fmt: skip
        with job.tables.jobs_explained():
            return Compared(compared.receipt(epoch=0 if job.state is None else job.state.epoch), chosen)
