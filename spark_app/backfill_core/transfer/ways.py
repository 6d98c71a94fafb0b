"""Chooses the way of a file into the target: its bytes, some of its columns, its rows, or none.

A way without decoding is taken only where a reader of the target then sees the very rows that decoding would write. What is
not known to be so is decoded, with the reason. Where a table dropped columns, the footer of a file has the last word
(`unknown_columns.py`).

way        the staged file is                                 where
--------   ------------------------------------------------   -----------------------------------------------------------
Whole      the source's, byte by byte                         each column is there, under its name in files
Projected  the source's column chunks with another footer     columns are left out or have another name in files
Grafted    those, and chunks of columns that Spark computed   some columns are computed, and at least as many are taken
Decoded    written by Spark, row by row                       everything else
Excluded   none, and the source's is not read                  the filter leaves out all of its rows
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from backfill_core.transfer.facts import ColumnFacts, Computed, FileFacts, Oddity, TableFacts, Taken, TransformFacts
from backfill_core.transfer.filters import Condition, Verdict, first_opaque, is_opaque, judge


class Reason(Enum):
    """Why files are decoded, in words that follow "decoded: "."""

    FILTER = "the log does not decide the filter"
    MOSTLY_COMPUTED = "the transform computes more columns than it takes"
    FEW_ROWS = "a file has so few rows that computed columns are not worth a place of their own"
    HIDDEN_ROWS = "a computed column may fail at a row that a deletion vector hides"
    WRITE_MODE = "the write mode adds columns"
    TAKEN_TWICE = "the transform takes a column twice"
    PARTITIONS = "source and target are partitioned by different columns"
    TYPE = "a column of the target has another type, or other names inside it"
    COLUMN = "the values of a column are not what files hold"
    MAPPED_BY_ID = "the source maps its columns by id"
    UNKNOWN_COLUMN = "a file has a column that its table does not have"
    DROPPED_COLUMN = "a file holds values of a field that was dropped inside a column"
    SOURCE_FEATURE = "the source has a table feature that may change how files are read"
    TARGET_FEATURE = "the target has a table feature that may ask something of its files"
    NO_COLUMN = "no column of files is left"
    NAME = "a column has a name that cannot be given to a copied column"
    NO_STORE = "source or target do not keep plain Parquet files"
    NO_COUNT = "the log does not count the rows of a file"
    ELSEWHERE = "a file lies outside the source's folder"
    VECTOR = "a file has a deletion vector, and the target does not take one"
    NULLS = "the log does not say that a column without nulls has none"
    PARTITION_VALUE = "the log has no exact partition value"


@dataclass(frozen=True, slots=True)
class Whole:
    """The file's bytes are copied."""


@dataclass(frozen=True, slots=True)
class Projected:
    """The file's column chunks are copied, and get another footer."""

    renamed: tuple[tuple[str, str], ...]
    """Physical names in the source and in the target, where they differ."""

    pruned: tuple[str, ...]
    """Physical names in the source of columns that are left out."""


@dataclass(frozen=True, slots=True)
class Grafted:
    """Some columns are computed for all rows of the file, in their order; they are joined to the column chunks that are copied."""

    taken: Projected
    """What becomes of the file's own chunks; where nothing is renamed or left out, both parts of it are empty."""

    computed: tuple[str, ...]
    """Names of the output columns that are computed."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The file's rows are read, transformed and written."""

    reason: Reason
    what: str = ""
    """The column or the feature, where there is one."""

    more: tuple[Decoded, ...] = ()
    """Further reasons: removing the first one alone does not help."""

    def __str__(self) -> str:
        """Return all reasons for people."""
        first = f"{self.reason.value} ({self.what})" if self.what else self.reason.value
        return "; ".join([first, *map(str, self.more)])


@dataclass(frozen=True, slots=True)
class Excluded:
    """The filter leaves out all rows of the file: it is not read."""


Copying = Whole | Projected | Grafted
"""Ways on which each row keeps its place in its file."""

