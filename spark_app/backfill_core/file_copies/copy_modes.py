"""Chooses the copy mode of a file: its bytes, some of its columns, its rows, or none.

A file is copied without decoding only if readers of the target then see exactly the rows that decoding would write. If facts do not
prove this, the file is decoded, and the reason is reported. If the table dropped columns, the file's footer decides (`unknown_columns.py`).

mode            the staged file                                    condition
--------------  ------------------------------------------------   -------------------------------------------------------
Whole           the source's file, byte by byte                    the target has all columns, under their names in files
Projected       the source's column chunks with another footer     columns are left out or have another name in files
PartlyComputed  those, and chunks of columns that Spark computed   some columns are computed, and at least as many are taken
Hiding          one of the above, with a longer deletion vector    the filter keeps some rows, and failing ones may be hidden
Decoded         written by Spark, row by row                       everything else
Excluded        none; the source's file is not read                the filter excludes all of its rows
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from backfill_core.file_copies.facts import (
    ColumnFacts,
    Computed,
    FileFacts,
    TableFacts,
    Taken,
    TransformFacts,
    UnsupportedColumn,
)
from backfill_core.file_copies.filters import Condition, Verdict, first_opaque, is_opaque, judge
from backfill_core.source_fence.table_protocol import FENCED


class Reason(Enum):
    """Reasons to decode files; the messages follow "decoded: "."""

    FILTER = "the log does not decide the filter"
    MOSTLY_COMPUTED = "the transform computes more columns than it takes"
    FEW_ROWS = "a file has too few rows to compute columns separately"
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
    TARGET_FEATURE = "the target has a table feature that may restrict its files"
    NO_COLUMN = "no column of files is left"
    NAME = "a column has a name that a copied column cannot have"
    NO_STORE = "the source or the target does not store plain Parquet files"
    NO_COUNT = "the log does not count the rows of a file"
    ELSEWHERE = "a file lies outside the source's folder"
    VECTOR = "a file has a deletion vector, and the target does not take one"
    NULLS = "the log does not prove that a NOT NULL column has no nulls"
    PARTITION_VALUE = "the log has no exact partition value"


@dataclass(frozen=True, slots=True)
class Whole:
    """The file's bytes are copied."""

    absent: tuple[str, ...] = ()
    """Physical names of partition columns that the target does not have under these names. A file that stores one is projected."""


@dataclass(frozen=True, slots=True)
class Projected:
    """The file's column chunks are copied with a new footer."""

    renamed: tuple[tuple[str, str], ...]
    """Physical names in source and target that differ."""

    pruned: tuple[str, ...]
    """Physical names of the source columns that are left out, with all partition columns: some writers store them in files, too."""


@dataclass(frozen=True, slots=True)
class PartlyComputed:
    """Some columns are computed for all rows of the file, in their order; they are joined to the column chunks that are copied."""

    taken: Projected
    """Projection of the file's own chunks; both fields are empty if no column is renamed or left out."""

    computed: tuple[str, ...]
    """Names of the output columns that are computed."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The file's rows are read, transformed and written."""

    reason: Reason
    what: str = ""
    """The column or the feature; empty if the reason names none."""

    more: tuple[Decoded, ...] = ()
    """Further reasons: it does not help to remove only the first one."""

    def __str__(self) -> str:
        """Format all reasons for a message."""
        first = f"{self.reason.value} ({self.what})" if self.what else self.reason.value
        return "; ".join([first, *map(str, self.more)])


@dataclass(frozen=True, slots=True)
class Excluded:
    """The filter excludes all rows of the file: it is not read."""


Copying = Whole | Projected | PartlyComputed
"""Modes that keep the position of each row in its file."""


@dataclass(frozen=True, slots=True)
class Hiding:
    """The file is copied, and a deletion vector hides its rows that fail the filter; `hidden_rows.py` decides after they are counted."""

    mode: Copying


CopyMode = Copying | Hiding | Decoded | Excluded


def name_of(mode: CopyMode) -> str:
    """Return the name of a copy mode in a plan and in metrics; `Grafted` is the API's name of `PartlyComputed`."""
    match mode:
        case PartlyComputed():
            return "Grafted"
        case Hiding():
            return "Hidden"
    return type(mode).__name__


PARTLY_COMPUTED_ROWS_MIN = 10_000
"""Minimum rows of a partly computed file. Joining chunks costs about 15 ms per file; decoding reads 10,000 rows in that time."""

