"""Columns of any table: SQL spelling of names, suggestions for unknown names, types, uniqueness of keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructType,
    VariantType,
)

from backfill_api.crd.explain import nearest
from backfill_core.errors import DuplicateKeyError
from backfill_spark.delta.types import quoted
from backfill_spark.jvm.gateway import java, java_session

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

LISTED_MAX = 20
_ROWS, _GROUP, _BIT = "__backfill_rows", "__backfill_group", "__backfill_bit"
WHOLE = (ByteType, ShortType, IntegerType, LongType)
BLOCK_BITS = 6
"""Integers that share a group: 2**6, one per bit of a bigint. Keys are mostly in order, so a task shuffles about 1/64 of its rows."""

DOUBTFUL_MAX = 100
NULL_HASH = 42
"""The hash of a null in Spark's xxhash64: its seed."""


def no_rows(session: SparkSession, schema: StructType) -> DataFrame:
    """Return an empty relation with a schema; pyspark's `createDataFrame` would change the active session of the process."""
    return local_rows(session, java(session).java.util.ArrayList(), schema)


def local_rows(session: SparkSession, rows: Any, schema: StructType) -> DataFrame:
    """Return a relation over a Java list of Java rows."""
    made: Any = java_session(session).createDataFrame(rows, java_session(session).parseDataType(schema.json()))
    return DataFrame(made, session)


def by_folder(rows: DataFrame, folders: Sequence[str]) -> DataFrame:
    """Sort rows so that a task writes one partition folder after the other; Spark's own sort fails for floats. Lazy.

    A task with too many folders sorts its rows by the partition values (`spark.sql.maxConcurrentOutputFileWriters`). 0.0 and
    -0.0 are equal values with different folders. So the task would return to a folder that it has left, and fail at its
    existing file. NaNs share one folder, but the task distinguishes folders by bits, so every NaN gets the same bits.

    Args:
        rows: The rows to write.
        folders: Partition columns, the outermost first.
    """
    fractions = [name for name in folders if isinstance(rows.schema[name].dataType, FloatType | DoubleType)]
    if not fractions:
        return rows
    one_nan = {name: F.nanvl(quoted(name), F.lit(float("nan")).cast(rows.schema[name].dataType)) for name in fractions}
    rows = rows.withColumns(one_nan)
    # Spark adds no second sort if the partition columns come first.
    names = (F.col(quoted(name)).cast("string") for name in fractions)
    return rows.sortWithinPartitions(*map(quoted, folders), *names)


def unused(name: str, names: Sequence[str]) -> str:
    """Return a name for an internal column that differs from all `names`, case-insensitively."""
    existing = {column.lower() for column in names}
    while name in existing:
        name += "_"
    return name


def instead(name: str, names: Sequence[str]) -> str:
    """Return the hint for a column that does not exist."""
    near = nearest(name, names)
    return f"Did you mean {near!r}?" if near else f"There are {', '.join(names[:LISTED_MAX])}."


def key_hash(key: Sequence[str]) -> Column:
    """Return the hash by which messages identify a key; key values are private data and must not appear in messages."""
    return F.xxhash64(*(F.col(quoted(name)) for name in key))


def said_key(key: Sequence[str], hashed: int) -> str:
    """Return the condition that finds the rows of a key in its table, without its values."""
    names = (name if re.fullmatch(r"[A-Za-z_]\w*", name) else quoted(name) for name in key)
    return f"xxhash64({', '.join(names)}) = {hashed}"


