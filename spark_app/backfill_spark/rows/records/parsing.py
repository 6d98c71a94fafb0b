"""Which records a transform cannot parse: its parsers are found in its SQL, and each is asked once about each record.

A bad record is one of which a parser makes null, or less than it holds, though what it was given is not null.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_core.errors import BadRecordError
from backfill_spark.rows.columns import quoted
from backfill_spark.rows.records.parsers import SOURCE, Parser, Parsers
from backfill_spark.rows.transform import OURS, Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REASON = f"{OURS}reason"
LEFT_OUT = ""
"""The reason of a record that the filter leaves out: it is no row, and not bad."""

BAD_RECORD_HINT = (
    "Set onBadRecord: Quarantine and quarantinePath in the source, leave such records out with spec.transform.where, or say in "
    "spec.transform.select what becomes of them (try_cast, coalesce)."
)


@dataclass(frozen=True)
class ParsingTransform(Transform):
    """A transform of records: what it cannot parse is no row of it."""

    levels: tuple[tuple[Parser, ...], ...] = field(kw_only=True)
    """Its parsers; one of a level is given what those of lower levels yield."""

    filter: Column = field(kw_only=True)
    """Does a record pass the filter? Null: it does not say. Of the columns of the parsers, but where it comes before them."""

    filters_first: bool = field(kw_only=True)
    """Does the filter parse nothing? Then a record that it leaves out is not looked at."""

    columns: tuple[Column, ...] = field(kw_only=True)
    """What a row has. Of the columns of the parsers."""

    names: tuple[str, ...] = field(kw_only=True)
    """What that is called, in the same order."""

    @property
    def passes(self) -> Column:
        """Does a record pass the filter?"""
        return F.coalesce(self.filter, F.lit(False))

    @property
    def parses(self) -> bool:
        """Has it any parser?"""
        return bool(self.levels)

    def apply(self, rows: DataFrame, *kept: str) -> DataFrame:
        """See `Transform`, of the good records."""
        return self.rows(self.judged(rows), *kept) if self.parses else super().apply(rows, *kept)

    def judged(self, records: DataFrame) -> DataFrame:
        """Return all records with what the parsers make of them, and with column `REASON`: null where they are rows. Lazy."""
        if self.filters_first:
            return self._parsed(records, F.when(~self.passes, LEFT_OUT))
        parsed = self._parsed(records, F.lit(None).cast("string"))
        left_out = F.when(F.col(REASON).isNull() & ~self.passes, LEFT_OUT)
        return parsed.withColumn(REASON, F.coalesce(REASON, left_out))

    def _parsed(self, records: DataFrame, reason: Column) -> DataFrame:
        """Ask the parsers about the records that have no reason yet."""
        frame, none_yet = records.alias(SOURCE).withColumn(REASON, reason), F.col(REASON).isNull()
        for level in self.levels:
            made = frame.withColumns({one.made: F.when(none_yet, one.read) for one in level})
            found = [F.when(none_yet & one.refused, one.reason) for one in level]
            values = {one.name: one.value for one in level}
            frame = made.withColumns({**values, REASON: F.coalesce(REASON, *found)}).drop(*(one.made for one in level))
        return frame

    def rows(self, judged: DataFrame, *kept: str) -> DataFrame:
        """Return the good ones, transformed; lazy."""
        named = (column.alias(name) for column, name in zip(self.columns, self.names, strict=True))
        return judged.where(F.col(REASON).isNull()).select(*named, *map(quoted, kept))

    def bad(self, judged: DataFrame) -> DataFrame:
        """Return the bad records, as they are, with column `REASON`; lazy."""
        return judged.where(is_bad()).drop(*(one.name for level in self.levels for one in level))


def parsing(transform: Transform, empty: DataFrame) -> ParsingTransform:
    """Return a transform of records that knows those that it cannot parse.

    Args:
        transform: It is checked already.
        empty: A frame with the columns of the source.
    """
    parsers = Parsers(empty)
    where = transform.where
    in_filter = where is not None and parsers.find("spec.transform.where", where)
    for at, text in enumerate(transform.select or ()):
        parsers.find(f"spec.transform.select[{at}]", text)
    texts = transform.select or tuple(map(quoted, empty.columns))
    return ParsingTransform(
        transform.select,
        where,
        levels=parsers.levels,
        filter=F.lit(True) if where is None else parsers.columns((where,))[0] if in_filter else F.expr(where),
        filters_first=not in_filter,
        columns=tuple(parsers.columns(texts)),
        names=tuple(transform.project(empty).columns),
    )


def is_bad() -> Column:
    """Return the condition that a judged record is bad."""
    return F.coalesce(F.col(REASON) != LEFT_OUT, F.lit(False))


def bad_record(records: DataFrame, rows: int, what: str) -> BadRecordError:
    """Return the error of bad records; names the first one of the first partition. Runs a job."""
    where = ("partition", "offset")
    one = records.select(*where, REASON).orderBy(*where).first()
    place = what if one is None else f"offset {one['offset']} of partition {one['partition']}"
    reason = "" if one is None else f" {one[REASON]}"
    more = f" There are {rows:,} such records in {what}." if rows > 1 else ""
    return BadRecordError(f"the record at {place} cannot be parsed.{reason}{more}", hint=BAD_RECORD_HINT)
