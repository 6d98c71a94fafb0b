"""Columns of any table: how SQL spells a name, which one was probably meant, what a type allows, whether they are a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from backfill_api.explain import nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LISTED_MAX = 20
_ROWS = "__backfill_rows"


def quoted(name: str) -> str:
    """Return a column's name as SQL spells it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def unused(name: str, names: Sequence[str]) -> str:
    """Return a name for a column of ours that none of these has, in any case of letters."""
    there = {one.lower() for one in names}
    while name in there:
        name += "_"
    return name


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


def doubled_key(rows: DataFrame, key: Sequence[str]) -> tuple[dict[str, object], int] | None:
    """Return a key that more than one row has, and how many have it; None when each key stands in one row.

    Runs a job that reads the key's columns once and shuffles them.
    """
    counted = rows.groupBy(*(F.col(quoted(name)) for name in key)).agg(F.count(F.lit(1)).alias(_ROWS))
    found = counted.where(F.col(_ROWS) > 1).limit(1).collect()
    return ({name: found[0][name] for name in key}, int(found[0][_ROWS])) if found else None
