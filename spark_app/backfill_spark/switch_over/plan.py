"""Dry run of a switch-over, and the options of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backfill_api.spec.spec import BackfillResource
from backfill_core.switch_over.obstacles import Findings, check_spec, obstacles
from backfill_spark.crash_points import arm
from backfill_spark.driver.job_context import JobContext
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings
from backfill_spark.switch_over.tables import SwitchTables, check_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SwitchOptions:
    """Limits of a switch-over."""

    max_lag_s: float = 30.0
    timeout_s: float = 300.0
    by_rows: bool = False
    """True to compare rows also of copied files."""


@dataclass(frozen=True)
class SwitchPlan:
    """Steps that a switch-over would take; nothing was changed."""

    source: str
    target: str
    findings: Findings
    obstacles: tuple[str, ...]
    flip: tuple[str, ...]


def plan_switch(
    backfill: BackfillResource,
    *,
    settings: DriverSettings,
    options: SwitchOptions,
    spark: SparkSession | None = None,
    stop: StopSignal | None = None,
    starting: Callable[[str], None] = lambda _: None,
) -> SwitchPlan:
    """Return the steps of a switch-over and its obstacles.

    Raises:
        InvalidSpecError: no switch-over is possible with this spec.
        SourceFencedError, UnsupportedSourceFeatureError: the source cannot be fenced.
        BackfillError: a table or the name cannot be read.
    """
    check_spec(backfill.spec)
    check_source(backfill)
    with opened(backfill, settings, spark, stop, starting) as tables:
        findings = tables.findings()
        return SwitchPlan(
            findings.source.path,
            tables.context.sink.path,
            findings,
            obstacles(findings, max_lag_s=options.max_lag_s),
            tuple(tables.flip.describe(findings.source.path, tables.context.sink.path)),
        )


@contextmanager
def opened(
    backfill: BackfillResource,
    settings: DriverSettings,
    spark: SparkSession | None,
    stop: StopSignal | None,
    starting: Callable[[str], None],
) -> Iterator[SwitchTables]:
    """Open both tables and the name of a job; the session ends with the block."""
    with JobContext.open(backfill, settings, command="switch", spark=spark, stop=stop, starting=starting) as context:
        if settings.crash_at:
            arm(settings.crash_at)
        tables = SwitchTables.of(context)
        with tables.explained():
            yield tables
