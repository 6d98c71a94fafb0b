"""Conversion of records into a target with one row per key: the last record of each key decides.

last record of a key            state of the key in the target
-----------------------------   ----------------------------------------------------------------
passes the filter               the row of the record
has no value (a tombstone)      no row; a FALSE filter only keeps the record from being bad
does not pass the filter        no row: the filter applies to the row of the last record
cannot be parsed, has no key    unchanged: it is a bad record

So compaction of the topic does not change the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_core.errors import InvalidTransformError
from backfill_spark.delta.types import quoted
from backfill_spark.records.parsing import REASON, ParsingTransform, is_bad, lacks, parsing, unread_reason, with_reason
from backfill_spark.rows.changes import ADD, DELETE
from backfill_spark.rows.transform import OURS, Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_spark.records.parsers import Parser

PARTITION = f"{OURS}partition"
SPREAD, RECORDS, BAD, FIRST, LAST = (f"{OURS}{name}" for name in ("spread", "records", "bad", "first", "last"))
_ROW, _NEWEST, _AT, _KEY, _KEYLESS = (f"{OURS}{name}" for name in ("row", "newest", "at", "key", "keyless"))
_UNREADABLE, _MAKES_ROW = f"{OURS}unreadable", f"{OURS}makes_row"
_VALUE = frozenset({"value"})
SPREAD_HINT = "Send the records of a key to one partition, add the partition to the key, or use writeMode: Append."
_ALIAS_HINT = "Write each expression in full: none may use the alias of another one."


@dataclass(frozen=True)
class FoldingTransform(ParsingTransform):
    """A transform of records that keeps the last record of each key."""

    reason: Column = field(kw_only=True)
    """Message why a record is bad, or null if it is good. Computed from the parsers' columns."""

    row: Column = field(kw_only=True)
    """The columns of the target as one struct. Computed from the parsers' columns."""

    fields: tuple[str, ...] = field(kw_only=True)
    """Field names in `row`, in the order of `names`."""

    keys: tuple[Column, ...] = field(kw_only=True)
    """The columns of the key, computed without the other parts of `row`."""

    key: tuple[str, ...] = field(kw_only=True)

    for_key: frozenset[int] = field(kw_only=True)
    """Numbers of the parsers that the key uses."""

    def judged(self, records: DataFrame) -> DataFrame:
        """See `ParsingTransform`; for a record that the filter drops, `REASON` is null, because its key is needed. Lazy."""
        # A record without a value needs no more than its key.
        makes_row = ~_is_tombstone() & (self.passes if self.filters_first else F.lit(True))
        marked = with_reason(records, F.when(makes_row, self.unread)).withColumn(_MAKES_ROW, makes_row)
        parsed = self._parsed(marked, self.levels).drop(_MAKES_ROW)
        return parsed.withColumnRenamed(REASON, _UNREADABLE).withColumn(REASON, self.reason)

    def needs(self, parser: Parser) -> Column:
        """See `ParsingTransform`."""
        return F.lit(True) if parser.at in self.for_key else F.col(_MAKES_ROW)

    @property
    def unread(self) -> Column:
        """See `ParsingTransform`; without its value it is unknown if a record deletes its key."""
        return unread_reason(self.selects | self.filters | _VALUE)

    def bad(self, judged: DataFrame) -> DataFrame:
        """See `ParsingTransform`."""
        return super().bad(judged).drop(_UNREADABLE)

    def apply(self, rows: DataFrame, *kept: str) -> DataFrame:
        """Return the rows of the target, with the internal columns `kept`; lazy. Shuffles once, by key."""
        folded = self.folded(self.judged(rows))
        return folded.where(~F.col(DELETE)).select(*map(quoted, (*self.names, *kept)))

    def folded(self, judged: DataFrame) -> DataFrame:
        """Return one change per key, from its last record.

        Shape:
            in:  columns of the source, judged
            out: one row per key: columns of the target, `__backfill_delete` (then only the key is not null),
                 `__backfill_partition` of its last record, and `__backfill_add`: 2 if records of the key are in several
                 partitions, else 1

        Lazy. Shuffles once, by key.
        """
        labelled = self._labelled(judged).where(F.col(_KEYLESS).isNull())
        spread = F.when(F.col(SPREAD), 2).otherwise(1).alias(ADD)
        return self._newest(labelled, F.col(_ROW).isNull().alias(DELETE), F.col(PARTITION), spread)

    def tallied(self, judged: DataFrame) -> DataFrame:
        """Return one change per key with counts of its records, so that a receipt reads the records once.

        Shape:
            in:  columns of the source, judged
            out: one row per key, and one per partition for records without a key: columns of the target,
                 `__backfill_delete` (then it is no row), `__backfill_partition`, `__backfill_spread`, and counts:
                 `__backfill_records`, `__backfill_bad`, and the offsets `__backfill_first` and `__backfill_last`

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
        """Return key and row of each record; a record without a key gets its partition in `_KEYLESS`."""
        readable, partition = F.col(_UNREADABLE).isNull(), F.col("partition").cast("string")
        keys = [F.when(readable, column) for column in self.keys]
        keyless = reduce(Column.__or__, (column.isNull() for column in keys), ~readable)
        return judged.select(
            F.when(readable & self.passes & F.col("value").isNotNull(), self.row).alias(_ROW),
            *(column.alias(f"{_KEY}{at}") for at, column in enumerate(keys)),
            F.when(keyless, partition).alias(_KEYLESS),
            partition.alias(PARTITION),
            F.col("offset").alias(_AT),
            REASON,
        )

    def _newest(self, labelled: DataFrame, *kept: Column | str, counts: tuple[Column, ...] = ()) -> DataFrame:
        """Return the columns of the newest record of each key, with the columns `kept`."""
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
        transform: A checked transform of records.
        empty: A frame with the columns of the source.
        key: Key columns, among the columns that the transform yields.

    Raises:
        InvalidTransformError: an expression uses the alias of another one.
    """
    parsed = transform if isinstance(transform, ParsingTransform) else parsing(transform, empty)
    try:
        plain = F.struct(*map(F.expr, parsed.select or map(quoted, empty.columns)))
        fields = empty.select(plain.alias(_ROW)).schema[_ROW].dataType.names  # type: ignore[attr-defined]
    except AnalysisException as error:
        message = "spec.transform.select: an expression uses the alias of another one, and a target with one row per key forbids that."
        raise InvalidTransformError(message, hint=_ALIAS_HINT) from error
    row = F.struct(*(column.alias(name) for column, name in zip(parsed.columns, fields, strict=True)))
    at = {name.lower(): row.getField(given) for name, given in zip(parsed.names, fields, strict=True)}
    keys = tuple(at[name.lower()] for name in key if name.lower() in at)
    in_key = {name.lower() for name in key}
    of_key = (used for name, used in zip(parsed.names, parsed.used, strict=True) if name.lower() in in_key)
    return FoldingTransform(
        parsed.select, parsed.where, levels=parsed.levels, filter=parsed.filter, filter_levels=parsed.filter_levels,
        columns=parsed.columns, names=parsed.names, used=parsed.used, selects=parsed.selects, filters=parsed.filters,
        row=row, fields=tuple(fields), keys=keys, key=key, for_key=frozenset().union(*of_key),
        reason=_reason(parsed, dict(zip(key, keys, strict=False))),
    )  # fmt: skip


def _is_tombstone() -> Column:
    """Return the condition that a record has no value; an unreadable value is not known to be missing."""
    return F.col("value").isNull() & ~lacks(_VALUE)


def _reason(parsed: ParsingTransform, keys: dict[str, Column]) -> Column:
    """Return why a record is bad: a parser cannot read it, or its key is null; null for good records."""
    tombstone, unreadable = _is_tombstone(), F.col(_UNREADABLE)
    selected = parsed.passes
    if parsed.where is not None:
        # The filter may be null for a record without a value.
        selected |= tombstone & F.coalesce(parsed.filter, F.lit(True))
    nothing = F.lit(None).cast("string")
    cases = F.when(F.lit(parsed.filters_first) & ~selected, nothing).when(unreadable.isNotNull(), unreadable)
    for name, value in keys.items():
        no_value = f"the record has no value, and the key column {name} is null: it must come from the record's key."
        message = F.when(tombstone, F.lit(no_value)).otherwise(F.lit(f"the key column {name} is null."))
        cases = cases.when(selected & value.isNull(), message)
    return cases
