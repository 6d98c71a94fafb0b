"""Parameters of the strategy for sources with offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from backfill_api.spec.params import SourceAbility, SplitParams, Variant


class SourceSplitsParams(SplitParams):
    """The history of each partition of a topic, and its new records side by side."""

    ENDS_FOR_GOOD: ClassVar[str] = ""

    WRITES_NOT: ClassVar[Mapping[str, str]] = {
        "Changelog": "records are no row changes, so there is no update or delete to tell"
    }

    APPLIES_WHILE_COPYING: ClassVar[bool] = True
    FIXED_WIDTH: ClassVar[Mapping[str, str]] = {
        "Upsert": "merges one batch of records after the other into an Upsert target"
    }


VARIANT = Variant("SourceSplits", SourceSplitsParams, needs=frozenset({SourceAbility.OFFSETS}))
