"""Switches readers and writers of a job's source over to its target, and back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from backfill.control import find
from backfill_api.spec import spec as api
from backfill_api.wire import Command
from backfill_core.command_errors import NotRunningError
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.switch_over.copy_back import CopiedBack as CopiedBack  # noqa: PLC0414
    from backfill_spark.switch_over.plan import SwitchPlan as SwitchPlan  # noqa: PLC0414
    from backfill_spark.switch_over.results import SwitchResult as SwitchResult  # noqa: PLC0414

T = TypeVar("T")

MAX_LAG_S = 30.0
SWITCH_TIMEOUT_S = 300.0
STOP_WAIT_S = 60.0


def _unheard(_: str) -> None: ...


class Switching:
    """Switch-over of one job."""

    _backfill: api.BackfillResource
    _settings: DriverSettings

    def _with(self, spark: SparkSession | None, do: Callable[..., T]) -> T:
        """Call `do` with a session."""
        raise NotImplementedError

    def plan_switch(
        self,
        spark: SparkSession | None = None,
        *,
        max_lag_s: float = MAX_LAG_S,
        on_step: Callable[[str], None] = _unheard,
    ) -> SwitchPlan:
        """Return the steps of a switch-over and its obstacles; changes nothing.

        Args:
            spark: The caller's session; `None` for an embedded one.
            max_lag_s: Largest lag of the target with which a switch-over begins, in seconds.
            on_step: Called before each step.

        Raises:
            InvalidSpecError: no switch-over is possible with this spec.
            BackfillError: a table or the name cannot be read.
        """
        from backfill_spark.switch_over.plan import SwitchOptions, plan_switch

        do = partial(plan_switch, self._backfill, settings=self._settings, options=SwitchOptions(max_lag_s=max_lag_s))
        return self._with(spark, partial(do, starting=on_step))

    def switch(
        self,
        spark: SparkSession | None = None,
        *,
        max_lag_s: float = MAX_LAG_S,
        timeout_s: float = SWITCH_TIMEOUT_S,
        by_rows: bool = False,
        on_step: Callable[[str], None] = _unheard,
    ) -> SwitchResult:
        """Make the source read-only, bring the target to its last version, compare both, and flip the name to the target.

        A driver of the job that runs on this machine is used, and ends; without one, this call starts one. A killed call is
        repeated: it continues.

        Args:
            spark: The caller's session; `None` for an embedded one.
            max_lag_s: Largest lag of the target with which it begins, in seconds.
            timeout_s: Longest time from the fence until the flip begins; afterwards the source accepts writes again.
            by_rows: Compare rows also of copied files, which are compared by their bytes by default.
            on_step: Called before each step.

        Raises:
            SwitchBlockedError: it cannot begin; names each obstacle.
            VerificationFailedError: source and target differ; the source accepts writes again.
            FlipFailedError: the name cannot be changed.
            BackfillError: a table cannot be read or written.
        """
        return self._switched("SWITCH", spark, on_step, max_lag_s=max_lag_s, timeout_s=timeout_s, by_rows=by_rows)

    def follow_back(
        self,
        spark: SparkSession | None = None,
        *,
        on_copied: Callable[[CopiedBack], None] = lambda _: None,
        on_step: Callable[[str], None] = _unheard,
    ) -> str:
        """Keep the old source up to date with the target, after a switch-over with `keepSource: Following`.

        It returns once another command undoes or completes the switch-over; an interrupt ends it. A later call continues.

        Args:
            spark: The caller's session; `None` for an embedded one.
            on_copied: Called with the state of the old source: at the beginning, and after each change.
            on_step: Called before each step.

        Returns:
            The reason of the end.

        Raises:
            InvalidSpecError: the spec does not ask for it.
            SwitchBlockedError: there is no finished switch-over.
            ReverseEndedError: the old source cannot follow the target any more.
            BackfillError: a table cannot be read or written.
        """
        from backfill_spark.switch_over.follow_back import follow_back

        do = partial(follow_back, self._backfill, settings=self._settings, copied=on_copied, starting=on_step)
        return str(self._with(spark, do).value)

    def undo_switch(
        self, spark: SparkSession | None = None, *, on_step: Callable[[str], None] = _unheard
    ) -> SwitchResult:
        """Flip the name back to the source, and let writers change it again; the job can follow it as before.

        With `keepSource: Following` the source first gets all later changes of the target.

        Raises:
            SwitchBlockedError: others wrote to the target since the switch-over, or there is none.
            ReverseEndedError: the source cannot get the changes of the target.
            VerificationFailedError: the source differs after it got them; the target stays in use.
            BackfillError: a table or the name cannot be changed.
        """
        return self._switched("UNDO", spark, on_step)

    def complete_switch(
        self, spark: SparkSession | None = None, *, on_step: Callable[[str], None] = _unheard
    ) -> SwitchResult:
        """End a switch-over: the source accepts writes again, and there is no undo.

        Raises:
            SwitchBlockedError: there is no finished switch-over.
            BackfillError: the source cannot be changed.
        """
        return self._switched("COMPLETE", spark, on_step)

    def _switched(
        self, goal: str, spark: SparkSession | None, on_step: Callable[[str], None], **options: Any
    ) -> SwitchResult:
        from backfill_core.switch_over.steps import Goal
        from backfill_spark.switch_over.command import switch_over
        from backfill_spark.switch_over.plan import SwitchOptions

        do = partial(
            switch_over, self._backfill, settings=self._settings, goal=Goal[goal], options=SwitchOptions(**options),
            stop_other=self._stop_driver, starting=on_step,
        )  # fmt: skip
        return self._with(spark, do)

    def _stop_driver(self) -> None:
        """Stop the driver of another process on this machine; it may just have ended."""
        with suppress(NotRunningError):
            find(self._settings.state_dir, self._backfill.job_id).command(Command(type="Stop"), STOP_WAIT_S)
