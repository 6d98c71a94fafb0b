"""Runner of one kind of work. A strategy requests work, and a runner does it. Discovery finds runners (ADR 0010).

The driver calls each runner on a separate thread, in the work's scheduler pool and job group. Exceptions of a runner are
explained, retried, or end the attempt, like any failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backfill_api import plugins
from backfill_core.protocol.work import Result, Work
from backfill_spark.runners import kinds
from backfill_spark.work.context import WorkContext


@dataclass(frozen=True, slots=True)
class WorkRunner:
    """Does one kind of work."""

    name: str
    """Name of the work's class; two distributions cannot register the same name."""

    work: type[Work]

    run: Callable[[Any, WorkContext], Result]
    """Do the work and return its result. May block; ends soon after a cancellation, which cancels its Spark jobs."""

    took_effect: Callable[[Any, WorkContext], Result | None] | None = None
    """Return the result after a failure if the target already has the effect; `None` for work that only stages or reads.

    Raises StateMovedError if this cannot be determined; then the next attempt determines it.
    """


def discover() -> Mapping[type[Work], WorkRunner]:
    """Return all runners by the class of their work."""
    runners = plugins.discover(
        kinds.__name__, kinds.__path__, group="backfill.work", attribute="RUNNER", kind=WorkRunner
    )
    return {runner.work: runner for runner in runners.values()}
