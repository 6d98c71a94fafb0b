"""The receipt: per vnode, counts and hash sums of both sides; equal sums mean the same multiset of rows.

A row's hash is 64 bits over all columns; each vnode keeps the sums of both 32-bit halves, so that neither
overflows and an error in one cell moves two sums. Only partial sums are shuffled, never rows.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, VariantType

from backfill_core.protocol.receipt import PartitionComparison, TableReceipt, VnodeMismatch, mismatch_condition
from backfill_spark.delta.types import nullable, quoted
from backfill_spark.receipts.partition_sums import IS_ROW, TALLIED, PartitionSums, Tallies, partition_receipts
from backfill_spark.records.folding import BAD, FIRST, LAST, PARTITION, RECORDS, SPREAD
from backfill_spark.rows.columns import deep_hash
from backfill_spark.rows.write_modes import APPEND, WriteMode

if TYPE_CHECKING:
    from pyspark.sql import Row

LOW_HALF = 0xFFFFFFFF
HASH_FORMAT = b"2\n"
"""Version of the row hash. Part of the digest, so that digests of other versions differ."""

SOURCE, TARGET = 0, 1
OF_PARTITIONS = 0b10
"""Value of `grouping_id` for rows grouped by the second of two columns only."""

SIGN = "__backfill_sign"
"""Column with 1 for added rows and -1 for removed ones."""

MASK_BITS = 60
"""Number of columns whose nulls fit into one bigint."""


def take_receipt(
    source: DataFrame,
    target: DataFrame,
    *,
    key: tuple[str, ...],
    vnodes: int,
    source_version: int | None,
    target_version: int,
    epoch: int,
    mode: WriteMode = APPEND,
    tallies: Tallies | None = None,
) -> TableReceipt:
    """Compare the transformed source with the target, over the columns of the target; reads both sides once.

    Args:
        source: The view: transformed rows of the source at `source_version`.
        target: The target's rows at `target_version`; its columns and types decide.
        key: Distribution key; if empty, all columns.
        vnodes: Number of hash partitions of the key space.
        source_version: Recorded in the receipt.
        target_version: Recorded in the receipt.
        epoch: The open epoch.
        mode: Write mode of the target; defines the columns that it adds and the count of each row.
        tallies: Counts of each row per partition; the source also contains records that yield no row.

    Raises:
        DuplicateKeyError: see `partition_receipts`.
    """
    began_s = time.monotonic()
    fields = compared_fields(source, target, mode)
    sums = _both(source, target, fields, key, vnodes, mode.sign(), tallies).collect()
    rows = [row for row in sums if any(_values(row)) and (tallies is None or row["of"] != OF_PARTITIONS)]
    of_source, of_target = ({row["vnode"]: row for row in rows if row["side"] == side} for side in (SOURCE, TARGET))
    wrong = _mismatches(of_source, of_target)
    return TableReceipt(
        source_version=source_version,
        target_version=target_version,
        epoch=epoch,
        rows=sum(_count(row) for row in of_source.values()),
        vnodes=vnodes,
        digest=_digest(of_source),
        mismatches=wrong,
        seconds=round(time.monotonic() - began_s, 3),
        partitions=() if tallies is None else _partitions(sums, tallies),
        condition=_condition(fields, key if mode.merges else (), vnodes, [mismatch.vnode for mismatch in wrong]),
    )


@dataclass(frozen=True)
class SignedSums:
    """Result of a comparison of added and removed rows."""

    rows: int
    """Added source rows minus removed ones."""

    digest: str
    mismatches: tuple[VnodeMismatch, ...]
    condition: str
    """As in `TableReceipt`."""


def signed_sums(
    source: DataFrame, target: DataFrame, *, key: tuple[str, ...], vnodes: int, mode: WriteMode
) -> SignedSums:
    """Compare the changes of both sides; each frame has the column `SIGN`. Equal sums mean equal changes."""
    fields = [field for field in compared_fields(source, target, mode) if field.name != SIGN]
    names = [field.name for field in fields]
    of_source = _sums(as_typed(source, fields, F.col(SIGN)), names, key, vnodes, F.col(SIGN), SOURCE)
    both = of_source.unionAll(_sums(target, names, key, vnodes, F.col(SIGN), TARGET)).collect()
    sums_of_source, sums_of_target = (
        {row["vnode"]: row for row in both if row["side"] == side and any(_values(row))} for side in (SOURCE, TARGET)
    )
    wrong = _mismatches(sums_of_source, sums_of_target)
    condition = _condition(fields, key if mode.merges else (), vnodes, [mismatch.vnode for mismatch in wrong])
    rows = sum(_count(row) for row in sums_of_source.values())
    return SignedSums(rows, _digest(sums_of_source), wrong, condition)


def _mismatches(source: Mapping[int, Row], target: Mapping[int, Row]) -> tuple[VnodeMismatch, ...]:
    return tuple(
        VnodeMismatch(vnode, _count(source.get(vnode)), _count(target.get(vnode)))
        for vnode in sorted(source.keys() | target.keys())
        if _values(source.get(vnode)) != _values(target.get(vnode))
    )


def _digest(source: Mapping[int, Row]) -> str:
    digest = hashlib.sha256(HASH_FORMAT)
    for vnode in sorted(source):
        digest.update(f"{vnode}:{_values(source[vnode])}\n".encode())
    return digest.hexdigest()


def _condition(fields: list[StructField], key: tuple[str, ...], vnodes: int, wrong: list[int]) -> str:
    """Return the SQL condition for rows of vnodes; empty if nulls or nested values are part of their hash."""
    flat = {field.name for field in fields if not _is_nested(field.dataType)}
    return mismatch_condition(key, vnodes, wrong) if key and set(key) <= flat else ""


def _both(
    source: DataFrame,
    target: DataFrame,
    fields: list[StructField],
    key: tuple[str, ...],
    vnodes: int,
    sign: Column | None,
    tallies: Tallies | None,
) -> DataFrame:
    """Return the sums of both sides.

    One query, so that neither side waits for the other's last task. Each side is summed before the union: Spark passes rows
    through a union one by one, and compiles scan, hash and sums into one loop only if no union is between them.
    """
    names = [field.name for field in fields]
    if tallies is None:
        of_source = _sums(as_typed(source, fields), names, key, vnodes, None, SOURCE)
        return of_source.unionAll(_sums(target, names, key, vnodes, sign, TARGET))
    of_source = _tallied_sums(as_typed(source, fields, *tallies.source.columns), names, key, vnodes, SOURCE)
    if tallies.target is None:
        return of_source.unionByName(_sums(target, names, key, vnodes, sign, TARGET), allowMissingColumns=True)
    tallied = target.select("*", *tallies.target.columns)
    return of_source.unionAll(_tallied_sums(tallied, names, key, vnodes, TARGET))


def _partitions(sums: list[Row], tallies: Tallies) -> tuple[PartitionComparison, ...]:
    of_source, of_target = (
        {
            row[PARTITION]: PartitionSums(*(row[name] for name in ("rows", RECORDS, BAD, SPREAD, FIRST, LAST)))
            for row in sums
            if row["of"] == OF_PARTITIONS and row["side"] == side
        }
        for side in (SOURCE, TARGET)
    )
    return partition_receipts(of_source, None if tallies.target is None else of_target, tallies.ranges)


def receipt_without_rows(vnodes: int, source_version: int | None, target_version: int, epoch: int) -> TableReceipt:
    """Return the receipt that `take_receipt` returns if both sides are empty; runs no Spark job."""
    digest = hashlib.sha256(HASH_FORMAT).hexdigest()
    return TableReceipt(source_version, target_version, epoch, 0, vnodes, digest, (), 0.0)


def differing_rows(
    source: DataFrame,
    target: DataFrame,
    *,
    key: tuple[str, ...],
    vnodes: int,
    wrong: tuple[int, ...],
    limit: int = 5,
    mode: WriteMode = APPEND,
) -> list[tuple[str, dict[str, Any]]]:
    """Return examples of rows that one side contains more often, within the vnodes that differ; reads both sides again.

    Args:
        source: The view, as in `take_receipt`.
        target: The target's rows.
        key: Distribution key; if empty, all columns.
        vnodes: Number of hash partitions of the key space.
        wrong: The vnodes that differ.
        limit: Largest number of examples per side.
        mode: As in `take_receipt`.
    """
    fields = compared_fields(source, target, mode)
    names = [field.name for field in fields]
    sign = mode.sign()
    sides = ((as_typed(source, fields), F.lit(1)), (target, F.lit(-1) if sign is None else -sign))
    frames = []
    for rows, sign in sides:
        columns = ((F.col(quoted(field.name)), field.dataType) for field in fields)
        plain = [comparable(column, data_type).alias(f"c{at}") for at, (column, data_type) in enumerate(columns)]
        whole = F.struct(*(F.col(quoted(name)) for name in names)).alias("row")
        frames.append(
            rows.where(vnode_of(rows, names, key, vnodes).isin(*wrong)).select(*plain, whole, sign.alias("sign"))
        )
    grouped = frames[0].unionAll(frames[1]).groupBy(*(f"c{at}" for at in range(len(fields))))
    counted = grouped.agg(F.sum("sign").alias("more"), F.any_value("row").alias("row"))
    examples = []
    for where, label in ((F.col("more") > 0, "only in the source"), (F.col("more") < 0, "only in the target")):
        examples += [(label, row["row"].asDict()) for row in counted.where(where).limit(limit).collect()]
    return examples


def compared_fields(source: DataFrame, target: DataFrame, mode: WriteMode) -> list[StructField]:
    """Return the target's columns that the source has too; the job leaves the other columns null."""
    existing = {name.lower() for name in source.columns}
    return [field for field in target.schema if field.name.lower() in existing and field.name not in mode.columns]


