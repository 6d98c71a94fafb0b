"""Ends a job: its state leaves the target, or the target is removed with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from backfill_api.spec import spec as api
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.driver.release import Dropped, Released

T = TypeVar("T")


def _unheard(_: str) -> None: ...


class EndOfLife:
    """End of one job."""

    _backfill: api.BackfillResource
    _settings: DriverSettings

    def _with(self, spark: SparkSession | None, do: Callable[..., T]) -> T:
        """Call `do` with a session."""
        raise NotImplementedError

    def release(
        self, spark: SparkSession | None = None, *, force: bool = False, on_step: Callable[[str], None] = _unheard
    ) -> Released:
        """Remove the state of a finished job from its target, so that any writer may use the table.

        Args:
            spark: The caller's session; `None` for an embedded one.
            force: Also of a job that is not finished; it can never resume.
            on_step: Called before each step.

        Raises:
            AlreadyRunningError: a driver of the job runs on this machine.
            NotFinishedError: the job is not finished.
            StateMismatchError: the target holds no state of this job.
        """
        from backfill_spark.driver.release import release

        return self._ended(spark, release, force=force, on_step=on_step)

    def plan_drop(
        self, spark: SparkSession | None = None, *, force: bool = False, on_step: Callable[[str], None] = _unheard
    ) -> Dropped:
        """Return what `drop` would remove; changes nothing, and raises the same errors."""
        from backfill_spark.driver.release import plan_drop

        return self._ended(spark, plan_drop, force=force, on_step=on_step)

    def drop(
        self, spark: SparkSession | None = None, *, force: bool = False, on_step: Callable[[str], None] = _unheard
    ) -> Dropped:
        """Remove the target of a job: only if the job created the table and no other writer changed it.

        Args:
            spark: The caller's session; `None` for an embedded one.
            force: Also of a job that is not finished.
            on_step: Called before each step.

        Raises:
            NotDroppableError: the target may have rows of other writers, or be in use; nothing was removed.
            AlreadyRunningError, NotFinishedError, StateMismatchError: as for `release`.
        """
        from backfill_spark.driver.release import drop

        return self._ended(spark, drop, force=force, on_step=on_step)

    def _ended(
        self, spark: SparkSession | None, do: Callable[..., T], *, force: bool, on_step: Callable[[str], None]
    ) -> T:
        return self._with(spark, partial(do, self._backfill, settings=self._settings, force=force, starting=on_step))
