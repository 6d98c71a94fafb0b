"""InPlace: fills columns of a live table file by file, while other writers use it."""

from backfill_api.spec.strategies.in_place import InPlaceParams
from backfill_core.protocol.strategy import StrategyPlugin
from backfill_core.strategies.in_place.stored import decode, open_request, summarize
from backfill_core.strategies.in_place.strategy import resume

STRATEGY = StrategyPlugin("InPlace", InPlaceParams, decode, open_request, resume, summarize)