NO_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""A partition value that engines read as another value."""

HARMLESS = frozenset({
    "allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints", "checkpointProtection", "clustering",
    "columnMapping", "deletionVectors", "domainMetadata", "generatedColumns", "identityColumns", "inCommitTimestamp",
    "inCommitTimestamp-preview", "invariants", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint",
    "vacuumProtocolCheck", FENCED,
})  # fmt: skip
"""Table features that do not change how readers read a file, except for the cases in `UnsupportedColumn` and `unknown_columns.py`."""

ALSO_OF_A_TARGET = frozenset({"rowTracking"})
"""Harmless for targets: commits assign row ids. In a source, files may contain row ids in extra columns."""


def of_table(transform: TransformFacts, source: TableFacts, target: TableFacts) -> CopyMode:
    """Return the best copy mode for files of the source whose rows all pass the filter."""
    refused = (*_by_transform(transform), *_by_features(source, target), *_by_columns(transform, source, target))
    if refused:
        return replace(refused[0], more=refused[1:])
    columns, outputs = source.by_name, target.by_name
    pairs = [(columns[taken.column].physical, outputs[name].physical) for name, taken in _taken(transform)]
    data = {column.physical for column in source.columns if column.name not in source.partitions}
    partitions = {columns[name].physical for name in source.partitions}
    absent = partitions - {old for old, new in pairs if old == new}
    pairs = [(old, new) for old, new in pairs if old in data]
    renamed = tuple((old, new) for old, new in pairs if old != new)
    computed = tuple(output.name for output in _computed(transform))
    if not pairs and not computed:
        return Decoded(Reason.NO_COLUMN)  # a Parquet file counts its rows by its columns
    if len(computed) > len(pairs):
        return Decoded(Reason.MOSTLY_COMPUTED, computed[0])
    pruned = data - {old for old, _ in pairs}
    if not (renamed or pruned or computed):
        return Whole(tuple(sorted(absent)))
    wide = next((name for name, taken in _taken(transform) if columns[taken.column].widened), None)
    if wide is not None:
        return type_changed(wide)  # Kernel cannot read such a file with a new footer
    # Readers take the values of a partition column from the log. A name with a dot cannot be left out of a footer.
    pruned |= {name for name in partitions if "." not in name}
    projected = Projected(renamed, tuple(sorted(pruned)))
    refused_name = _by_names(source, data | pruned, dict(renamed))
    return refused_name or (PartlyComputed(projected, computed) if computed else projected)


def without_columns(source: TableFacts, absent: tuple[str, ...]) -> Projected | Decoded:
    """Return the mode of a file that would be copied whole if it did not store the columns `absent`."""
    dotted = next((name for name in absent if "." in name), None)
    if dotted is not None:
        return Decoded(Reason.NAME, dotted)
    wide = next((column.name for column in source.columns if column.widened), None)
    if wide is not None:
        return type_changed(wide)
    data = {column.physical for column in source.columns if column.physical not in absent}
    return _by_names(source, data, {}) or Projected((), absent)


def of_file(
    mode: CopyMode, transform: TransformFacts, source: TableFacts, target: TableFacts, file: FileFacts
) -> CopyMode:
    """Return the copy mode of one file; `mode` is the best mode for files of the table."""
    verdict = judge(transform.condition, file.values)
    if verdict is Verdict.EXCLUDED:
        return Excluded()
    if not isinstance(mode, Copying):
        return mode
    if verdict is Verdict.PASSES or transform.condition is None:
        return _of_visible_rows(mode, transform, source, target, file)
    if not (transform.hides and target.vectors):
        return _undecided(transform.condition)
    # All rules for hidden rows also apply to the rows that this copy will hide.
    copied = _of_visible_rows(mode, transform, source, target, replace(file, has_vector=True))
    return copied if isinstance(copied, Decoded) else Hiding(copied)


def _of_visible_rows(
    mode: Copying, transform: TransformFacts, source: TableFacts, target: TableFacts, file: FileFacts
) -> Copying | Decoded:
    if file.rows is None:
        return Decoded(Reason.NO_COUNT)
    if file.is_elsewhere:
        return Decoded(Reason.ELSEWHERE)
    if file.has_vector and not target.vectors:
        return Decoded(Reason.VECTOR)
    columns, outputs = source.by_name, target.by_name
    for name, taken in _taken(transform):
        column = columns[taken.column]
        if column.name in source.partitions:
            refused = _by_partition(column, outputs[name], target, file)
            if refused is not None:
                return refused
        elif not outputs[name].takes_null and file.nulls.get(column.physical) != 0:
            return Decoded(Reason.NULLS, name)
    return (_by_rows(transform, target, file) if isinstance(mode, PartlyComputed) else None) or mode


def type_changed(name: str) -> Decoded:
    """Return the mode of a file whose column has another type than the target's; its copy would not show the difference."""
    return Decoded(Reason.COLUMN, f"{name}: {UnsupportedColumn.TYPE_CHANGED.value}")


