"""Source backfill: reads the history and the new records of each partition of a topic, each offset once."""

from backfill_api.spec.spec import BackfillSpec
from backfill_api.spec.strategies.source_splits import SourceSplitsParams
from backfill_core.protocol.strategy import Opened, Strategy, StrategyPlugin
from backfill_core.strategies.source_splits.params import SourceSplitsSettings
from backfill_core.strategies.source_splits.stored import SourceSplitsStored, decode, open_request, summarize
from backfill_core.strategies.source_splits.strategy import SourceSplitsStrategy
from backfill_core.strategies.source_splits.upsert import UpsertSplits


def _resume(spec: BackfillSpec, stored: SourceSplitsStored | None, opened: Opened) -> Strategy:
    """Create the state machine of an attempt."""
    settings = SourceSplitsSettings.of(spec)
    if spec.write_mode == "Upsert":
        return UpsertSplits(
            opened.subscribed, settings, stored, last_txn=opened.last_txn, committed_ms=opened.committed_ms
        )
    return SourceSplitsStrategy(opened.subscribed, settings, stored)


STRATEGY = StrategyPlugin("SourceSplits", SourceSplitsParams, decode, open_request, _resume, summarize)
