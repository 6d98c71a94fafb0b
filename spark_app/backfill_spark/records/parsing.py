"""Detection of bad records: the parsers of a transform are found in its SQL, and each runs once per record.

A record is bad if a parser returns null or a partial result for input that is not null. It is bad too if the source cannot
read one of its columns (`UNREAD`) and the transform uses that column.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_core.errors import BadRecordError
from backfill_spark.delta.types import quoted
from backfill_spark.records.parsers import SOURCE, Parser, Parsers
from backfill_spark.rows.row_wise import columns_read, taken
from backfill_spark.rows.transform import OURS, Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REASON = f"{OURS}reason"
LEFT_OUT = ""
"""The reason of a record that the filter drops: it yields no row, but is not bad."""

UNREAD = f"{OURS}unread"
"""Column of a source's records: null, or the unreadable columns with the reason. A frame without such records may lack it."""

UNREAD_TYPE = "struct<columns: array<string>, reason: string>"

BAD_RECORD_HINT = (
    "Set onBadRecord: Quarantine and quarantinePath in the source, leave such records out with spec.transform.where, or handle "
    "them in spec.transform.select (try_cast, coalesce)."
)


@dataclass(frozen=True)
class ParsingTransform(Transform):
    """A transform of records; records that it cannot parse yield no rows."""

    levels: tuple[tuple[Parser, ...], ...] = field(kw_only=True)
    """Its parsers; a parser uses only results of lower levels."""

    filter: Column = field(kw_only=True)
    """The filter's condition; it may be null. Computed from the parsers' columns, unless it comes before them."""

    filter_levels: int = field(kw_only=True)
    """Number of levels, the lowest ones, that the filter uses. Records that it drops are not parsed by higher ones."""

    columns: tuple[Column, ...] = field(kw_only=True)
    """The columns of a row. Computed from the parsers' columns."""

    names: tuple[str, ...] = field(kw_only=True)
    """Names of `columns`, in the same order."""

    used: tuple[frozenset[int], ...] = field(kw_only=True)
    """Numbers of the parsers that each of `columns` uses."""

    selects: frozenset[str] = field(kw_only=True)
    """Columns of the source that the projection uses."""

    filters: frozenset[str] = field(kw_only=True)
    """Columns of the source that the filter uses."""

    @property
    def passes(self) -> Column:
        """Condition that a record passes the filter, or that an unreadable column of the filter makes it bad."""
        return F.coalesce(self.filter, F.lit(False)) | lacks(self.filters)

    @property
    def filters_first(self) -> bool:
        """True if the filter has no parser."""
        return not self.filter_levels

    @property
    def parses(self) -> bool:
        """True if the transform has a parser."""
        return bool(self.levels)

    def judges(self, records: DataFrame) -> bool:
        """Return True if some of these records may be bad."""
        return self.parses or UNREAD in records.columns

    def apply(self, rows: DataFrame, *kept: str) -> DataFrame:
        """Apply the transform to the good records; see `Transform`."""
        return self.rows(self.judged(rows), *kept) if self.judges(rows) else super().apply(rows, *kept)

    def judged(self, records: DataFrame) -> DataFrame:
        """Return all records with the parsers' columns, and with column `REASON`, null if they yield rows. Lazy."""
        read = self._parsed(with_reason(records, unread_reason(self.filters)), self.levels[: self.filter_levels])
        reason = F.coalesce(REASON, F.when(~self.passes, LEFT_OUT), self.unread)
        return self._parsed(read.withColumn(REASON, reason), self.levels[self.filter_levels :])

    @property
    def unread(self) -> Column:
        """Reason why a column that the transform uses is unreadable; null if all are readable."""
        return unread_reason(self.selects | self.filters)

    def _parsed(self, frame: DataFrame, levels: tuple[tuple[Parser, ...], ...]) -> DataFrame:
        """Run parsers on the records that have no reason yet."""
        for level in levels:
            runs = [F.col(REASON).isNull() & self.needs(parser) for parser in level]
            made = frame.withColumns(
                {parser.made: F.when(run, parser.read) for run, parser in zip(runs, level, strict=True)}
            )
            reasons = [F.when(run & parser.refused, parser.reason) for run, parser in zip(runs, level, strict=True)]
            values = {parser.name: parser.value for parser in level}
            parsed = made.withColumns({**values, REASON: F.coalesce(REASON, *reasons)})
            frame = parsed.drop(*(parser.made for parser in level))
        return frame

    def needs(self, parser: Parser) -> Column:  # noqa: ARG002 - transforms that fold records use it
        """Condition that a record without a reason needs this parser."""
        return F.lit(True)

    def rows(self, judged: DataFrame, *kept: str) -> DataFrame:
        """Return the rows of the good records, transformed; lazy."""
        named = (column.alias(name) for column, name in zip(self.columns, self.names, strict=True))
        return judged.where(F.col(REASON).isNull()).select(*named, *map(quoted, kept))

    def bad(self, judged: DataFrame) -> DataFrame:
        """Return the bad records unchanged, with column `REASON`; lazy."""
        return judged.where(is_bad()).drop(UNREAD, *(parser.name for level in self.levels for parser in level))