def _taken(transform: TransformFacts) -> list[tuple[str, Taken]]:
    return [(name, output) for name, output in transform.outputs.items() if isinstance(output, Taken)]


def _computed(transform: TransformFacts) -> list[Computed]:
    return [output for output in transform.outputs.values() if isinstance(output, Computed)]


def _by_transform(transform: TransformFacts) -> Iterator[Decoded]:
    if transform.adds_columns:
        yield Decoded(Reason.WRITE_MODE)
    if transform.condition is not None and is_opaque(transform.condition) and not transform.hides:
        yield _undecided(transform.condition)
    uses = Counter(taken.column for _, taken in _taken(transform))
    yield from (Decoded(Reason.TAKEN_TWICE, column) for column, times in uses.items() if times > 1)


def _undecided(condition: Condition) -> Decoded:
    return Decoded(Reason.FILTER, first_opaque(condition))


def _by_features(source: TableFacts, target: TableFacts) -> Iterator[Decoded]:
    yield from (Decoded(Reason.SOURCE_FEATURE, name) for name in sorted(source.features - HARMLESS))
    unsupported = sorted(target.features - HARMLESS - ALSO_OF_A_TARGET)
    yield from (Decoded(Reason.TARGET_FEATURE, name) for name in unsupported)
    if source.mapped_by_id:
        yield Decoded(Reason.MAPPED_BY_ID)


def _by_columns(transform: TransformFacts, source: TableFacts, target: TableFacts) -> Iterator[Decoded]:
    columns, outputs = source.by_name, target.by_name
    for name, taken in _taken(transform):
        column, output = columns[taken.column], outputs.get(name)
        if output is None or column.type != output.type:
            yield Decoded(Reason.TYPE, name)
            continue
        oddities = dict.fromkeys(side.oddity.value for side in (column, output) if side.oddity is not None)
        yield from (Decoded(Reason.COLUMN, f"{name}: {oddity}") for oddity in oddities)
        if column.widened != output.widened or (column.widened and column.name in source.partitions):
            yield type_changed(name)
    yield from (
        Decoded(Reason.TYPE, computed.name) for computed in _computed(transform) if computed.name not in outputs
    )
    names = {taken.column: name for name, taken in _taken(transform)}
    # Files do not contain the values of a partition column that is left out.
    if {names[column] for column in source.partitions if column in names} != set(target.partitions):
        by = (", ".join(table.partitions) or "no column" for table in (source, target))
        yield Decoded(Reason.PARTITIONS, "source by {}, target by {}".format(*by))


def _by_names(source: TableFacts, data: set[str], renamed: dict[str, str]) -> Decoded | None:
    """Refuse names that the footer of a projected file cannot contain: dots separate the names of a path, and names are unique."""
    for column in source.columns:
        if column.physical in data and ("." in column.physical or "." in column.type):
            return Decoded(Reason.NAME, column.name)
    clash = sorted(data & set(renamed.values()))
    return Decoded(Reason.NAME, clash[0]) if clash else None


def _by_rows(transform: TransformFacts, target: TableFacts, file: FileFacts) -> Decoded | None:
    """Refuse to compute columns separately if that costs more than decoding, or may fail at rows that decoding does not read."""
    if file.rows is not None and file.rows < PARTLY_COMPUTED_ROWS_MIN:
        return Decoded(Reason.FEW_ROWS)
    if not file.has_vector:
        return None
    columns = target.by_name
    failing = [
        computed.name for computed in _computed(transform) if computed.may_fail or not columns[computed.name].takes_null
    ]
    return Decoded(Reason.HIDDEN_ROWS, failing[0]) if failing else None


def _by_partition(column: ColumnFacts, output: ColumnFacts, target: TableFacts, file: FileFacts) -> Decoded | None:
    if column.physical not in file.partition:
        return Decoded(Reason.PARTITION_VALUE, column.name)
    text = target.stored_partition(file.partition[column.physical], column)
    if text is None:
        return None if output.takes_null else Decoded(Reason.NULLS, output.name)
    if text == NO_FOLDER or "\0" in text:
        return Decoded(Reason.PARTITION_VALUE, f"{column.name}: no folder has such a name")
    if column.is_instant and not text.endswith("Z"):
        return Decoded(Reason.PARTITION_VALUE, f"{column.name} has no time zone")
    return None
