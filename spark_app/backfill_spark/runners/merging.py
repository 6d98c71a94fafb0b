"""MERGE as a part of work: runs once, and is detected again if its result was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_core.errors import StateMovedError
from backfill_spark.crash_points import crash_point
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.sink import SupportsMerge
from backfill_spark.work.context import WorkContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_core.positions.change_parts import KeyPart


def merge(net: DataFrame, context: WorkContext, txn_version: int, part: KeyPart | None = None) -> None:
    """Merge net changes, which are computed and checked, into the target under a transaction version; all keys are in `part`."""
    tables = context.tables
    sink = ability(tables.sink, SupportsMerge)
    context.begin_effect()
    crash_point("before_merge")
    sink.merge(net, app_id=tables.committer.app_id, txn_version=txn_version, part=part)
    crash_point("after_merge")


def is_merged(context: WorkContext, txn_version: int, what: str) -> bool:
    """Return True if the target contains a MERGE whose result was lost.

    A second MERGE under another version would be correct too, but the state must record everything that the target holds.

    Raises:
        StateMovedError: the target's log cannot be read.
    """
    try:
        return context.tables.committer.read_state().txn_version == txn_version
    except Exception as error:
        # For any reason, the outcome of the MERGE is unknown.
        raise StateMovedError(
            f"{what} may be in the target, which cannot be read now: {error}",
            hint="Start the job again: it checks the target first.",
        ) from error
