"""The receipt: per vnode, counts and hash sums of both sides; equal sums mean the same multiset of rows.

A row's hash is 64 bits over all columns; each vnode keeps the sums of both 32-bit halves, so that neither
overflows and an error in one cell moves two sums. Only partial sums are shuffled, never rows.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from backfill_core.messages import Receipt, VnodeMismatch
from backfill_spark.changes import EPOCH, OP, REMOVALS, VERSION

if TYPE_CHECKING:
    from pyspark.sql import Row

LOW_HALF = 0xFFFFFFFF
NULL_HASH = 42
"""What Spark's xxhash64 says of a null: its seed."""


def take_receipt(
    source: DataFrame,
    target: DataFrame,
    *,
    key: tuple[str, ...],
    vnodes: int,
    source_version: int,
    target_version: int,
    epoch: int,
    changelog: bool = False,
) -> Receipt:
    """Compare the transformed source with the target, column by column of the target.

    Args:
        source: The view: transformed rows of the source at `source_version`.
        target: The target's rows at `target_version`; its columns and types decide.
        key: Distribution key; empty: all columns.
        vnodes: Number of hash partitions of the key space.
        source_version: Named in the receipt.
        target_version: Named in the receipt.
        epoch: The epoch that was open.
        changelog: The target holds changes: its removals count negative, so the sums are those of the table
            that a reader of all changes arrives at.
    """
    began_s = time.monotonic()
    sign = F.when(F.col(OP).isin(*REMOVALS), -1).otherwise(1) if changelog else None
    there = {name.lower() for name in source.columns}
    ours = (OP, EPOCH, VERSION) if changelog else ()
    fields = [field for field in target.schema if field.name.lower() in there and field.name not in ours]
    names = [field.name for field in fields]
    view = source.select(*(F.col(f"`{one.name}`").cast(one.dataType).alias(one.name) for one in fields))
    left, right = (_sums(side, names, key, vnodes, its).collect() for side, its in ((view, None), (target, sign)))
    ours, theirs = ({row["vnode"]: row for row in side if any(_values(row))} for side in (left, right))
    wrong = tuple(
        VnodeMismatch(vnode, _count(ours.get(vnode)), _count(theirs.get(vnode)))
        for vnode in sorted(ours.keys() | theirs.keys())
        if _values(ours.get(vnode)) != _values(theirs.get(vnode))
    )
    digest = hashlib.sha256()
    for vnode in sorted(ours):
        digest.update(f"{vnode}:{_values(ours[vnode])}\n".encode())
    return Receipt(
        source_version=source_version,
        target_version=target_version,
        epoch=epoch,
        rows=sum(_count(row) for row in ours.values()),
        vnodes=vnodes,
        digest=digest.hexdigest(),
        mismatches=wrong,
        seconds=round(time.monotonic() - began_s, 3),
    )


def differing_rows(
    source: DataFrame, target: DataFrame, *, key: tuple[str, ...], vnodes: int, wrong: tuple[int, ...], limit: int = 5
) -> list[tuple[str, dict[str, Any]]]:
    """Return examples of rows that only one side has, within the vnodes that differ; reads both sides again."""
    view = source.select(*(F.col(f"`{one.name}`").cast(one.dataType).alias(one.name) for one in target.schema))
    sides = [side.where(_vnode(side, key, vnodes).isin(*wrong)) for side in (view, target)]
    plain = [
        side.select(*(_comparable(F.col(f"`{f.name}`"), f.dataType).alias(f.name) for f in side.schema))
        for side in sides
    ]
    missing = plain[0].exceptAll(plain[1]).limit(limit).collect()
    surplus = plain[1].exceptAll(plain[0]).limit(limit).collect()
    return [("only in the source", row.asDict()) for row in missing] + [
        ("only in the target", row.asDict()) for row in surplus
    ]


def _sums(rows: DataFrame, names: list[str], key: tuple[str, ...], vnodes: int, sign: Column | None) -> DataFrame:
    row_hash = _hash([(F.col(f"`{name}`"), rows.schema[name].dataType) for name in names])
    vnode = _vnode(rows, key or tuple(names), vnodes).alias("vnode")
    low = F.col("hash").bitwiseAND(F.lit(LOW_HALF).cast("long"))
    high = F.shiftrightunsigned("hash", 32)
    if sign is None:
        hashed, count = rows.select(vnode, row_hash.alias("hash")), F.count(F.lit(1))
    else:
        hashed, count = rows.select(vnode, row_hash.alias("hash"), sign.alias("sign")), F.sum("sign")
        low, high = low * F.col("sign"), high * F.col("sign")
    return hashed.groupBy("vnode").agg(count.alias("rows"), F.sum(low).alias("low"), F.sum(high).alias("high"))


def _vnode(rows: DataFrame, key: tuple[str, ...], vnodes: int) -> Column:
    fields = [field for field in rows.schema if not key or field.name in key]
    return F.pmod(_hash([(F.col(f"`{field.name}`"), field.dataType) for field in fields]), F.lit(vnodes)).cast("int")


def _hash(columns: list[tuple[Column, DataType]]) -> Column:
    """Hash columns so that moving a null changes the result: Spark's own hash skips nulls."""
    values = [_comparable(column, data_type) for column, data_type in columns]
    mask = F.concat(*(F.when(column.isNull(), "0").otherwise("1") for column, _ in columns))
    nulls = F.when(_any_null([column for column, _ in columns]), mask)
    return F.xxhash64(*values, nulls)


def _any_null(columns: list[Column]) -> Column:
    found = columns[0].isNull()
    for column in columns[1:]:
        found = found | column.isNull()
    return found


def _comparable(column: Column, data_type: DataType) -> Column:
    """Return flat values as they are, nested ones as a hash that sees every null and no order in maps."""
    nested = isinstance(data_type, StructType | ArrayType | MapType | VariantType)
    return F.when(column.isNotNull(), _deep(column, data_type)) if nested else column


def _deep(value: Column, data_type: DataType) -> Column:
    """Return 64 bits of a value of any type, never null."""
    if isinstance(data_type, StructType):
        parts = [_deep(value.getField(field.name), field.dataType) for field in data_type]
        return F.when(value.isNull(), F.lit(NULL_HASH).cast("long")).otherwise(F.xxhash64(*parts))
    if isinstance(data_type, ArrayType):
        return F.xxhash64(F.size(value), F.transform(value, lambda item: _deep(item, data_type.elementType)))
    if isinstance(data_type, MapType):
        entries = F.transform(F.map_entries(value), lambda entry: _deep_entry(entry, data_type))
        return F.xxhash64(F.size(value), F.sort_array(entries))
    if isinstance(data_type, VariantType):
        return F.xxhash64(F.to_json(value), F.schema_of_variant(value))
    return F.xxhash64(value)


def _deep_entry(entry: Column, data_type: MapType) -> Column:
    return F.xxhash64(
        _deep(entry.getField("key"), data_type.keyType), _deep(entry.getField("value"), data_type.valueType)
    )


def _count(row: Row | None) -> int:
    return 0 if row is None else int(row["rows"])


def _values(row: Row | None) -> tuple[int, int, int]:
    return (0, 0, 0) if row is None else (row["rows"], row["low"], row["high"])
