"""What does one kind of work. A strategy asks for work, a runner does it; it is found by discovery, never listed (ADR 0026).

The driver calls a runner on a thread of its own, in the work's scheduler pool and job group. What a runner raises is explained,
retried or ends the attempt as any failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backfill_api import plugins
from backfill_core.protocol.work import Result, Work
from backfill_spark.ports.work import WorkContext
from backfill_spark.runners import kinds


@dataclass(frozen=True, slots=True)
class WorkRunner:
    """Does one kind of work."""

    name: str
    """Name of the class of the work; two distributions cannot bring the same."""

    work: type[Work]

    run: Callable[[Any, WorkContext], Result]
    """Do it and return its result. May block; ends soon after a cancellation, which cancels its Spark jobs."""

    took_effect: Callable[[Any, WorkContext], Result | None] | None = None
    """Say, after a failure, whether the target has its effect already; None for work that only stages or reads.

    Raises StateMovedError when that cannot be told: the next attempt can.
    """

    reads: Callable[[Any], str] | None = None
    """Name the part of the source that the work reads: where Java ends meanwhile, nothing else names it."""


def discover() -> Mapping[type[Work], WorkRunner]:
    """Return what does each kind of work that there is."""
    found = plugins.discover(kinds.__name__, kinds.__path__, group="backfill.work", attribute="RUNNER", kind=WorkRunner)
    return {one.work: one for one in found.values()}
