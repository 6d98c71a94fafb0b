"""Source backfill: the history of each partition of a topic and its new records side by side, each offset once."""

from backfill_api.spec.strategies.source_splits import SourceSplitsParams
from backfill_core.protocol.strategy import StrategyPlugin
from backfill_core.strategies.source_splits.stored import decode, open_request, summarize
from backfill_core.strategies.source_splits.strategy import resume

STRATEGY = StrategyPlugin("SourceSplits", SourceSplitsParams, decode, open_request, resume, summarize)
