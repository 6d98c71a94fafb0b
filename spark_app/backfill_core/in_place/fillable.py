"""Tables and expressions with which a column can be filled in place; everything else is refused by name before a file is read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from backfill_core.errors import InvalidTransformError, UnsupportedTargetFeatureError
from backfill_core.protocol.replacement import find_obstacle
from backfill_core.source_fence.fenceable import BY_CATALOG, ELSEWHERE
from backfill_core.source_fence.table_protocol import FENCED

ROW_TRACKING: Final = "delta.enablerowtracking"
"""Property in lower case, as Delta compares names."""

TAG_DIGITS: Final = 16
ANOTHER_COLUMN: Final = "Fill another column."
OR_REWRITES: Final = (
    "Or set spec.target.delta.dataChange: false, if readers of the feed and streams need not see the filled values."
)
NEEDS_CONDITION: Final = "Set spec.transform.setWhere to a condition that filled rows fail, or use other columns."


@dataclass(frozen=True, slots=True)
class FillExpressions:
    """Columns to fill, as a user requests them."""

    values: Mapping[str, str]
    """SQL expression of each column."""

    reads: Mapping[str, frozenset[str]]
    """Columns that each expression uses."""

    where: str | None = None
    """Condition of the rows to fill; `None`: rows in which the column is null."""

    where_reads: frozenset[str] = frozenset()
    """Columns that the condition uses."""

    @property
    def used(self) -> frozenset[str]:
        """Columns that are filled or read."""
        return frozenset(self.values).union(self.where_reads, *self.reads.values())

    def tag(self, places: Mapping[str, str]) -> str:
        """Return the tag of files with the results of these expressions; other expressions need the files again.

        Args:
            places: Name in files, and type, of each used column. A column with the name of a dropped or renamed one has another.
        """
        texts = (f"{name} = {value}" for name, value in sorted(self.values.items()))
        text = "\n".join([*texts, self.where or "", *(f"{name}: {place}" for name, place in sorted(places.items()))])
        return hashlib.sha256(text.encode()).hexdigest()[:TAG_DIGITS]

    def outputs(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the SQL expression of each column of the table, in its order; columns that it lacks follow."""
        added = (name for name in self.values if name not in columns)
        return (*(self._output(name) for name in columns), *(self._added(name, columns) for name in added))

    def _added(self, name: str, columns: tuple[str, ...]) -> str:
        value = in_parentheses(self.values[name])
        # A condition may read the column, which is null in every row.
        if self.where is not None and self.where_reads <= {*columns}:
            value = f"CASE WHEN {in_parentheses(self.where)} THEN {value} END"
        return f"{value} AS {quoted_name(name)}"

    def _output(self, name: str) -> str:
        column = quoted_name(name)
        if name not in self.values:
            return column
        condition = f"{column} IS NULL" if self.where is None else in_parentheses(self.where)
        return f"CASE WHEN {condition} THEN {in_parentheses(self.values[name])} ELSE {column} END AS {column}"


@dataclass(frozen=True, slots=True)
class TableToFill:
    """Newest version of a table."""

    path: str
    columns: tuple[str, ...]
    partitions: tuple[str, ...] = ()
    clustering: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    """Columns that the user names as key; may be empty."""

    data_change: bool = True
    """False if commits are marked as rewrites, with which neither a change feed nor `delta.appendOnly` interferes."""

    began: bool = False
    """True if an earlier attempt of the job found all columns to fill, or added them."""


def quoted_name(name: str) -> str:
    """Return a column name as SQL."""
    return "`" + name.replace("`", "``") + "`"


def in_parentheses(text: str) -> str:
    """Return an SQL expression in parentheses; a comment at its end (`-- …`) does not reach beyond them."""
    return f"({text}\n)" if "--" in text else f"({text})"