Way = Copying | Decoded | Excluded

GRAFTED_ROWS_MIN = 10_000
"""A file that is grafted costs some 15 ms, however small it is; so many rows are decoded in that time."""

NO_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""A text that engines read as another value, in a partition column."""

HARMLESS = frozenset({
    "allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints", "checkpointProtection", "clustering",
    "columnMapping", "deletionVectors", "domainMetadata", "generatedColumns", "identityColumns", "inCommitTimestamp",
    "inCommitTimestamp-preview", "invariants", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint",
    "vacuumProtocolCheck",
})  # fmt: skip
"""Table features that change nothing of how a reader reads a file, but for what `Oddity` and `unknown_columns.py` say."""

ALSO_OF_A_TARGET = frozenset({"rowTracking"})
"""Ids of rows are given with the commit; files of such a source may hold ids, in columns of their own."""


def of_table(transform: TransformFacts, source: TableFacts, target: TableFacts) -> Way:
    """Return the best way that any file of the source has whose rows all pass the filter."""
    refused = (*_by_transform(transform), *_by_features(source, target), *_by_columns(transform, source, target))
    if refused:
        return replace(refused[0], more=refused[1:])
    known, wanted = source.by_name, target.by_name
    pairs = [(known[one.column].physical, wanted[name].physical) for name, one in _taken(transform)]
    data = {one.physical for one in source.columns if one.name not in source.partitions}
    pairs = [(old, new) for old, new in pairs if old in data]
    renamed = tuple((old, new) for old, new in pairs if old != new)
    pruned = tuple(sorted(data - {old for old, _ in pairs}))
    computed = tuple(one.name for one in _computed(transform))
    if not pairs and not computed:
        return Decoded(Reason.NO_COLUMN)  # a Parquet file counts its rows by its columns
    if len(computed) > len(pairs):
        return Decoded(Reason.MOSTLY_COMPUTED, computed[0])
    if not (renamed or pruned or computed):
        return Whole()
    wide = next((name for name, one in _taken(transform) if known[one.column].widened), None)
    if wide is not None:
        return type_changed(wide)  # what another footer says of such a file, Kernel cannot read
    taken = Projected(renamed, pruned)
    return _by_names(source, data, dict(renamed)) or (Grafted(taken, computed) if computed else taken)


def of_file(way: Way, transform: TransformFacts, source: TableFacts, target: TableFacts, file: FileFacts) -> Way:
    """Return the way of one file, when `way` is the best one that any file has."""
    verdict = judge(transform.condition, file.values)
    if verdict is Verdict.EXCLUDED:
        return Excluded()
    if not isinstance(way, Copying):
        return way
    if verdict is Verdict.UNDECIDED and transform.condition is not None:
        return _undecided(transform.condition)
    if file.rows is None:
        return Decoded(Reason.NO_COUNT)
    if file.is_elsewhere:
        return Decoded(Reason.ELSEWHERE)
    if file.has_vector and not target.vectors:
        return Decoded(Reason.VECTOR)
    known, wanted = source.by_name, target.by_name
    for name, one in _taken(transform):
        column = known[one.column]
        if column.name in source.partitions:
            refused = _by_partition(column, wanted[name], target, file)
            if refused is not None:
                return refused
        elif not wanted[name].takes_null and file.nulls.get(column.physical) != 0:
            return Decoded(Reason.NULLS, name)
    return (_by_rows(transform, target, file) if isinstance(way, Grafted) else None) or way


def type_changed(name: str) -> Decoded:
    """Return the way of a file with a column of another type than the target's, where the copy would not be told apart."""
    return Decoded(Reason.COLUMN, f"{name}: {Oddity.TYPE_CHANGED.value}")


def _taken(transform: TransformFacts) -> list[tuple[str, Taken]]:
    return [(name, one) for name, one in transform.outputs.items() if isinstance(one, Taken)]


def _computed(transform: TransformFacts) -> list[Computed]:
    return [one for one in transform.outputs.values() if isinstance(one, Computed)]


