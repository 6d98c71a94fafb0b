"""Unknown columns: a file contains them, its table's schema does not. Footers list them, and copies omit them.

A table with column mapping drops a column in its metadata only; files stay unchanged. A later version of a table may have more
columns than the job reads, and other engines may write files with extra columns. So a file may contain values that readers must
not see. The target may have another column under the unknown column's name.

contents of the file                                copy mode
-------------------------------------------------   ---------------------------------------------------------------
only the table's columns                            the mode that the log's facts allow
an unknown column, or a partition column that the   Projected or Grafted, without that column
transform does not take
an unknown column whose name differs from a         Decoded: Spark reads it by either name, other readers do not
table's column in case only
an unknown field inside a copied column; an         Decoded, unless the column around the field is left out
unknown column with a copied column whose type
became wider
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import Any

from backfill_core.transfer.facts import TableFacts, Taken, TransformFacts
from backfill_core.transfer.ways import Copying, Decoded, Grafted, Projected, Reason, Way, Whole, type_changed

Leaf = tuple[str, ...]
"""Physical names of a leaf column in the footer, outermost first."""

LIST, KEYS, VALUES = ("list", "element"), ("key_value", "key"), ("key_value", "value")
"""Parquet's names of the levels between an array or map and its values; old writers use other names."""


def without_leftovers(way: Copying, source: TableFacts, leaves: Collection[Leaf]) -> Copying | Decoded:
    """Return the copy mode of a file with these leaves; `way` is its mode if the file has only the table's columns."""
    # Files may contain partition columns, which no reader reads from there. They are no reason to rewrite a whole file.
    hidden = set[str]() if isinstance(way, Whole) else set(source.partitions)
    columns = {column.physical: column for column in source.columns if column.name not in hidden}
    taken = _taken(way)
    for leaf in leaves:
        column = columns.get(leaf[0])
        if column is None or leaf[0] in taken.pruned:
            continue
        if not _leads(_parsed(column.type), leaf[1:], strict=source.drops):
            return Decoded(Reason.DROPPED_COLUMN, column.name)
    leftovers = sorted({leaf[0] for leaf in leaves} - columns.keys())
    if not leftovers:
        return way
    wide = [column.name for name, column in columns.items() if column.widened and name not in taken.pruned]
    if wide:
        return type_changed(wide[0])
    refused = _by_names(leftovers, taken, {name.lower() for name in columns}, leaves)
    return refused or _with_taken(way, replace(taken, pruned=(*taken.pruned, *leftovers)))


def kept_of_files(source: TableFacts, transform: TransformFacts) -> TableFacts:
    """Return the source's facts without the partition columns that the transform does not take: copies omit their values."""
    taken = {output.column for output in transform.outputs.values() if isinstance(output, Taken)}
    partitions = tuple(name for name in source.partitions if name in taken)
    omitted = {*source.partitions} - {*partitions}
    columns = tuple(column for column in source.columns if column.name not in omitted)
    return replace(source, columns=columns, partitions=partitions)


def likely(way: Way, source: TableFacts) -> Way:
    """Estimate the copy mode of most files without reading footers: files may contain dropped columns."""
    return Projected((), ()) if source.drops and isinstance(way, Whole) else way


def _taken(way: Copying) -> Projected:
    match way:
        case Whole():
            return Projected((), ())
        case Projected():
            return way
        case Grafted():
            return way.taken


def _with_taken(way: Copying, taken: Projected) -> Copying:
    return replace(way, taken=taken) if isinstance(way, Grafted) else taken


@lru_cache(maxsize=4096)
def _parsed(kind: str) -> Any:
    return json.loads(kind)


def _leads(kind: Any, path: Leaf, *, strict: bool) -> bool:
    """Return true if a path leads from a type to one of its values. If not `strict`, arrays and maps may have other level names."""
    if not isinstance(kind, dict):
        return not path
    match kind["type"]:
        case "struct":
            fields = [field for field in kind["fields"] if path[:1] == (field["name"],)]
            return any(_leads(field["type"], path[1:], strict=strict) for field in fields)
        case "array":
            allowed = (2,) if strict else (1, 2)
            depths = [depth for depth in allowed if len(path) >= depth and (not strict or path[:2] == LIST)]
            return any(_leads(kind["elementType"], path[depth:], strict=strict) for depth in depths)
        case "map":
            inside = [kind[name] for levels, name in ((KEYS, "keyType"), (VALUES, "valueType")) if path[:2] == levels]
            both = [kind["keyType"], kind["valueType"]] if len(path) > 1 and not strict else []
            return any(_leads(part, path[2:], strict=strict) for part in inside or both)
    return False


def _by_names(leftovers: list[str], taken: Projected, existing: set[str], leaves: Collection[Leaf]) -> Decoded | None:
    """Refuse an ambiguous name, and a name that the footer of a projected file cannot contain."""
    given = {new for _, new in taken.renamed}
    clash = [name for name in leftovers if name.lower() in existing or name in given]
    dotted = [leaf[0] for leaf in leaves if any("." in name for name in leaf)]
    name = next(iter(clash + dotted), None)
    return None if name is None else Decoded(Reason.NAME, name)
