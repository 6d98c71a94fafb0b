"""Facts from a table's metadata about its files, for copies without decoding."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from backfill_core.file_copies.facts import ColumnFacts, TableFacts, UnsupportedColumn
from backfill_core.log_shipping.columns import WIDENING
from backfill_spark.delta.log import LoggedTable
from backfill_spark.delta.properties import (
    CHANGE_FEED,
    COLUMN_ID,
    MAPPING_MODE,
    PHYSICAL_NAME,
    TYPE_CHANGES,
    VECTORS,
    VECTORS_ON,
    is_on,
    value,
)
from backfill_spark.delta.schemas import schema_of
from backfill_spark.delta.types import every_type, nullable

LAST_ID = "delta.columnMapping.maxColumnId"
UNSUPPORTED = {
    "__CHAR_VARCHAR_TYPE_STRING": UnsupportedColumn.LENGTH,
    "EXISTS_DEFAULT": UnsupportedColumn.FILLED,
}
"""Features of columns that restrict copies, by their key in a column's metadata."""


def table_facts(
    schema: StructType,
    *,
    partitions: Sequence[str],
    properties: Mapping[str, str],
    features: frozenset[str],
    key: Sequence[str] = (),
) -> TableFacts:
    """Return the facts of a table; `key` columns must not be null, even if the table allows nulls."""
    mode = value(properties, MAPPING_MODE)
    mapped = mode in {"name", "id"}
    ids = sum(COLUMN_ID in field.metadata for _, field in every_field(schema))
    return TableFacts(
        columns=tuple(_column(field, mapped=mapped, key=key, widens=WIDENING in features) for field in schema),
        partitions=tuple(partitions),
        features=features,
        mapped_by_id=mode == "id",
        drops=mapped and int(value(properties, LAST_ID) or 0) > ids,
        # A change feed must contain exactly the added rows, and a file with a vector adds fewer rows than it has.
        vectors=VECTORS in features and is_on(properties, VECTORS_ON) and not is_on(properties, CHANGE_FEED),
    )


def facts_of(table: LoggedTable) -> TableFacts:
    """Return the facts of a version of a table."""
    schema = schema_of(table.schema)
    return table_facts(schema, partitions=table.partitions, properties=table.properties, features=table.features)


def _column(field: StructField, *, mapped: bool, key: Sequence[str], widens: bool) -> ColumnFacts:
    data_type = field.dataType
    within = StructType([field])
    changes = _type_changes(within)
    odd = [
        oddity for name, oddity in UNSUPPORTED.items() if any(name in part.metadata for _, part in every_field(within))
    ]
    if is_collated(data_type):
        odd.append(UnsupportedColumn.COLLATION)
    silent = (
        [UnsupportedColumn.TYPE_CHANGED] if changes and not widens else []
    )  # the protocol does not make readers check it
    variants = [part for _, part in every_field(within) if _holds_variant(part.dataType)]
    return ColumnFacts(
        name=field.name,
        physical=str(field.metadata.get(PHYSICAL_NAME, field.name)) if mapped else field.name,
        type=(physical_type(data_type) if mapped else nullable(data_type)).json(),
        takes_null=field.nullable and field.name not in key,
        oddity=UnsupportedColumn.VARIANT if variants else next(iter([*odd, *silent]), None),
        is_instant=isinstance(data_type, TimestampType),
        widened=changes if widens else "",
    )


def _type_changes(within: StructType) -> str:
    """Return the type changes of a column as JSON; empty if there are none."""
    fields = [(path.partition(".")[2], part.metadata.get(TYPE_CHANGES)) for path, part in every_field(within)]
    changed = [(path, changes) for path, changes in fields if changes]
    return json.dumps(changed, sort_keys=True) if changed else ""


def _holds_variant(data_type: DataType) -> bool:
    match data_type:
        case ArrayType():
            return _holds_variant(data_type.elementType)
        case MapType():
            return _holds_variant(data_type.keyType) or _holds_variant(data_type.valueType)
    return isinstance(data_type, VariantType)


def is_collated(data_type: DataType) -> bool:
    """Return True if a type contains strings that are not compared byte by byte. Spark moves the collation from a column's metadata to its type."""
    strings = (part for part in every_type(data_type) if isinstance(part, StringType))
    return not all(part.isUTF8BinaryCollation() for part in strings)


def every_field(data_type: DataType, inside: str = "") -> Iterator[tuple[str, StructField]]:
    """Yield every field of a type with its path (`order.lines.element.price`), outer ones first."""
    match data_type:
        case StructType():
            for field in data_type:
                yield f"{inside}{field.name}", field
                yield from every_field(field.dataType, f"{inside}{field.name}.")
        case ArrayType():
            yield from every_field(data_type.elementType, f"{inside}element.")
        case MapType():
            yield from every_field(data_type.keyType, f"{inside}key.")
            yield from every_field(data_type.valueType, f"{inside}value.")


def physical_type(data_type: DataType) -> DataType:
    """Return a type with the physical names of its nested fields."""
    if isinstance(data_type, StructType):
        result = StructType()
        for field in data_type:
            name = field.metadata.get(PHYSICAL_NAME, field.name)
            result.add(name, physical_type(field.dataType), True)
        return result
    if isinstance(data_type, ArrayType):
        return ArrayType(physical_type(data_type.elementType), True)
    if isinstance(data_type, MapType):
        return MapType(physical_type(data_type.keyType), physical_type(data_type.valueType), True)
    return data_type
