"""Records of a source with offsets as a target with one row a key: the last record of each key decides.

record                          what its key has then
-----------------------------   ----------------------------------------------------------------
passes the filter               its row
has no value (a tombstone)      no row; the filter is not asked, unless it says FALSE of it
does not pass the filter        no row: the filter is asked about the row that the last record makes
cannot be parsed, has no key    what it had: it is a bad record

So the result is the same whether the source removed records that newer ones of their key have replaced, or not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_core.errors import InvalidTransformError
from backfill_spark.rows.changes import ADD, DELETE
from backfill_spark.rows.columns import quoted
from backfill_spark.rows.records.parsing import REASON, ParsingTransform
from backfill_spark.rows.transform import OURS, Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION = f"{OURS}partition"
_ROW, _LAST, _AT, _KEY, _SPREAD = (f"{OURS}{name}" for name in ("row", "last", "at", "key", "spread"))
SPREAD_HINT = "Send the records of a key to one partition, add the partition to the key, or use writeMode: Append."
_ALIAS_HINT = "Give each expression in full: none may use the name that another one is given."


@dataclass(frozen=True)
class FoldingTransform(ParsingTransform):
    """A transform of records, and what the last one of each key makes of a target."""

    unreadable: Column = field(kw_only=True)
    """Why a parser cannot read a record; null: all can."""

    row: Column = field(kw_only=True)
    """The columns of the target as one value."""

    names: tuple[str, ...] = field(kw_only=True)
    """What they are called there, in the order of `row`."""

    keys: tuple[Column, ...] = field(kw_only=True)
    """The columns of the key, which nothing else of `row` is computed for."""

    key: tuple[str, ...] = field(kw_only=True)

    def judged(self, records: DataFrame) -> DataFrame:
        """Return all records with column `REASON`; lazy."""
        return records.withColumn(REASON, self.reason)

    def apply(self, rows: DataFrame, *kept: str) -> DataFrame:
        """Return the rows of the target, each with the columns of ours that are `kept`; lazy. Shuffles once, by key."""
        folded = self.folded(rows)
        return folded.where(~F.col(DELETE)).select(*map(quoted, (*self.names, *kept)))

    def folded(self, records: DataFrame) -> DataFrame:
        """Return what the last record of each key says.

        Shape:
            in:  columns of the source
            out: one row a key: columns of the target, `__backfill_delete` (then only the key is not null), `__backfill_partition`
                 of its last record, and `__backfill_add`: 2 where records of the key are in several partitions, else 1

        Lazy. Shuffles once, by key.
        """
        keys = [f"{_KEY}{at}" for at in range(len(self.keys))]
        readable = records.where(self.unreadable.isNull())
        row = F.when(_passes(self) & F.col("value").isNotNull(), self.row)
        labelled = readable.select(
            row.alias(_ROW),
            *(one.alias(name) for one, name in zip(self.keys, keys, strict=True)),
            F.col("partition").cast("string").alias(PARTITION),
            F.col("offset").alias(_AT),
        ).where(reduce(Column.__and__, (F.col(name).isNotNull() for name in keys), F.lit(True)))
        last = labelled.groupBy(*keys).agg(
            F.max_by(F.struct(_ROW, PARTITION), F.col(_AT)).alias(_LAST),
            (F.min(PARTITION) != F.max(PARTITION)).alias(_SPREAD),
        )
        of_key = dict(zip((name.lower() for name in self.key), keys, strict=False))
        there = last.select("*", F.col(f"{_LAST}.{_ROW}").alias(_ROW), F.col(f"{_LAST}.{PARTITION}").alias(PARTITION))
        fields = there.schema[_ROW].dataType.names  # type: ignore[attr-defined]
        return there.select(
            *(
                F.col(of_key[name.lower()] if name.lower() in of_key else f"{_ROW}.{quoted(given)}").alias(name)
                for name, given in zip(self.names, fields, strict=True)
            ),
            F.col(_ROW).isNull().alias(DELETE),
            F.col(PARTITION),
            F.when(F.col(_SPREAD), 2).otherwise(1).alias(ADD),
        )


def folding(transform: Transform, empty: DataFrame, key: tuple[str, ...]) -> FoldingTransform:
    """Return a transform that keeps the last record of each key.

    Args:
        transform: It is checked already, and knows the records that it cannot parse.
        empty: A frame with the columns of the source.
        key: Columns of what it yields.

    Raises:
        InvalidTransformError: an expression uses what another one yields.
    """
    parser = transform if isinstance(transform, ParsingTransform) else None
    unreadable = F.lit(None).cast("string") if parser is None else parser.reason
    filters_first = parser is None or parser.filters_first
    names = tuple(transform.project(empty).columns)
    row = F.struct(*map(F.expr, transform.select or map(quoted, empty.columns)))
    try:
        fields = empty.select(row.alias(_ROW)).schema[_ROW].dataType.names  # type: ignore[attr-defined]
    except AnalysisException as error:
        words = "spec.transform.select: an expression uses what another one yields, and a target with one row a key needs each alone."
        raise InvalidTransformError(words, hint=_ALIAS_HINT) from error
    at = {name.lower(): row.getField(given) for name, given in zip(names, fields, strict=True)}
    keys = tuple(at[name.lower()] for name in key if name.lower() in at)
    return FoldingTransform(
        transform.select, transform.where, filters_first=filters_first, unreadable=unreadable, row=row, names=names, keys=keys, key=key,
        reason=_reason(transform, unreadable, dict(zip(key, keys, strict=False)), filters_first=filters_first),
    )  # fmt: skip


def _reason(transform: Transform, unreadable: Column, keys: dict[str, Column], *, filters_first: bool) -> Column:
    """Return why a record is bad: a parser cannot read it, or nothing tells which row it replaces or removes."""
    tombstone = F.col("value").isNull()
    wanted = _passes(transform)
    if transform.where is not None:
        wanted |= tombstone & F.coalesce(F.expr(transform.where), F.lit(True))
    nothing = F.lit(None).cast("string")
    cases = F.when(F.lit(filters_first) & ~wanted, nothing).when(unreadable.isNotNull(), unreadable)
    for name, value in keys.items():
        hint = f"the record has no value, and the key column {name} is null: it must come from the record's key."
        words = F.when(tombstone, F.lit(hint)).otherwise(F.lit(f"the key column {name} is null."))
        cases = cases.when(wanted & value.isNull(), words)
    return cases


def _passes(transform: Transform) -> Column:
    return F.lit(True) if transform.where is None else F.coalesce(F.expr(transform.where), F.lit(False))
