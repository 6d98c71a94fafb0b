"""Arrangement backfill: reads the newest rows in key order, and merges changes of the rows that it has read in between."""

from backfill_api.spec.strategies.arrangement import ArrangementParams
from backfill_core.protocol.strategy import StrategyPlugin
from backfill_core.strategies.arrangement.stored import decode, open_request, summarize
from backfill_core.strategies.arrangement.strategy import resume

STRATEGY = StrategyPlugin("Arrangement", ArrangementParams, decode, open_request, resume, summarize)