def doubled_key(rows: DataFrame, key: Sequence[str]) -> tuple[str, int] | None:
    """Return a key that several rows share (see `said_key`) and their number; `None` if every key is unique.

    Runs a job that reads the key's columns once. It shuffles one number per group of keys: 64 consecutive integers form a
    group, keys of other types are grouped by hash. A second job checks, key by key, only groups that cannot be unique.
    """
    group, bit = _groups_of(rows, key)
    counted = rows.select(group.alias(_GROUP), bit.alias(_BIT)).groupBy(_GROUP)
    marked = counted.agg(F.count(F.lit(1)).alias(_ROWS), F.bit_or(_BIT).alias(_BIT))
    crowded = F.col(_ROWS) > F.coalesce(F.bit_count(_BIT), F.lit(0))
    doubtful = [row[_GROUP] for row in marked.where(crowded).select(_GROUP).limit(DOUBTFUL_MAX).collect()]
    if not doubtful:
        return None
    # Two keys may share a hash by chance, but not `DOUBTFUL_MAX` pairs of keys.
    doubled = _doubled(rows.where(group.isin(*doubtful) | group.isNull()), key)
    return doubled if doubled or len(doubtful) < DOUBTFUL_MAX else _doubled(rows, key)


def _groups_of(rows: DataFrame, key: Sequence[str]) -> tuple[Column, Column]:
    """Return the group of a row's key, and the bit of the key within the group."""
    last = F.col(quoted(key[-1]))
    if not isinstance(rows.schema[key[-1]].dataType, WHOLE):
        return F.xxhash64(*(F.col(quoted(name)) for name in key)), F.lit(1).cast("bigint")
    number = last.cast("bigint")
    block = F.shiftright(number, BLOCK_BITS)
    bit = F.call_function("shiftleft", F.lit(1).cast("bigint"), number.bitwiseAND(F.lit(2**BLOCK_BITS - 1)).cast("int"))
    others = [F.col(quoted(name)) for name in key[:-1]]
    return (F.xxhash64(*others, block) if others else block), bit


def _doubled(rows: DataFrame, key: Sequence[str]) -> tuple[str, int] | None:
    counted = rows.groupBy(*(F.col(quoted(name)) for name in key)).agg(F.count(F.lit(1)).alias(_ROWS))
    doubled = counted.where(F.col(_ROWS) > 1).select(key_hash(key).alias("hash"), _ROWS)
    first = doubled.limit(1).collect()
    return (said_key(key, first[0]["hash"]), int(first[0][_ROWS])) if first else None


def deep_hash(value: Column, data_type: DataType) -> Column:
    """Return a 64-bit hash of a value of any type, never null."""
    if isinstance(data_type, StructType):
        parts = [deep_hash(value.getField(field.name), field.dataType) for field in data_type]
        return F.when(value.isNull(), F.lit(NULL_HASH).cast("long")).otherwise(F.xxhash64(*parts))
    if isinstance(data_type, ArrayType):
        return F.xxhash64(F.size(value), F.transform(value, lambda item: deep_hash(item, data_type.elementType)))
    if isinstance(data_type, MapType):
        entries = F.transform(F.map_entries(value), lambda entry: _deep_entry(entry, data_type))
        return F.xxhash64(F.size(value), F.sort_array(entries))
    if isinstance(data_type, VariantType):
        return F.xxhash64(F.to_json(value), F.schema_of_variant(value))
    return F.xxhash64(value)


def _deep_entry(entry: Column, data_type: MapType) -> Column:
    return F.xxhash64(
        deep_hash(entry.getField("key"), data_type.keyType), deep_hash(entry.getField("value"), data_type.valueType)
    )


def check_one_row_a_key(rows: DataFrame, key: tuple[str, ...], *, what: str) -> None:
    """Reject two rows with one key; reads and shuffles the key's columns once. `what` names the table in the message.

    A receipt cannot detect them: if the source has both rows too, both sides are the same multiset.

    Raises:
        DuplicateKeyError: names one such key, by its hash.
    """
    doubled = doubled_key(rows, key)
    if doubled:
        raise DuplicateKeyError(
            f"key ({', '.join(key)}) is not unique: {doubled[1]} rows of {what} have {doubled[0]}.",
            hint="An Upsert target holds one row per key: choose another key, or writeMode Changelog, and an empty target.",
        )
