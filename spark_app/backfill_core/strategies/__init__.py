"""Strategies, one folder each: params.py, strategy.py, README.md. They are discovered, never listed.

A folder's `__init__` defines `STRATEGY`. Strategies do not import each other, and only tests import one by name.
"""

from collections.abc import Mapping
from typing import Any

from backfill_api import plugins
from backfill_core.protocol.strategy import StrategyPlugin


def discover() -> Mapping[str, StrategyPlugin[Any]]:
    """Return all strategies by `spec.strategy.type`."""
    return plugins.discover(__name__, __path__, group="backfill.strategies", attribute="STRATEGY", kind=StrategyPlugin)
