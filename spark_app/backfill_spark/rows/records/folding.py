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
from backfill_spark.rows.records.parsing import REASON, ParsingTransform, is_bad, parsing
from backfill_spark.rows.transform import OURS, Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION = f"{OURS}partition"
SPREAD, RECORDS, BAD, FIRST, LAST = (f"{OURS}{name}" for name in ("spread", "records", "bad", "first", "last"))
_ROW, _NEWEST, _AT, _KEY, _KEYLESS = (f"{OURS}{name}" for name in ("row", "newest", "at", "key", "keyless"))
_UNREADABLE = f"{OURS}unreadable"
SPREAD_HINT = "Send the records of a key to one partition, add the partition to the key, or use writeMode: Append."
_ALIAS_HINT = "Give each expression in full: none may use the name that another one is given."


@dataclass(frozen=True)
class FoldingTransform(ParsingTransform):
    """A transform of records, and what the last one of each key makes of a target."""

    reason: Column = field(kw_only=True)
    """Why a record is bad, as a text; null: it is good. Of the columns of the parsers."""

    row: Column = field(kw_only=True)
    """The columns of the target as one value. Of the columns of the parsers."""

    fields: tuple[str, ...] = field(kw_only=True)
    """What they are called in `row`, in the order of `names`."""

    keys: tuple[Column, ...] = field(kw_only=True)
    """The columns of the key, which nothing else of `row` is computed for."""

    key: tuple[str, ...] = field(kw_only=True)

    def judged(self, records: DataFrame) -> DataFrame:
        """See `ParsingTransform`; of a record that is left out, too, its key is told: `REASON` is null. Lazy."""
        # A record without a value needs no more than its key.
        makes_row = F.col("value").isNotNull() & (self.passes if self.filters_first else F.lit(True))
        parsed = self._parsed(records, F.when(makes_row, self.unread))
        return parsed.withColumnRenamed(REASON, _UNREADABLE).withColumn(REASON, self.reason)

    def bad(self, judged: DataFrame) -> DataFrame:
        """See `ParsingTransform`."""
        return super().bad(judged).drop(_UNREADABLE)

    def apply(self, rows: DataFrame, *kept: str) -> DataFrame:
        """Return the rows of the target, each with the columns of ours that are `kept`; lazy. Shuffles once, by key."""
        folded = self.folded(self.judged(rows))
        return folded.where(~F.col(DELETE)).select(*map(quoted, (*self.names, *kept)))

    def folded(self, judged: DataFrame) -> DataFrame:
        """Return what the last record of each key says.

        Shape:
            in:  columns of the source, judged
            out: one row a key: columns of the target, `__backfill_delete` (then only the key is not null), `__backfill_partition`
                 of its last record, and `__backfill_add`: 2 where records of the key are in several partitions, else 1

        Lazy. Shuffles once, by key.
        """
        labelled = self._labelled(judged).where(F.col(_KEYLESS).isNull())
        spread = F.when(F.col(SPREAD), 2).otherwise(1).alias(ADD)
        return self._newest(labelled, F.col(_ROW).isNull().alias(DELETE), F.col(PARTITION), spread)

    def tallied(self, judged: DataFrame) -> DataFrame:
        """Return the same with what all records count for their partitions, so that a receipt reads them once.

        Shape:
            in:  columns of the source, judged
            out: one row a key, and one a partition for its records without a key: columns of the target, `__backfill_delete` (then
                 it is no row), `__backfill_partition`, `__backfill_spread`, and of the records: `__backfill_records` in all,
                 `__backfill_bad`, `__backfill_first` and `__backfill_last` offset

        Lazy. Shuffles once, by key.
        """
        counts = (
            F.count(F.lit(1)).alias(RECORDS),
            F.count_if(is_bad()).alias(BAD),
            F.min(_AT).alias(FIRST),
            F.max(_AT).alias(LAST),
        )
        is_none = (F.col(_KEYLESS).isNotNull() | F.col(_ROW).isNull()).alias(DELETE)
        return self._newest(
            self._labelled(judged), is_none, PARTITION, SPREAD, RECORDS, BAD, FIRST, LAST, counts=counts
        )

    def _labelled(self, judged: DataFrame) -> DataFrame:
        """Return of each record its key and its row; and its partition, where nothing tells which key it is about."""
        readable, partition = F.col(_UNREADABLE).isNull(), F.col("partition").cast("string")
        keys = [F.when(readable, one) for one in self.keys]
        keyless = reduce(Column.__or__, (one.isNull() for one in keys), ~readable)
        return judged.select(
            F.when(readable & self.passes & F.col("value").isNotNull(), self.row).alias(_ROW),
            *(one.alias(f"{_KEY}{at}") for at, one in enumerate(keys)),
            F.when(keyless, partition).alias(_KEYLESS),
            partition.alias(PARTITION),
            F.col("offset").alias(_AT),
            REASON,
        )

    def _newest(self, labelled: DataFrame, *kept: Column | str, counts: tuple[Column, ...] = ()) -> DataFrame:
        """Return the columns of the newest record of each key, and what is `kept` of what is known of the key."""
        keys = [f"{_KEY}{at}" for at in range(len(self.keys))]
        last = labelled.groupBy(*keys, _KEYLESS).agg(
            F.max_by(F.struct(_ROW, PARTITION), F.col(_AT)).alias(_NEWEST),
            (F.min(PARTITION) != F.max(PARTITION)).alias(SPREAD),
            *counts,
        )
        of_key = dict(zip((name.lower() for name in self.key), keys, strict=False))
        newest = {_ROW: F.col(f"{_NEWEST}.{_ROW}"), PARTITION: F.col(f"{_NEWEST}.{PARTITION}")}
        return last.withColumns(newest).select(
            *(
                F.col(of_key[name.lower()] if name.lower() in of_key else f"{_ROW}.{quoted(given)}").alias(name)
                for name, given in zip(self.names, self.fields, strict=True)
            ),
            *kept,
        )


