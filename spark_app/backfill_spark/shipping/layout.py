"""How a target is laid out as its source, so that the source's files fit: columns, their names in files, partitions, features."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql.types import StructField, StructType

from backfill_core.errors import TargetSchemaMismatchError, UnsupportedTargetFeatureError
from backfill_core.log_shipping.columns import DEFAULTS, TYPE_CHANGES, WIDENING, kinds_of_words, loose
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
from backfill_spark.rows.columns import nullable

OF_DELTA = "delta."
"""Prefix of the properties that engines act on; the owner of each table sets them."""

FILES_REFUSED = {
    CHANGE_FEED: "a change feed, and what the source's log says of files tells no row changes",
    ROW_TRACKING: "row tracking, and the files of the source bring no ids of its rows",
    "delta.appendOnly": "append only, and files of the source go",
}


def carried_properties(source: LoggedTable) -> dict[str, str]:
    """Return the table properties that a target needs to take the source's files, and those of users."""
    found = {name: text for name, text in source.properties.items() if not name.lower().startswith(OF_DELTA)}
    if VECTORS in source.features:
        found[VECTORS_ON] = "true"
    if value(source.properties, MAPPING_MODE) == "name":
        found[MAPPING_MODE] = "name"
    for feature in (WIDENING, DEFAULTS):
        if feature in source.features:
            found[f"{FEATURE}{feature}"] = "supported"
    return found


def carried_schema(wanted: StructType, source: LoggedTable) -> str:
    """Return the columns of a target as JSON: a column of the source keeps its names and ids in files, and any may be null.

    Comments, defaults and type changes are those of what is `wanted`: a computed column has none, whatever its name.
    """
    mapped = value(source.properties, MAPPING_MODE) == "name"
    there = schema_of(source.schema)
    # A computed column may have the name of one of the source, and another type.
    alike = {one.name for one in wanted if one.name in there.names and _same_type(one, there[one.name])}
    fields_there = json.loads(source.schema)["fields"] if mapped else ()
    known = {field["name"]: field for field in fields_there if field["name"] in alike}
    kept = (*kinds_of_words(source.features), *((TYPE_CHANGES,) if WIDENING in source.features else ()))
    fields = []
    for field in json.loads(wanted.json())["fields"]:
        same = known.get(field["name"])
        made = loose(field if same is None else same, mapped=same is not None, kept=kept)
        named = {name: value for name, value in made["metadata"].items() if name not in kept}
        said = {name: value for name, value in field["metadata"].items() if name in kept}
        fields.append({**made, "metadata": {**named, **said}})
    return json.dumps({"type": "struct", "fields": fields})


def _same_type(one: StructField, other: StructField) -> bool:
    return nullable(one.dataType) == nullable(other.dataType)


def check_followed(path: str, partitions: Sequence[str], properties: Mapping[str, str], source: LoggedTable) -> None:
    """Refuse an existing target that cannot take a source's files and their going.

    Raises:
        UnsupportedTargetFeatureError: names the property.
        TargetSchemaMismatchError: it has other partitions.
    """
    for name, words in FILES_REFUSED.items():
        if is_on(properties, name):
            raise UnsupportedTargetFeatureError(
                f"{path} has {words} ({name}).", hint="Unset it, or use a target that the job makes."
            )
    if tuple(partitions) != source.partitions:
        raise TargetSchemaMismatchError(
            f"{path} is partitioned by {list(partitions)}, and the source by {list(source.partitions)}.",
            hint="Use a target that the job makes: it has the partitions of the source.",
        )
