"""Tables and expressions with which a column can be filled in place; everything else is refused by name before a file is read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
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


@dataclass(frozen=True, slots=True)
class FillExpressions:
    """Columns to fill, as a user requests them."""

    values: Mapping[str, str]
    """SQL expression of each column."""

    reads: Mapping[str, frozenset[str]]
    """Columns that each expression uses."""

    where: str | None = None
    """Condition of the rows to fill; `None`: rows in which the column is null."""

    @property
    def tag(self) -> str:
        """Tag of files with the results of these expressions; other expressions need the files again."""
        text = "\n".join([*(f"{name} = {value}" for name, value in sorted(self.values.items())), self.where or ""])
        return hashlib.sha256(text.encode()).hexdigest()[:TAG_DIGITS]

    def outputs(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the SQL expression of each column of the table, in its order; columns that it lacks follow."""
        added = (name for name in self.values if name not in columns)
        return (*(self._output(name) for name in columns), *(self._added(name) for name in added))

    def _added(self, name: str) -> str:
        # A condition may read the column, which is null in every row.
        return f"({self.values[name]}) AS {quoted_name(name)}"

    def _output(self, name: str) -> str:
        column = quoted_name(name)
        if name not in self.values:
            return column
        condition = f"{column} IS NULL" if self.where is None else f"({self.where})"
        return f"CASE WHEN {condition} THEN ({self.values[name]}) ELSE {column} END AS {column}"


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


def quoted_name(name: str) -> str:
    """Return a column name as SQL."""
    return "`" + name.replace("`", "``") + "`"


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
    obstacle = find_obstacle(table.properties, removed=1, added=1)
    if obstacle is not None:
        raise _unsupported(table, f"{obstacle.name}, {obstacle.reason}", obstacle.hint)
    for name, text in table.properties.items():
        if text.strip().lower() != "true":
            continue
        if name.lower() == ROW_TRACKING:
            hint = "Use UPDATE, which keeps the row ids, or disable row tracking."
            raise _unsupported(table, f"row tracking ({name}), and a replaced file would get new row ids", hint)


def _check_column(table: TableToFill, name: str) -> None:
    known = {column.lower(): column for column in table.columns}
    written = known.get(name.lower(), name)
    if written != name:
        raise InvalidTransformError(
            f"spec.transform.set names {name!r}, and the table's column is {written!r}.", hint=f"Write {written}."
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
    if read and expressions.where is None:
        raise InvalidTransformError(
            f"spec.transform.set.{name} reads {read[0]}, which the job fills: files are filled at different times, so its value "
            "is not fixed.",
            hint="Set spec.transform.setWhere to a condition that filled rows fail, or use other columns.",
        )


def _unsupported(table: TableToFill, feature: str, hint: str) -> UnsupportedTargetFeatureError:
    return UnsupportedTargetFeatureError(f"{table.path} cannot be filled in place: it has {feature}.", hint=hint)
