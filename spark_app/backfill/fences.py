"""Fences the source of a job: no writer can change it until the fence is lifted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from backfill_api.spec import spec as api
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.driver.fence import FencedSource, UnfencedSource

T = TypeVar("T")

FENCE_WAIT_S = 60.0
SWITCH = "switch-over"


def _unheard(_: str) -> None: ...


class Fences:
    """Fence of one job's source."""

    _backfill: api.BackfillResource
    _settings: DriverSettings

    def _with(self, spark: SparkSession | None, do: Callable[..., T]) -> T:
        """Call `do` with a session."""
        raise NotImplementedError

    def fence(
        self,
        spark: SparkSession | None = None,
        *,
        reason: str = SWITCH,
        wait_s: float = FENCE_WAIT_S,
        on_step: Callable[[str], None] = _unheard,
    ) -> FencedSource:
        """Make the source read-only for all writers; return the fence with the version at which the source stands still.

        A second call returns the same fence. Readers are not affected.

        Args:
            spark: The caller's session; `None` for an embedded one.
            reason: Shown to operators who meet the fence, in the table property `backfill.fenced`.
            wait_s: Seconds for which concurrent commits of other writers are followed.
            on_step: Called before each step.

        Raises:
            SourceFencedError: another job holds the fence.
            UnsupportedSourceFeatureError: the table cannot be fenced; names the reason.
            InvalidSpecError: the source is not a table with a log.
            TransientError: other writers committed first until the time was over.
        """
        from backfill_spark.driver.fence import fence_source

        return self._fenced(spark, fence_source, reason=reason, timeout_s=wait_s, starting=on_step)

    def unfence(
        self,
        spark: SparkSession | None = None,
        *,
        force: bool = False,
        wait_s: float = FENCE_WAIT_S,
        on_step: Callable[[str], None] = _unheard,
    ) -> UnfencedSource:
        """Lift the fence of the source, so that writers can change it again; a source without a fence stays unchanged.

        Args:
            spark: The caller's session; `None` for an embedded one.
            force: Lift the fence of another job too.
            wait_s: Seconds for which concurrent commits of other writers are followed.
            on_step: Called before each step.

        Raises:
            SourceFencedError: another job holds the fence.
        """
        from backfill_spark.driver.fence import unfence_source

        return self._fenced(spark, unfence_source, force=force, timeout_s=wait_s, starting=on_step)

    def _fenced(self, spark: SparkSession | None, do: Callable[..., T], **arguments: Any) -> T:
        return self._with(spark, partial(do, self._backfill, settings=self._settings, **arguments))