def as_typed(source: DataFrame, fields: list[StructField], *more: Column) -> DataFrame:
    """Return rows of the source with the columns and types of the target, and more columns. Lazy."""
    typed = (F.col(quoted(field.name)).cast(nullable(field.dataType)).alias(field.name) for field in fields)
    return source.select(*typed, *more)


def _sums(
    rows: DataFrame, names: list[str], key: tuple[str, ...], vnodes: int, sign: Column | None, side: int
) -> DataFrame:
    """Return side, vnode, rows, and the sums of both halves of the rows' hashes; without `sign`, each row counts 1."""
    row_hash = _hash_of(rows, names)
    counted = [] if sign is None else [sign.cast("long").alias("sign")]
    hashed = rows.select(vnode_of(rows, names, key, vnodes).alias("vnode"), row_hash.alias("hash"), *counted)
    low = F.col("hash").bitwiseAND(F.lit(LOW_HALF).cast("long"))
    high, count = F.shiftrightunsigned("hash", 32), F.count(F.lit(1))
    if sign is not None:
        low, high, count = low * F.col("sign"), high * F.col("sign"), F.sum("sign")
    sums = hashed.groupBy("vnode").agg(count.alias("rows"), F.sum(low).alias("low"), F.sum(high).alias("high"))
    return sums.select(F.lit(side).alias("side"), "vnode", "rows", "low", "high")