def _by_transform(transform: TransformFacts) -> Iterator[Decoded]:
    if transform.adds_columns:
        yield Decoded(Reason.WRITE_MODE)
    if transform.condition is not None and is_opaque(transform.condition):
        yield _undecided(transform.condition)
    taken = Counter(one.column for _, one in _taken(transform))
    yield from (Decoded(Reason.TAKEN_TWICE, column) for column, times in taken.items() if times > 1)


def _undecided(condition: Condition) -> Decoded:
    return Decoded(Reason.FILTER, first_opaque(condition))


def _by_features(source: TableFacts, target: TableFacts) -> Iterator[Decoded]:
    yield from (Decoded(Reason.SOURCE_FEATURE, name) for name in sorted(source.features - HARMLESS))
    strange = sorted(target.features - HARMLESS - ALSO_OF_A_TARGET)
    yield from (Decoded(Reason.TARGET_FEATURE, name) for name in strange)
    if source.mapped_by_id:
        yield Decoded(Reason.MAPPED_BY_ID)


def _by_columns(transform: TransformFacts, source: TableFacts, target: TableFacts) -> Iterator[Decoded]:
    known, wanted = source.by_name, target.by_name
    for name, one in _taken(transform):
        mine, theirs = known[one.column], wanted.get(name)
        if theirs is None or mine.type != theirs.type:
            yield Decoded(Reason.TYPE, name)
            continue
        oddities = dict.fromkeys(column.oddity.value for column in (mine, theirs) if column.oddity is not None)
        yield from (Decoded(Reason.COLUMN, f"{name}: {oddity}") for oddity in oddities)
        if mine.widened != theirs.widened or (mine.widened and mine.name in source.partitions):
            yield type_changed(name)
    yield from (Decoded(Reason.TYPE, one.name) for one in _computed(transform) if one.name not in wanted)
    names = {one.column: name for name, one in _taken(transform)}
    # Of a partition column that is left out, files hold nothing.
    if {names[one] for one in source.partitions if one in names} != set(target.partitions):
        by = (", ".join(table.partitions) or "no column" for table in (source, target))
        yield Decoded(Reason.PARTITIONS, "source by {}, target by {}".format(*by))


def _by_names(source: TableFacts, data: set[str], renamed: dict[str, str]) -> Decoded | None:
    """Refuse what the footer of a projected file cannot say: a path has dots between its names, and each name once."""
    for column in source.columns:
        if column.physical in data and ("." in column.physical or "." in column.type):
            return Decoded(Reason.NAME, column.name)
    clash = sorted(data & set(renamed.values()))
    return Decoded(Reason.NAME, clash[0]) if clash else None


def _by_rows(transform: TransformFacts, target: TableFacts, file: FileFacts) -> Decoded | None:
    """Refuse to compute columns apart where that does not pay, or where rows are computed that decoding would not see."""
    if file.rows is not None and file.rows < GRAFTED_ROWS_MIN:
        return Decoded(Reason.FEW_ROWS)
    if not file.has_vector:
        return None
    wanted = target.by_name
    failing = [one.name for one in _computed(transform) if one.may_fail or not wanted[one.name].takes_null]
    return Decoded(Reason.HIDDEN_ROWS, failing[0]) if failing else None


def _by_partition(column: ColumnFacts, wanted: ColumnFacts, target: TableFacts, file: FileFacts) -> Decoded | None:
    if column.physical not in file.partition:
        return Decoded(Reason.PARTITION_VALUE, column.name)
    text = target.stored_partition(file.partition[column.physical], column)
    if text is None:
        return None if wanted.takes_null else Decoded(Reason.NULLS, wanted.name)
    if text == NO_FOLDER or "\0" in text:
        return Decoded(Reason.PARTITION_VALUE, f"{column.name}: no folder has such a name")
    if column.is_instant and not text.endswith("Z"):
        return Decoded(Reason.PARTITION_VALUE, f"{column.name} has no time zone")
    return None
