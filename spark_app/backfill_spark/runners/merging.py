"""A MERGE as a part of work: made once, and found again where its answer was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.errors import StateMovedError
from backfill_spark.crash_points import crash_point
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.sink import SupportsMerge
from backfill_spark.ports.work import WorkContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def merge(net: DataFrame, context: WorkContext, txn_version: int) -> None:
    """Bring net changes, which are computed and checked, into the target under a transaction version."""
    job = context.job
    sink = ability(job.sink, SupportsMerge)
    context.begin_effect()
    crash_point("before_merge")
    sink.merge(net, app_id=job.committer.app_id, txn_version=txn_version)
    crash_point("after_merge")


def is_merged(context: WorkContext, txn_version: int, what: str) -> bool:
    """Is a MERGE in the target whose answer was lost?

    Doing it again under another number would be right too, but the state must not say less than the target holds.

    Raises:
        StateMovedError: the target does not say.
    """
    try:
        return context.job.committer.read_state().txn_version == txn_version
    except Exception as error:
        # The reason does not matter: what happened is unknown.
        raise StateMovedError(
            f"{what} may be in the target, which cannot be read now: {error}",
            hint="Start the job again: it looks first.",
        ) from error
