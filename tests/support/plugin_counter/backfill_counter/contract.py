"""Additions of the distribution to a spec: a strategy and a source named Counter, and a target named List."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictInt

from backfill_api.spec.bounds import Columns
from backfill_api.spec.params import OffsetSourceParams, SourceAbility, StrategyParams, TargetParams, Variant


class CounterParams(StrategyParams):
    """The numbers of all partitions, range by range."""

    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset({"range_max"})

    WRITES_NOT: ClassVar[Mapping[str, str]] = {
        "Upsert": "numbers have no order beyond their partition",
        "Changelog": "a number never changes",
    }

    range_max: Annotated[StrictInt, Field(ge=1, le=1000)] = 12
    """Offsets of one read."""


class CounterSource(OffsetSourceParams):
    """Partitions of numbers that grow."""

    key: Columns = ("number",)
    """Columns that identify a row."""

    partitions: Annotated[StrictInt, Field(ge=1, le=64)]
    """Number of partitions at the start, of ten numbers each."""

    path: str = ""
    """File with the count of numbers in each partition; it may grow."""

    @property
    def paths(self) -> Mapping[str, str]:
        """See `TableParams`."""
        return {"path": self.path} if self.path else {}


class ListTarget(TargetParams):
    """A list in a file, which cannot be merged into."""

    write_mode: Literal["Append"] = "Append"
    """`Append`: every row once."""

    existing_rows: Literal["Refuse"] = "Refuse"
    """A list that has rows and no state is rejected."""

    path: str = ""
    """The file."""

    @property
    def paths(self) -> Mapping[str, str]:
        """See `TableParams`."""
        return {"path": self.path} if self.path else {}


STRATEGY = Variant("Counter", CounterParams, needs=frozenset({SourceAbility.OFFSETS}))
SOURCE = Variant("Counter", CounterSource, abilities=frozenset({SourceAbility.OFFSETS}))
TARGET = Variant("List", ListTarget)
