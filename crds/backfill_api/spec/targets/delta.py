"""A Delta table as a target."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from backfill_api.model import cel, refused
from backfill_api.spec.bounds import Columns, Settings
from backfill_api.spec.params import TargetAbility, TargetParams, Variant
from backfill_api.spec.tables import PLACE_RULES, LocatedTable, check_no_repeats


class DeltaTarget(TargetParams, LocatedTable):
    """The Delta table that is filled; made when it is missing."""

    model_config = cel(
        *PLACE_RULES,
        (
            "!has(self.partitionBy) || !has(self.clusterBy) || self.partitionBy.size() == 0 || self.clusterBy.size() == 0",
            "give at most one of partitionBy and clusterBy",
        ),
    )

    partition_by: Columns = ()
    """Partition columns, when the table is made."""

    cluster_by: Columns = ()
    """Clustering columns, when the table is made; not together with `partitionBy`."""

    properties: Settings = Field(default={})
    """Table properties, when the table is made."""

    filtered_rows: Literal["Rewritten", "Hidden"] = "Rewritten"
    """Files of which `transform.where` keeps only some rows: `Rewritten` writes these rows into new files; `Hidden` copies the file, and
    deletion vectors hide the other rows. Hidden rows stay in the files until a purge (docs/cloning.md)."""

    data_change: bool = True
    """Only for strategies that fill columns: `false` marks their commits as rewrites without a change of data, like those of OPTIMIZE.
    Streams from the table and its change feed then lack the filled values."""

    @property
    def hides_rows(self) -> bool:
        """See `filteredRows`."""
        return self.filtered_rows == "Hidden"

    @model_validator(mode="after")
    def _checked(self) -> Self:
        check_no_repeats("key", self.key)
        check_no_repeats("partitionBy", self.partition_by)
        check_no_repeats("clusterBy", self.cluster_by)
        if self.partition_by and self.cluster_by:
            raise refused(
                "clusterBy", "a table has partitions or clusters, not both", hint="remove clusterBy or partitionBy",
                value=self.cluster_by,
            )  # fmt: skip
        return self


VARIANT = Variant(
    "Delta",
    DeltaTarget,
    default=True,
    abilities=frozenset(
        {
            TargetAbility.MERGE,
            TargetAbility.SEGMENTS,
            TargetAbility.SHIPPING,
            TargetAbility.IN_PLACE,
            TargetAbility.START_OVER,
        }
    ),
)
