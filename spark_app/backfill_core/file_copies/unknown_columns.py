"""Finds columns in the footer of a file that its table does not know; such a file is decoded.

A table that maps its columns drops a column by a change of its metadata, and no file changes. A later version of a table may have
more columns than the job knows, and other engines may write columns that no table names. No reader may see these values, and a
copy would keep them under a name that the target may give to another column.

columns of a file                                   copy mode
-------------------------------------------------   ---------------------------------------------------------------
only those of its table                             as the log alone decides
a column that the table does not know               decoded
a partition column                                  copied whole if the target has it; else left out of the copy
a known column in other letter case                 decoded: Spark reads it by either name, other readers do not
a field that the table does not know, inside a      decoded, unless the outer column is left out
column that is taken
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import Any

from backfill_core.file_copies.copy_modes import (
    Copying,
    CopyMode,
    Decoded,
    Hiding,
    PartlyComputed,
    Reason,
    Whole,
    without_columns,
)
from backfill_core.file_copies.facts import TableFacts, Taken, TransformFacts

Leaf = tuple[str, ...]
"""Names of a column of a file that holds values, from the outermost one on, as the footer has them."""

LIST, KEYS, VALUES = ("list", "element"), ("key_value", "key"), ("key_value", "value")
"""Names that Parquet puts between an array or a map and its elements; old writers use other names."""


def with_known_columns(mode: Copying, source: TableFacts, leaves: Collection[Leaf]) -> Copying | Decoded:
    """Return `mode`, or decoded if a file with these leaves has a column that its table does not know."""
    if isinstance(mode, Whole) and any(leaf[0] in mode.absent for leaf in leaves):
        projected = without_columns(source, mode.absent)
        return projected if isinstance(projected, Decoded) else with_known_columns(projected, source, leaves)
    # No reader takes a partition column from a file, and the bytes of a whole copy stay as they are.
    hidden = set[str]() if isinstance(mode, Whole) else set(source.partitions)
    known = {column.physical: column for column in source.columns if column.name not in hidden}
    pruned = () if isinstance(mode, Whole) else mode.taken.pruned if isinstance(mode, PartlyComputed) else mode.pruned
    for leaf in leaves:
        column = known.get(leaf[0])
        if leaf[0] in pruned:
            continue
        if column is None:
            return Decoded(Reason.UNKNOWN_COLUMN, leaf[0])
        if not _leads(_parsed(column.type), leaf[1:], strict=source.drops):
            return Decoded(Reason.DROPPED_COLUMN, column.name)
    return mode


def kept_of_files(source: TableFacts, transform: TransformFacts) -> TableFacts:
    """Return the columns that copied files may have: all but partition columns that the transform does not take."""
    taken = {output.column for output in transform.outputs.values() if isinstance(output, Taken)}
    partitions = tuple(name for name in source.partitions if name in taken)
    gone = {*source.partitions} - {*partitions}
    return replace(
        source, columns=tuple(column for column in source.columns if column.name not in gone), partitions=partitions
    )


def likely(mode: CopyMode, source: TableFacts) -> CopyMode:
    """Return the copy mode of most files, without their footers: files of a table that dropped columns still have them."""
    return Decoded(Reason.UNKNOWN_COLUMN) if source.drops and isinstance(mode, Copying | Hiding) else mode


@lru_cache(maxsize=4096)
def _parsed(kind: str) -> Any:
    return json.loads(kind)


def _leads(kind: Any, path: Leaf, *, strict: bool) -> bool:
    """Return whether a path leads to a value of the type; unless `strict`, names between arrays or maps and their elements may differ."""
    if not isinstance(kind, dict):
        return not path
    match kind["type"]:
        case "struct":
            fields = [field for field in kind["fields"] if path[:1] == (field["name"],)]
            return any(_leads(field["type"], path[1:], strict=strict) for field in fields)
        case "array":
            between = (2,) if strict else (1, 2)
            levels = [level for level in between if len(path) >= level and (not strict or path[:2] == LIST)]
            return any(_leads(kind["elementType"], path[level:], strict=strict) for level in levels)
        case "map":
            inside = [kind[name] for prefix, name in ((KEYS, "keyType"), (VALUES, "valueType")) if path[:2] == prefix]
            both = [kind["keyType"], kind["valueType"]] if len(path) > 1 and not strict else []
            return any(_leads(part, path[2:], strict=strict) for part in inside or both)
    return False
