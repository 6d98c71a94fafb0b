"""The copy back after a switch-over, until another command ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from backfill_api.spec.spec import BackfillResource
from backfill_core.copy_back.following import Stop, finished
from backfill_core.errors import InvalidSpecError
from backfill_core.switch_over.mark import Mark, mark_of
from backfill_core.switch_over.obstacles import check_mark, check_spec
from backfill_spark.jvm.java_process import JavaWatch
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings
from backfill_spark.switch_over.command import go_forward
from backfill_spark.switch_over.copy_back import CopiedBack, CopyBack, follow
from backfill_spark.switch_over.plan import opened
from backfill_spark.switch_over.tables import check_source, described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def follow_back(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    copied: Callable[[CopiedBack], None],
    begins: Callable[[Mark | None], Mark | Stop] = finished,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
    starting: Callable[[str], None] = lambda _: None,
    watched: Callable[[JavaWatch], None] = lambda _: None,
) -> Stop:
    """Keep the old source up to date with the target until another command undoes or completes the switch-over.

    Args:
        backfill: The job.
        settings: Settings of this process.
        copied: Called with the state of the source: at the beginning, and after each change.
        begins: Called with the mark in the source; returns the one to begin from, or why there is nothing to copy.
        spark: A session to use; by default, a session is opened and closed again.
        stop: A requested stop ends the copy back.
        starting: Called before each step.
        watched: Called once with the watch of the session's Java.

    Raises:
        InvalidSpecError: the spec does not ask for it.
        SwitchBlockedError: of `begins`; by default, there is no finished switch-over.
        ReverseEndedError: the source cannot follow the target any more.
        StoppedEarly: a stop was requested.
        BackfillError: a table cannot be read or written.
    """
    if backfill.spec.switch.keep_source != "Following":
        raise InvalidSpecError(
            f"spec.switch.keepSource: {backfill.spec.switch.keep_source} leaves the source at its last version.",
            hint="Set keepSource: Following.",
        )
    check_spec(backfill.spec)
    check_source(backfill)
    stop = stop or StopSignal()
    with opened(backfill, settings, spark, stop, starting) as tables:
        stored = mark_of(tables.source.head())
        check_mark(stored, target=tables.context.sink.path, flip=described(backfill.spec.switch.flip))
        mark = begins(stored)
        if isinstance(mark, Stop):
            return mark
        if mark.stage == "Flipping":
            mark = go_forward(tables, mark, settings, stop, starting)
        starting("copying back")
        back = CopyBack(tables, mark, stop.check, copied=copied)
        java = JavaWatch(tables.context.spark, lambda: back.steps.mark, ours=spark is None)
        watched(java)
        with java.running():
            return follow(back, tables)
