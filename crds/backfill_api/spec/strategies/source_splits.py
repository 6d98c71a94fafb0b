"""Parameters of the strategy for sources with offsets."""

from __future__ import annotations

from backfill_api.spec.params import SourceAbility, SplitParams, Variant


class SourceSplitsParams(SplitParams):
    """The history of each partition of a topic, and its new records side by side."""


VARIANT = Variant("SourceSplits", SourceSplitsParams, needs=frozenset({SourceAbility.OFFSETS}))
