"""What a strategy wants of a source when a job is opened, asked for in the source's own words."""

from __future__ import annotations

from backfill_api.spec.strategies import Strategy
from backfill_core.errors import InvalidSpecError, SnapshotExpiredError, SourceReplacedError
from backfill_core.protocol.strategy import FileOrder, OpenRequest, PinVersion
from backfill_spark.ports.source import PinnedTable, Source


def pin(source: Source, request: OpenRequest, asked: int | None) -> PinnedTable:
    """Pin the version that the strategy asks for; the spec's, or the newest, when it asks for none.

    Raises:
        SnapshotExpiredError: it is gone, and so is the one that would do.
        SourceReplacedError: another table is at the path.
        InvalidSpecError: the strategy wants to read the source in a way that it does not offer.
    """
    if not isinstance(request, PinVersion):
        raise InvalidSpecError(
            f"spec.strategy: {type(request).__name__} is not offered by the source.", hint="Use another strategy."
        )
    if request.version is None:
        return source.pin(asked)
    try:
        return source.pin(request.version)
    except SnapshotExpiredError:
        if request.or_else is None:
            raise
        pinned = source.pin(request.or_else)
    if pinned.table_id != request.table_id:
        raise SourceReplacedError(
            f"{source.path} is another table than when version {request.version} was pinned.",
            hint="It was dropped and made again: give the job another jobId and another target.",
        )
    return pinned


def file_order(source: Source, strategy: Strategy) -> FileOrder | None:
    """Return the order in which a strategy is asked to read the files of the pinned version.

    Raises:
        InvalidSpecError: names the field.
    """
    order = strategy.params.history_order
    if order is None:
        return None
    return source.file_order(order.column, order.direction, field=f"spec.strategy.{strategy.member}.order.column")
