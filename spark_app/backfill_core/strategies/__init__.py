"""One folder a strategy: params.py, strategy.py, README.md. Found by discovery, never listed.

A folder's `__init__` holds `STRATEGY`; strategies do not know each other, and only tests know one by name.
"""

from collections.abc import Mapping
from typing import Any

from backfill_api import plugins
from backfill_core.protocol.strategy import StrategyPlugin


def discover() -> Mapping[str, StrategyPlugin[Any]]:
    """Return every strategy there is, by `spec.strategy.type`."""
    return plugins.discover(__name__, __path__, group="backfill.strategies", attribute="STRATEGY", kind=StrategyPlugin)
