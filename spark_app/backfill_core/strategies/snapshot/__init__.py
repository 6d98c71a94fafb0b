"""Snapshot backfill: one pinned version, then its change log, then live."""

from backfill_api.spec.strategies.snapshot import SnapshotParams
from backfill_core.phases.copied_state import open_request, summarize
from backfill_core.protocol.strategy import StrategyPlugin
from backfill_core.strategies.snapshot.stored import decode
from backfill_core.strategies.snapshot.strategy import resume

STRATEGY = StrategyPlugin("Snapshot", SnapshotParams, decode, open_request, resume, summarize)
