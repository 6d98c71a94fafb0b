"""What is doubtful about a topic before it is read: may records go meanwhile, do more come than are read?"""

from __future__ import annotations

import time

from backfill_core.pacing.outlook import warn_of_ending, warn_of_speed
from backfill_core.protocol.strategy import JobWarning
from backfill_spark.opening.source import SubscribedSource
from backfill_spark.ports.source import SupportsMoments

LATELY_S = 60
"""So long a look back tells how fast a source grows."""


def outlook(
    source: SubscribedSource, *, needed_s: float, read_per_s: float, kept_s: int | None
) -> tuple[JobWarning, ...]:
    """Ask the source how old its rows are, and return what to say of a job that begins now.

    Args:
        source: Opened.
        needed_s: How long the job may take.
        read_per_s: Rows that are read in a second; 0: not known.
        kept_s: How long the source keeps a row; None: not known, or for ever.
    """
    moments, found, now_s = source.source, source.found, time.time()
    if not isinstance(moments, SupportsMoments):
        return ()

    def at(seconds: float) -> dict[str, int]:
        return dict(moments.offsets_at(int((now_s + seconds) * 1000)))

    fast = warn_of_speed(at(-LATELY_S), found.newest, seconds=LATELY_S, read_per_s=read_per_s)
    if kept_s is None:
        return fast
    going = at(min(needed_s - kept_s, 0))
    return (*warn_of_ending(found.first, found.newest, going, needed_s=needed_s, kept_s=kept_s), *fast)
