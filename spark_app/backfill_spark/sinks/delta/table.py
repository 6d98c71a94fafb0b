"""Schema, partitions, properties and features of a target's newest version, read without a Spark job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import StructField, StructType, TimestampNTZType, VariantType

from backfill_api.spec.bounds import MESSAGE_MAX
from backfill_api.status.plan import PlannedTarget
from backfill_core.file_copies.facts import TableFacts
from backfill_core.log_shipping.columns import WIDENING, Columns
from backfill_core.log_shipping.schema_changes import Target
from backfill_spark.delta.log import table_now
from backfill_spark.delta.properties import MAPPING_MODE, PHYSICAL_NAME, value
from backfill_spark.delta.schemas import schema_of
from backfill_spark.delta.table_facts import LAST_ID, every_field, table_facts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


COLUMNS_CHARACTERS = 1000
"""Largest number of characters for the columns of a plan, which must fit into a pod's termination message."""

OF_READERS = frozenset({
    "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "variantType",
    "variantType-preview", "vacuumProtocolCheck",
})  # fmt: skip
"""Table features that readers must support; all others concern writers only."""

OF_TYPES = {TimestampNTZType: "timestampNtz", VariantType: "variantType"}
"""Features that a table gets with a column of this type."""


@dataclass(frozen=True, slots=True)
class TargetTable:
    """The newest version of a target."""

    path: str
    schema: StructType
    partitions: tuple[str, ...]
    properties: Mapping[str, str]
    features: frozenset[str]

    @property
    def mapped(self) -> bool:
        """True if the column names in files differ from those of the table."""
        return value(self.properties, MAPPING_MODE) == "name"

    def physical(self, field: StructField) -> str:
        """Return the name of a column in files."""
        return str(field.metadata[PHYSICAL_NAME]) if self.mapped else field.name

    def with_columns(self, schema: str) -> TargetTable:
        """Return the table with other columns; `schema` is JSON in the format of the log."""
        return replace(self, schema=schema_of(schema))

    def facts(self, key: tuple[str, ...], *, ships: bool) -> TableFacts:
        """Return its facts; `key` columns must not be null; `ships` is True if a job ships its source's log here."""
        # MERGE skips files by statistics, and another engine may have written those of files with narrower types.
        features = self.features if ships else self.features - {WIDENING}
        facts = table_facts(
            self.schema, partitions=self.partitions, properties=self.properties, features=features, key=key
        )
        return replace(facts, keeps_empty_texts=ships)

    def described(self, cluster_by: tuple[str, ...]) -> PlannedTarget:
        """Return the layout for a plan; `cluster_by` are the clustering columns of a table to create."""
        shown, length = [], 0
        for field in self.schema:
            shown.append(f"{field.name} {field.dataType.simpleString()}")
            length += len(shown[-1])
            if length > COLUMNS_CHARACTERS:
                break
        more = len(self.schema.fields) - len(shown)
        columns = ", ".join(shown)[: MESSAGE_MAX - 40] + (f" and {more} more" if more else "")
        types = {type(field.dataType) for _, field in every_field(self.schema)}
        features = self.features | {name for kind, name in OF_TYPES.items() if kind in types}
        features |= {"columnMapping"} if self.mapped else set()
        readers = tuple(sorted(features & OF_READERS))
        return PlannedTarget(
            columns=columns, partition_by=self.partitions, cluster_by=cluster_by, reader_features=readers
        )

    def columns(self) -> Target:
        """Return the facts for a change of the columns."""
        fields = tuple(json.loads(self.schema.json())["fields"])
        return Target(Columns(fields, self.mapped), int(value(self.properties, LAST_ID) or 0), self.features)


def read_table(spark: SparkSession, path: str) -> TargetTable | None:
    """Read the newest version of a table; `None` if the table does not exist."""
    logged = table_now(spark, path)
    if logged is None:
        return None
    schema = schema_of(logged.schema)
    return TargetTable(path, schema, logged.partitions, logged.properties, logged.features)
