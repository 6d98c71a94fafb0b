"""Which records a transform cannot parse: its parsers are found in its SQL, and each is asked once about each record.

A bad record is one of which a parser makes null, or less than it holds, though what it was given is not null. A record of which the
source cannot read a column (`UNREAD`) is bad too, if the transform uses that column.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_core.errors import BadRecordError
from backfill_spark.rows.columns import quoted
from backfill_spark.rows.records.parsers import SOURCE, Parser, Parsers
from backfill_spark.rows.row_wise import asked, taken
from backfill_spark.rows.transform import OURS, Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REASON = f"{OURS}reason"
LEFT_OUT = ""
"""The reason of a record that the filter leaves out: it is no row, and not bad."""

UNREAD = f"{OURS}unread"
"""Column of a source's records: null, or which of their columns cannot be read and why. A frame without such records may lack it."""

UNREAD_TYPE = "struct<columns: array<string>, reason: string>"

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

    selects: frozenset[str] = field(kw_only=True)
    """Columns of the source that a row is made of."""

    filters: frozenset[str] = field(kw_only=True)
    """Columns of the source that the filter asks for."""

    @property
    def passes(self) -> Column:
        """Does a record pass the filter? One that the filter cannot be computed for does: it is bad."""
        return F.coalesce(self.filter, F.lit(False)) | _lacks(self.filters)

    @property
    def parses(self) -> bool:
        """Has it any parser?"""
        return bool(self.levels)

    def judges(self, records: DataFrame) -> bool:
        """May some of these records be bad?"""
        return self.parses or UNREAD in records.columns

    def apply(self, rows: DataFrame, *kept: str) -> DataFrame:
        """See `Transform`, of the good records."""
        return self.rows(self.judged(rows), *kept) if self.judges(rows) else super().apply(rows, *kept)

    def judged(self, records: DataFrame) -> DataFrame:
        """Return all records with what the parsers make of them, and with column `REASON`: null where they are rows. Lazy."""
        if self.filters_first:
            return self._parsed(records, F.when(~self.passes, LEFT_OUT).otherwise(self.unread))
        parsed = self._parsed(records, self.unread)
        left_out = F.when(F.col(REASON).isNull() & ~self.passes, LEFT_OUT)
        return parsed.withColumn(REASON, F.coalesce(REASON, left_out))

    @property
    def unread(self) -> Column:
        """Why a column that the transform uses cannot be read, of a record; null: all can."""
        return F.when(_lacks(self.selects | self.filters), F.col(UNREAD).getField("reason"))

    def _parsed(self, records: DataFrame, reason: Column) -> DataFrame:
        """Ask the parsers about the records that have no reason yet."""
        # Computed anew where it is there: a star in the transform must not stand for it.
        unread = F.col(UNREAD) if UNREAD in records.columns else F.lit(None).cast(UNREAD_TYPE)
        frame = records.alias(SOURCE).withColumn(UNREAD, unread).withColumn(REASON, reason)
        none_yet = F.col(REASON).isNull()
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
        return judged.where(is_bad()).drop(UNREAD, *(one.name for level in self.levels for one in level))


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
        selects=_selected(transform, empty),
        filters=frozenset() if where is None else asked(empty.where(where)),
    )


def _selected(transform: Transform, empty: DataFrame) -> frozenset[str]:
    """Return the columns of the source that a row is made of."""
    if transform.select is None:
        return frozenset(empty.columns)
    projection = transform.project(empty)
    return asked(projection) | {name for name in taken(projection).values() if name is not None}


def _lacks(names: frozenset[str]) -> Column:
    """Return the condition that one of these columns of a record cannot be read."""
    if not names:
        return F.lit(False)
    return F.coalesce(
        F.arrays_overlap(F.col(UNREAD).getField("columns"), F.array(*map(F.lit, sorted(names)))), F.lit(False)
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