def parsing(transform: Transform, empty: DataFrame) -> ParsingTransform:
    """Return a transform of records that detects bad records.

    Args:
        transform: A checked transform.
        empty: A frame with the columns of the source.
    """
    parsers = Parsers(empty)
    where = transform.where
    in_filter = where is not None and parsers.find("spec.transform.where", where)
    # Before the parsers of `select`: their columns do not exist yet when the filter is computed.
    passes = F.lit(True) if where is None else parsers.columns((where,))[0] if in_filter else F.expr(where)
    parsers.begin_level()
    filter_levels = len(parsers.levels)
    names = transform.project(empty).columns
    unnamed = iter(names)
    for at, text in enumerate(transform.select or ()):
        parsers.find(f"spec.transform.select[{at}]", text)
        parsers.name(text, unnamed)
    texts = transform.select or tuple(map(quoted, empty.columns))
    return ParsingTransform(
        transform.select,
        where,
        levels=parsers.levels,
        filter=passes,
        filter_levels=filter_levels,
        columns=tuple(parsers.columns(texts)),
        names=tuple(names),
        used=tuple(parsers.used(texts)),
        selects=_selected(transform, empty),
        filters=frozenset() if where is None else columns_read(empty.where(where)),
    )


def _selected(transform: Transform, empty: DataFrame) -> frozenset[str]:
    """Return the columns of the source that the projection uses."""
    if transform.select is None:
        return frozenset(empty.columns)
    projection = transform.project(empty)
    return columns_read(projection) | {name for name in taken(projection).values() if name is not None}


def lacks(names: frozenset[str]) -> Column:
    """Return the condition that one of these columns of a record is unreadable; the record has column `UNREAD`."""
    if not names:
        return F.lit(False)
    return F.coalesce(
        F.arrays_overlap(F.col(UNREAD).getField("columns"), F.array(*map(F.lit, sorted(names)))), F.lit(False)
    )


def unread_reason(names: frozenset[str]) -> Column:
    """Return the reason why one of these columns of a record is unreadable; null if all are readable."""
    return F.when(lacks(names), F.col(UNREAD).getField("reason"))


def with_reason(records: DataFrame, reason: Column) -> DataFrame:
    """Return records with the columns `UNREAD` and `REASON`, as parsers need them."""
    # Replaced even if it exists, so that a star in the transform does not include it.
    unread = F.col(UNREAD) if UNREAD in records.columns else F.lit(None).cast(UNREAD_TYPE)
    return records.alias(SOURCE).withColumn(UNREAD, unread).withColumn(REASON, reason)


def is_bad() -> Column:
    """Return the condition that a judged record is bad."""
    return F.coalesce(F.col(REASON) != LEFT_OUT, F.lit(False))


def bad_record(records: DataFrame, rows: int, what: str) -> BadRecordError:
    """Return the error for bad records; names the first one of the first partition. Runs a job."""
    where = ("partition", "offset")
    record = records.select(*where, REASON).orderBy(*where).first()
    place = what if record is None else f"offset {record['offset']} of partition {record['partition']}"
    reason = "" if record is None else f" {record[REASON]}"
    more = f" There are {rows:,} such records in {what}." if rows > 1 else ""
    return BadRecordError(f"the record at {place} cannot be parsed.{reason}{more}", hint=BAD_RECORD_HINT)
