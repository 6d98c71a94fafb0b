"""Columns of any table: how SQL spells a name, which one was probably meant, what a type allows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from backfill_api.explain import nearest

LISTED_MAX = 20


def quoted(name: str) -> str:
    """Return a column's name as SQL spells it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def instead(name: str, names: Sequence[str]) -> str:
    """Return the cure for a column that is not there."""
    near = nearest(name, names)
    return f"Did you mean {near!r}?" if near else f"There are {', '.join(names[:LISTED_MAX])}."


def nullable(data_type: DataType) -> DataType:
    """Return a type in which every part may be null: what cannot be null in one query may be in the next."""
    match data_type:
        case StructType():
            result = StructType()
            for field in data_type:
                result.add(field.name, nullable(field.dataType), nullable=True)
            return result
        case ArrayType():
            return ArrayType(nullable(data_type.elementType), containsNull=True)
        case MapType():
            return MapType(nullable(data_type.keyType), nullable(data_type.valueType), valueContainsNull=True)
    return data_type
