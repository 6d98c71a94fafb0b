"""Ranges of offsets that work reads: are they still of the same source?"""

from __future__ import annotations

from backfill_core.errors import MADE_AGAIN_HINT, SourceReplacedError
from backfill_core.positions.offsets import Subscribed
from backfill_spark.ports.work import WorkContext


def check_same_source(context: WorkContext) -> None:
    """Refuse what was read if the source was made again: another one has other records at these offsets.

    Raises:
        SourceReplacedError: it was, before the read or during it.
    """
    source, opened = context.job.source, context.job.opened.found
    if isinstance(opened, Subscribed) and source.head().source_id != opened.source_id:
        raise SourceReplacedError(
            f"{source.path} is another one than when the attempt began.",
            hint=MADE_AGAIN_HINT,
        )
