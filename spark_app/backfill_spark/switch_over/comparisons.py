"""Comparisons of a switch-over: one before the fence, while the driver follows, and one of the changes after it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from backfill_core.job.repair import check_whole_versions
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.protocol.work import Position
from backfill_core.switch_over.coverage import Coverage, Everything, OnlyChanges, compares_again, coverage
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.receipts.basis import basis_of
from backfill_spark.receipts.changed_rows import ChangedRows, ChangesReceipt, FileLists
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

    earlier: Compared | None = None
    """Comparison whose receipt covers the other files; `None` if it was made by the driver, or there is none."""

    @property
    def has_changes(self) -> bool:
        """True if changed files were compared."""
        return self.changes is not None and self.changes.source.count + self.changes.target.count > 0

    def describe(self) -> tuple[str, ...]:
        """Describe the compared parts for users, the oldest first."""
        earlier = () if self.earlier is None else self.earlier.describe()
        return (*earlier, self._describe())

    def _describe(self) -> str:
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
        self._lists = FileLists()

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
        compared: Compared | None = None
        seconds: list[float] = []
        while compared is None or (compared.receipt.equal and compares_again(seconds)):
            job = self._reopened()
            stored = None if job.state is None else job.state.receipt
            base = stored if compared is None else compared.receipt
            version, status = job.stored.table_version, job.strategy().status
            check_whole_versions(status.between_parts)
            latest = self._taken(job, version, status.position, base, whole=job)
            compared = latest if compared is None else replace(latest, earlier=compared)
            seconds.append(compared.receipt.seconds)
        if compared.receipt.equal and compared.changes is not None and not compared.has_changes:
            self._warm_up(job, compared.receipt)
        return compared

    def _warm_up(self, job: OpenedJob, base: TableReceipt) -> None:
        if base.basis is None or base.source_version is None:
            return
        changed = ChangedRows(job.tables, base, base.basis, base.source_version, base.target_version, self._check)
        with suppress(*JAVA_ERRORS):  # a preparation only saves time
            changed.warm_up()

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
        latest = self._taken(job, job.committer.read_state().table_version, fence_version, base.receipt, whole=None)
        return replace(latest, earlier=base)

    def _reopened(self) -> OpenedJob:
        self._opened.close()
        self._lists = FileLists()  # lists of a closed source cannot be read
        self._job = self._opened.enter_context(self._context.reopened().open_job())
        return self._job

    def _taken(
        self,
        job: OpenedJob,
        target_version: int,
        position: Position,
        base: TableReceipt | None,
        *,
        whole: OpenedJob | None,
    ) -> Compared:
        """Compare changes if the base allows it; else everything, in `whole`, or in tables that are opened again."""
        basis = basis_of(job.tables, position, target_version)
        chosen = coverage(base, basis, source_version=position, target_version=target_version)
        if isinstance(chosen, OnlyChanges):
            assert basis is not None, "a base without the same basis is not used"
            changed = ChangedRows(job.tables, chosen.base, basis, position, target_version, self._check, self._lists)
            with job.tables.jobs_explained():
                result = changed.receipt(epoch=0 if job.state is None else job.state.epoch)
            if isinstance(result, ChangesReceipt):
                return Compared(result.receipt, chosen, result)
            chosen = result
        # The columns may have changed since the tables were opened.
        return self._whole(whole or self._reopened(), target_version, position, chosen)

    def _whole(
        self, job: OpenedJob, target_version: int, position: Position, chosen: Everything, *, by_rows: bool = False
    ) -> Compared:
        compared = compare(
            job.tables, position, target_version=target_version, covered=job.strategy().status.covered, check=self._check,
            by_rows=by_rows,
        )  # fmt: skip
        with job.tables.jobs_explained():
            return Compared(compared.receipt(epoch=0 if job.state is None else job.state.epoch), chosen)
