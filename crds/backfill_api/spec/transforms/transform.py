"""The transform of a spec."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from backfill_api.model import Model, cel, refused
from backfill_api.spec.bounds import Sql

COLUMNS_MAX = 32
NO_COLUMNS = "is the condition of transform.set, and the spec has none"


class TransformSpec(Model):
    """Row-wise, deterministic transform; default: all rows and columns unchanged."""

    model_config = cel(
        ("self == oldSelf", "transform is immutable: make a new Backfill"),
        ("!has(self.setWhere) || (has(self.set) && self.set.size() > 0)", f"transform.setWhere {NO_COLUMNS}"),
    )

    select: Annotated[tuple[Sql, ...], Field(max_length=512)] = ()
    """SQL expressions, one a column; empty: all columns."""

    where: Sql | None = None
    """SQL condition; a row that fails it is not in the target."""

    set: Annotated[dict[str, Sql], Field(max_length=COLUMNS_MAX)] = Field(default={})
    """Columns that strategy InPlace fills, each with its SQL expression. A column that the table lacks is added."""

    set_where: Sql | None = None
    """SQL condition of the rows that are filled; default: those in which the column is null."""

    @model_validator(mode="after")
    def _conditions_columns(self) -> Self:
        if self.set_where is not None and not self.set:
            raise refused("setWhere", NO_COLUMNS, hint="remove it, or add transform.set", value=self.set_where)
        for name in self.set:
            if not name.strip() or len(name) > 255:
                raise refused("set", "has a name that is no column", hint="name a column of the table", value=name[:80])
        return self