def folding(transform: Transform, empty: DataFrame, key: tuple[str, ...]) -> FoldingTransform:
    """Return a transform that keeps the last record of each key.

    Args:
        transform: It is checked already; of records.
        empty: A frame with the columns of the source.
        key: Columns of what it yields.

    Raises:
        InvalidTransformError: an expression uses what another one yields.
    """
    known = transform if isinstance(transform, ParsingTransform) else parsing(transform, empty)
    try:
        plain = F.struct(*map(F.expr, known.select or map(quoted, empty.columns)))
        fields = empty.select(plain.alias(_ROW)).schema[_ROW].dataType.names  # type: ignore[attr-defined]
    except AnalysisException as error:
        words = "spec.transform.select: an expression uses what another one yields, and a target with one row a key needs each alone."
        raise InvalidTransformError(words, hint=_ALIAS_HINT) from error
    row = F.struct(*(column.alias(name) for column, name in zip(known.columns, fields, strict=True)))
    at = {name.lower(): row.getField(given) for name, given in zip(known.names, fields, strict=True)}
    keys = tuple(at[name.lower()] for name in key if name.lower() in at)
    return FoldingTransform(
        known.select, known.where, levels=known.levels, filter=known.filter, filters_first=known.filters_first,
        columns=known.columns, names=known.names, selects=known.selects, filters=known.filters,
        row=row, fields=tuple(fields), keys=keys, key=key,
        reason=_reason(known, dict(zip(key, keys, strict=False))),
    )  # fmt: skip


def _reason(known: ParsingTransform, keys: dict[str, Column]) -> Column:
    """Return why a record is bad: a parser cannot read it, or nothing tells which row it replaces or removes."""
    tombstone, unreadable = F.col("value").isNull(), F.col(_UNREADABLE)
    wanted = known.passes
    if known.where is not None:
        # Of a record without a value the filter may know nothing.
        wanted |= tombstone & F.coalesce(known.filter, F.lit(True))
    nothing = F.lit(None).cast("string")
    cases = F.when(F.lit(known.filters_first) & ~wanted, nothing).when(unreadable.isNotNull(), unreadable)
    for name, value in keys.items():
        hint = f"the record has no value, and the key column {name} is null: it must come from the record's key."
        words = F.when(tombstone, F.lit(hint)).otherwise(F.lit(f"the key column {name} is null."))
        cases = cases.when(wanted & value.isNull(), words)
    return cases
