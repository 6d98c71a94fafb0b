"""Parameters of the strategy that fills columns of a live table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import Field, StrictInt, model_validator

from backfill_api.model import cel, refused
from backfill_api.spec.bounds import Until, Version
from backfill_api.spec.params import WRITE_MODES, SourceAbility, StrategyParams, TargetAbility, Variant

ONE_START = "give at most one of writersSince and writersSinceTime"


class InPlaceParams(StrategyParams):
    """Fills columns of a Delta table file by file, while other writers use the table. Source and target are the same table."""

    model_config = cel(("!has(self.writersSince) || !has(self.writersSinceTime)", ONE_START))
    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset({"writers_since", "writers_since_time", "max_writer_conflicts"})
    FIXED_WIDTH: ClassVar[Mapping[str, str]] = dict.fromkeys(
        WRITE_MODES, "fills one batch of files after the other, each with all cores"
    )
    ENDS_FOR_GOOD: ClassVar[str] = (
        "a job that fills columns ends once no file is left to fill; a new job finds later rows"
    )

    writers_since: Version | None = None
    """Version from which on writers fill the columns of the rows that they append. The job leaves such files out. Default: every file
    is checked. A change takes effect with the next attempt."""

    writers_since_time: Until | None = None
    """The same as a time: the first version that was committed at this time or later."""

    max_writer_conflicts: Annotated[StrictInt, Field(ge=1, le=100)] = 2
    """Most transactions of other writers that may fail because of commits of the job, in percent. Commits wait for as many rewrites of
    files by writers as this needs, at most two minutes each. A change takes effect with the next attempt."""

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        if self.writers_since is not None and self.writers_since_time is not None:
            raise refused(
                "writersSinceTime",
                "writersSince is given too",
                hint="remove one of them",
                value=self.writers_since_time,
            )
        return self


VARIANT = Variant(
    "InPlace",
    InPlaceParams,
    needs=frozenset({SourceAbility.PIN, SourceAbility.LOG, TargetAbility.IN_PLACE}),
)
