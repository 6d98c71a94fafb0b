"""Layout of a target that takes its source's files: columns, their names in files, partitions, features."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql.types import StructField, StructType

from backfill_core.errors import TargetSchemaMismatchError, UnsupportedTargetFeatureError
from backfill_core.log_shipping.columns import DEFAULTS, TYPE_CHANGES, WIDENING, kept_metadata, loose
from backfill_core.source_fence.table_protocol import PROPERTIES
from backfill_spark.delta.log import LoggedTable
from backfill_spark.delta.properties import (
    CHANGE_FEED,
    FEATURE,
    MAPPING_MODE,
    ROW_TRACKING,
    VECTORS,
    VECTORS_ON,
    is_on,
    value,
)
from backfill_spark.delta.schemas import schema_of
from backfill_spark.delta.types import nullable

OF_DELTA = "delta."
"""Prefix of the properties that engines act on; the owner of each table sets them."""

FILES_REFUSED = {
    CHANGE_FEED: "a change feed, and shipped file actions contain no row changes for it",
    ROW_TRACKING: "row tracking, and the files of the source have no row ids for it",
    "delta.appendOnly": "an append-only property, and the source removes files",
}


def carried_properties(source: LoggedTable) -> dict[str, str]:
    """Return the table properties that a target needs for the source's files, and the user's own properties."""
    kept = (name for name in source.properties if name not in PROPERTIES and not name.lower().startswith(OF_DELTA))
    properties = {name: source.properties[name] for name in kept}
    if VECTORS in source.features:
        properties[VECTORS_ON] = "true"
    if value(source.properties, MAPPING_MODE) == "name":
        properties[MAPPING_MODE] = "name"
    for feature in (WIDENING, DEFAULTS):
        if feature in source.features:
            properties[f"{FEATURE}{feature}"] = "supported"
    return properties


def carried_schema(schema: StructType, source: LoggedTable) -> str:
    """Return the columns of a target as JSON: source columns keep their physical names and ids, and any column may be null.

    Comments, defaults and type changes are those of `schema`: computed columns have none, even with the name of a source column.
    """
    mapped = value(source.properties, MAPPING_MODE) == "name"
    existing = schema_of(source.schema)
    # A computed column may have the name of a source column, but another type.
    alike = {field.name for field in schema if field.name in existing.names and _same_type(field, existing[field.name])}
    source_fields = json.loads(source.schema)["fields"] if mapped else ()
    by_name = {field["name"]: field for field in source_fields if field["name"] in alike}
    kept = (*kept_metadata(source.features), *((TYPE_CHANGES,) if WIDENING in source.features else ()))
    fields = []
    for field in json.loads(schema.json())["fields"]:
        same = by_name.get(field["name"])
        made = loose(field if same is None else same, mapped=same is not None, kept=kept)
        of_source = {name: value for name, value in made["metadata"].items() if name not in kept}
        of_target = {name: value for name, value in field["metadata"].items() if name in kept}
        fields.append({**made, "metadata": {**of_source, **of_target}})
    return json.dumps({"type": "struct", "fields": fields})


def _same_type(left: StructField, right: StructField) -> bool:
    return nullable(left.dataType) == nullable(right.dataType)


def check_followed(path: str, partitions: Sequence[str], properties: Mapping[str, str], source: LoggedTable) -> None:
    """Reject an existing target to which a source's added and removed files cannot be applied.

    Raises:
        UnsupportedTargetFeatureError: names the property.
        TargetSchemaMismatchError: the target has other partitions.
    """
    for name, problem in FILES_REFUSED.items():
        if is_on(properties, name):
            raise UnsupportedTargetFeatureError(
                f"{path} has {problem} ({name}).", hint="Unset it, or use a target that the job creates."
            )
    if tuple(partitions) != source.partitions:
        raise TargetSchemaMismatchError(
            f"{path} is partitioned by {list(partitions)}, and the source by {list(source.partitions)}.",
            hint="Use a target that the job creates: it has the partitions of the source.",
        )