def _tallied_sums(rows: DataFrame, names: list[str], key: tuple[str, ...], vnodes: int, side: int) -> DataFrame:
    """Return the columns of `_sums`, and the counts per partition; `of` is the `grouping_id` that separates both."""
    is_row = F.col(IS_ROW)
    vnode, row_hash = F.when(is_row, vnode_of(rows, names, key, vnodes)), F.when(is_row, _hash_of(rows, names))
    hashed = rows.select(vnode.alias("vnode"), row_hash.alias("hash"), *TALLIED)
    # Spark duplicates each row after scan and hash: once for its vnode and once for its partition.
    return hashed.groupingSets([["vnode"], [PARTITION]], "vnode", PARTITION).agg(
        F.lit(side).alias("side"),
        F.grouping_id().alias("of"),
        F.count_if(IS_ROW).alias("rows"),
        F.sum(F.col("hash").bitwiseAND(F.lit(LOW_HALF).cast("long"))).alias("low"),
        F.sum(F.shiftrightunsigned("hash", 32)).alias("high"),
        *(F.sum(name).alias(name) for name in (RECORDS, BAD, SPREAD)),
        F.min(FIRST).alias(FIRST),
        F.max(LAST).alias(LAST),
    )


def vnode_of(rows: DataFrame, names: list[str], key: tuple[str, ...], vnodes: int) -> Column:
    """Return a row's vnode: by its key, or by all compared columns if the key is not among them."""
    parts = key if key and set(key) <= set(names) else names
    return F.pmod(_hash_of(rows, parts), F.lit(vnodes)).cast("int")


def _hash_of(rows: DataFrame, names: Sequence[str]) -> Column:
    return _hash([(F.col(quoted(name)), rows.schema[name].dataType) for name in names])


def _hash(columns: list[tuple[Column, DataType]]) -> Column:
    """Hash columns so that moving a null changes the result; Spark's `xxhash64` skips nulls."""
    values = [comparable(column, data_type) for column, data_type in columns]
    bare = [column for column, _ in columns]
    masks = [_mask(bare[at : at + MASK_BITS]) for at in range(0, len(bare), MASK_BITS)]
    # Without nulls the mask adds nothing, and the hash equals Spark's `xxhash64`.
    mask = masks[0] if len(masks) == 1 else F.when(_tree(masks) != 0, F.xxhash64(*masks))
    return F.xxhash64(*values, F.nullif(mask, F.lit(0).cast("long")))


def _mask(columns: list[Column]) -> Column:
    """Return a number with one bit per null column. A non-nullable column costs nothing: Spark folds its bit."""
    bits = [
        F.when(column.isNull(), F.lit(1 << at).cast("long")).otherwise(F.lit(0).cast("long"))
        for at, column in enumerate(columns)
    ]
    return _tree(bits)


def _tree(numbers: list[Column]) -> Column:
    """Return the bitwise OR of all numbers as a balanced tree; a chain of many columns causes a StackOverflowError."""
    while len(numbers) > 1:
        numbers = [reduce(Column.bitwiseOR, numbers[at : at + 2]) for at in range(0, len(numbers), 2)]
    return numbers[0]


def comparable(column: Column, data_type: DataType) -> Column:
    """Return flat values unchanged, and nested ones as a hash that includes every null and ignores map order."""
    return F.when(column.isNotNull(), deep_hash(column, data_type)) if _is_nested(data_type) else column


def _is_nested(data_type: DataType) -> bool:
    return isinstance(data_type, StructType | ArrayType | MapType | VariantType)


def _count(row: Row | None) -> int:
    return 0 if row is None else int(row["rows"])


def _values(row: Row | None) -> tuple[int, int, int]:
    return (0, 0, 0) if row is None else (row["rows"], row["low"], row["high"])
