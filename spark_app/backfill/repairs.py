"""Repairs the target of a job: replaces the rows and files that differ from the source."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from backfill_api.spec import spec as api
from backfill_spark.repair.result import Repaired
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


def _unheard(_: str) -> None: ...


class Repairs:
    """Repair of one job's target."""

    _backfill: api.BackfillResource
    _settings: DriverSettings

    def _with(self, spark: SparkSession | None, do: Callable[..., T]) -> T:
        """Call `do` with a session."""
        raise NotImplementedError

    def repair(
        self, spark: SparkSession | None = None, *, dry_run: bool = False, on_step: Callable[[str], None] = _unheard
    ) -> Repaired:
        """Make the target equal to the source at the position that the job has consumed, and verify the result.

        Both sides are compared first; equal sides stay unchanged. A result whose `receipt` is not `equal` is no error.

        Args:
            spark: The caller's session; `None` for an embedded one.
            dry_run: Only count the rows and files that a repair would change.
            on_step: Called before each step.

        Raises:
            AlreadyRunningError: a driver of the job runs on this machine.
            NotRepairableError: the job has no receipt, or its target cannot be repaired.
            NotFinishedError: the copy is not complete.
            SnapshotExpiredError: the source no longer has the version.
        """
        from backfill_spark.repair.repair import repair_target

        return self._with(
            spark, partial(repair_target, self._backfill, settings=self._settings, dry_run=dry_run, starting=on_step)
        )