def check_names(names: Iterable[str]) -> None:
    """Reject columns of `set` that Delta cannot tell apart.

    Raises:
        InvalidTransformError: names the column.
    """
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise InvalidTransformError(
                f"spec.transform.set names {other!r} and {name!r}, and Delta ignores the case of column names.",
                hint="Give each column one expression.",
            )


def check_fillable(table: TableToFill, expressions: FillExpressions) -> None:
    """Reject a table or a column that cannot be filled in place.

    Raises:
        UnsupportedTargetFeatureError: names the feature of the table.
        InvalidTransformError: names the column.
    """
    _check_features(table)
    if not expressions.values:
        raise InvalidTransformError("spec.transform.set is empty.", hint="Name a column and its expression.")
    for name in expressions.values:
        _check_column(table, name)
        _check_reads(expressions, name)


def _check_features(table: TableToFill) -> None:
    if FENCED in table.features:
        raise _unsupported(table, "a fence", "Wait until the job lifts it, or lift it with `backfill unfence`.")
    for feature in sorted(table.features & (BY_CATALOG | ELSEWHERE)):
        raise _unsupported(table, f"the table feature {feature}", "Fill a table whose commits are files of its log.")
    changed = int(table.data_change)
    obstacle = find_obstacle(table.properties, removed=changed, added=changed)
    if obstacle is not None:
        raise _unsupported(table, f"{obstacle.name}, {obstacle.reason}", f"{obstacle.hint} {OR_REWRITES}")
    for name, text in table.properties.items():
        if text.strip().lower() != "true":
            continue
        if name.lower() == ROW_TRACKING:
            hint = "Use UPDATE, which keeps the row ids, or disable row tracking."
            raise _unsupported(table, f"row tracking ({name}), and a replaced file would get new row ids", hint)


def _check_column(table: TableToFill, name: str) -> None:
    known = {column.lower(): column for column in table.columns}
    written = known.get(name.lower(), name)
    outer = known.get(name.partition(".")[0].lower())
    if written == name not in table.columns and outer is not None:
        raise InvalidTransformError(
            f"spec.transform.set names {name!r}, which is no column, and the table has the column {outer!r}: the job fills whole columns.",
            hint=f"Give an expression for {outer}, for example with named_struct or transform.",
        )
    if written != name:
        raise InvalidTransformError(
            f"spec.transform.set names {name!r}, and the table's column is {written!r}.", hint=f"Write {written}."
        )
    if table.began and name not in table.columns:
        raise InvalidTransformError(
            f"spec.transform.set.{name} is no column of {table.path} any more: it was dropped or renamed since the job began.",
            hint="Fill a renamed column with another job. To add the column again, run `backfill release` for this job first.",
        )
    for columns, what in (
        (table.partitions, "a partition column: each of its values is a folder"),
        (table.clustering, "a clustering column: its values decide the file of a row"),
        (table.key, "a key column: its values identify rows"),
    ):
        if name in columns:
            raise InvalidTransformError(f"spec.transform.set.{name} is {what}.", hint=ANOTHER_COLUMN)


def _check_reads(expressions: FillExpressions, name: str) -> None:
    read = sorted(expressions.reads.get(name, frozenset()) & expressions.values.keys())
    if not read:
        return
    if expressions.where is None:
        raise InvalidTransformError(
            f"spec.transform.set.{name} reads {read[0]}, which the job fills: files are filled at different times, so its value "
            "is not fixed.",
            hint=NEEDS_CONDITION,
        )
    if expressions.where_reads.isdisjoint(expressions.values):
        raise InvalidTransformError(
            f"spec.transform.set.{name} reads {read[0]}, which the job fills, and spec.transform.setWhere reads no filled column: "
            "filled rows would pass it again, and be filled twice.",
            hint=NEEDS_CONDITION,
        )


def _unsupported(table: TableToFill, feature: str, hint: str) -> UnsupportedTargetFeatureError:
    return UnsupportedTargetFeatureError(f"{table.path} cannot be filled in place: it has {feature}.", hint=hint)
