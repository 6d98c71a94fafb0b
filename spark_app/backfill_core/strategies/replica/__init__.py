"""Replica: copies the files of one pinned version unchanged, then ships the source's log."""

from backfill_api.spec.strategies.replica import ReplicaParams
from backfill_core.phases.copied_state import open_request, summarize
from backfill_core.protocol.strategy import StrategyPlugin
from backfill_core.strategies.replica.stored import decode
from backfill_core.strategies.replica.strategy import resume

STRATEGY = StrategyPlugin("Replica", ReplicaParams, decode, open_request, resume, summarize)
