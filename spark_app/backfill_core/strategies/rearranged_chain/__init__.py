"""The rearranged chain: copies one pinned version, then applies changes, while barriers overtake the data. A baseline; not resumable before it has caught up."""

from backfill_api.spec.strategies.rearranged_chain import RearrangedChainParams
from backfill_core.protocol.strategy import StrategyPlugin
from backfill_core.strategies.rearranged_chain.stored import decode, open_request, summarize
from backfill_core.strategies.rearranged_chain.strategy import resume

STRATEGY = StrategyPlugin("RearrangedChain", RearrangedChainParams, decode, open_request, resume, summarize)
