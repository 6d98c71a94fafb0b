"""Parameters of the arrangement strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StrictInt, model_validator

from backfill_api.model import Model
from backfill_api.spec.bounds import Column, InFlight
from backfill_api.spec.params import ChangePartParams, SourceAbility, Variant
from backfill_api.spec.tables import check_no_repeats

CUT_ROWS = 50_000


class OrderBy(Model):
    """One column by which rows are read."""

    column: Column
    """Column of the source, not a nested one."""

    direction: Literal["Ascending", "Descending"] = "Ascending"
    """NULL is the largest value: the last one of `Ascending`, the first one of `Descending`."""


class ArrangementParams(ChangePartParams):
    """Reads the newest rows in the order of a key, and merges changes of rows that are already read."""

    ENDS_FOR_GOOD: ClassVar[str] = ""
    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset(
        {"chunk_rows", "max_read_amplification", "max_in_flight", "change_batch_seconds", "change_part_mebibytes"}
    )

    FIXED_WIDTH: ClassVar[Mapping[str, str]] = {}
    APPLIES_WHILE_COPYING: ClassVar[bool] = True

    order_by: Annotated[tuple[OrderBy, ...], Field(max_length=16)] = ()
    """Columns by which rows are read, the first one first; those of the key follow. Default: the key."""

    chunk_rows: Annotated[StrictInt, Field(ge=1, le=1_000_000_000)] | None = None
    """Rows that are read at once, at most; default: as many as take about four seconds. A change takes effect at the next barrier."""

    max_read_amplification: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = 4
    """Maximum of reads of a source file, on average; a source that needs more is refused before the start."""

    max_in_flight: InFlight = 2
    """Chunks that are read at the same time; a change takes effect at the next barrier."""

    change_batch_seconds: Annotated[StrictInt, Field(ge=1, le=3600)] = 10
    """Target duration of a batch of changes; a change takes effect with the next attempt."""

    @property
    def in_flight_max(self) -> int | None:
        """See `maxInFlight`."""
        return self.max_in_flight

    @property
    def read_order(self) -> tuple[tuple[str, bool], ...]:
        """See `orderBy`."""
        return tuple((item.column, item.direction == "Descending") for item in self.order_by)

    @property
    def rows_per_cut(self) -> int:
        """Chunks are made of whole steps from cut to cut."""
        return min(CUT_ROWS, self.chunk_rows or CUT_ROWS)

    @property
    def read_amplification_max(self) -> int | None:
        """See `maxReadAmplification`."""
        return self.max_read_amplification

    @model_validator(mode="after")
    def _checked(self) -> Self:
        check_no_repeats("orderBy", tuple(item.column for item in self.order_by))
        return self


VARIANT = Variant("Arrangement", ArrangementParams, needs=frozenset({SourceAbility.CHANGES, SourceAbility.KEY_RANGES}))
