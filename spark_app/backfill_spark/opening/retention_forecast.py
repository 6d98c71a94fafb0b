"""Forecast for a topic before it is read: records that may expire during the job, and producers that are faster than the job."""

from __future__ import annotations

import time

from backfill_core.pacing.retention_forecast import warn_of_ending, warn_of_speed
from backfill_core.protocol.strategy import JobWarning
from backfill_spark.opening.source import SubscribedSource
from backfill_spark.ports.source import SupportsMoments

LATELY_S = 60
"""Seconds over which the growth of a source is measured."""


def outlook(
    source: SubscribedSource, *, needed_s: float, read_per_s: float, kept_s: int | None
) -> tuple[JobWarning, ...]:
    """Read the age of the source's rows, and return the warnings for a job that begins now.

    Args:
        source: The open source.
        needed_s: Seconds that the job may take.
        read_per_s: Rows that are read in a second; 0 if unknown.
        kept_s: Seconds that the source keeps a row; `None` if unknown or unlimited.
    """
    topic, offsets, now_s = source.source, source.answer, time.time()
    if not isinstance(topic, SupportsMoments):
        return ()

    def at(seconds: float) -> dict[str, int]:
        return dict(topic.offsets_at(int((now_s + seconds) * 1000)))

    fast = warn_of_speed(at(-LATELY_S), offsets.newest, seconds=LATELY_S, read_per_s=read_per_s)
    if kept_s is None:
        return fast
    going = at(min(needed_s - kept_s, 0))
    return (*warn_of_ending(offsets.first, offsets.newest, going, needed_s=needed_s, kept_s=kept_s), *fast)
