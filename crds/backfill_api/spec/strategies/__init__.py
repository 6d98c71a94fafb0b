"""Strategies; all give the same result. Each module is a plug-in with its parameters and its `VARIANT`, and is found by discovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_api import plugins
from backfill_api.spec.params import StrategyParams, Variant
from backfill_api.spec.union import TaggedUnion, tagged_union


class _Strategy(TaggedUnion):
    """Strategy of the backfill; all give the same result."""

    if TYPE_CHECKING:

        @property
        def params(self) -> StrategyParams: ...


Strategy = _Strategy
if not TYPE_CHECKING:
    Strategy = tagged_union(
        _Strategy,
        plugins.discover(__name__, __path__, group="backfill.api.strategies", attribute="VARIANT", kind=Variant),
    )
