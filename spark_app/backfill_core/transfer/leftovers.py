"""Columns that a file holds and its table does not know: its footer tells, and its copy leaves them out.

A table that maps its columns drops one by a word of its metadata, and no file changes. A later version of a table may have more
columns than the job knows, and files of another engine may hold what no table ever named. So a file may hold values that no
reader may see. Under the name that such a column has in the file, the target may have another column.

what a file has                                     its way
-------------------------------------------------   ---------------------------------------------------------------
no column but those of the table                    as the log alone says
a column that the table does not know, or by which  Projected, or Grafted, without it
it is partitioned and which is not taken
one whose name the table writes in other letters    Decoded: Spark reads it by either name, other readers do not
a field that the table does not know, inside a      Decoded, unless the column around it is left out
column that is taken; a column that it does not
know beside one whose type became wider
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
"""Names of a column of a file that holds values, from the outermost one on, as the footer has them."""

LIST, KEYS, VALUES = ("list", "element"), ("key_value", "key"), ("key_value", "value")
"""How Parquet names what is between an array or a map and what is in it; old writers name it otherwise."""


def without_leftovers(way: Copying, source: TableFacts, leaves: Collection[Leaf]) -> Copying | Decoded:
    """Return the way of a file that has these leaves, when it would go `way` if it had the columns of its table alone."""
    # A partition column may be in files, too, and no reader takes it from there. It is not worth to rewrite a file.
    hidden = set[str]() if isinstance(way, Whole) else set(source.partitions)
    known = {one.physical: one for one in source.columns if one.name not in hidden}
    taken = _taken(way)
    for leaf in leaves:
        column = known.get(leaf[0])
        if column is None or leaf[0] in taken.pruned:
            continue
        if not _leads(_parsed(column.type), leaf[1:], strict=source.drops):
            return Decoded(Reason.DROPPED_COLUMN, column.name)
    leftovers = sorted({leaf[0] for leaf in leaves} - known.keys())
    if not leftovers:
        return way
    wide = [one.name for name, one in known.items() if one.widened and name not in taken.pruned]
    if wide:
        return type_changed(wide[0])
    refused = _by_names(leftovers, taken, {name.lower() for name in known}, leaves)
    return refused or _with_taken(way, replace(taken, pruned=(*taken.pruned, *leftovers)))


def kept_of_files(source: TableFacts, transform: TransformFacts) -> TableFacts:
    """Return the columns that copies may have: of a partition column that is not taken, whatever files hold of it, none."""
    taken = {one.column for one in transform.outputs.values() if isinstance(one, Taken)}
    partitions = tuple(name for name in source.partitions if name in taken)
    gone = {*source.partitions} - {*partitions}
    return replace(source, columns=tuple(one for one in source.columns if one.name not in gone), partitions=partitions)


def likely(way: Way, source: TableFacts) -> Way:
    """Return the way that most files go, as far as it is known without their footers: what was dropped is in them."""
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
    """Does a path lead from a type to a value in it, by fields that the type has? If not `strict`, arrays and maps may have other words."""
    if not isinstance(kind, dict):
        return not path
    match kind["type"]:
        case "struct":
            fields = [one for one in kind["fields"] if path[:1] == (one["name"],)]
            return any(_leads(one["type"], path[1:], strict=strict) for one in fields)
        case "array":
            between = (2,) if strict else (1, 2)
            found = [one for one in between if len(path) >= one and (not strict or path[:2] == LIST)]
            return any(_leads(kind["elementType"], path[one:], strict=strict) for one in found)
        case "map":
            inside = [kind[name] for words, name in ((KEYS, "keyType"), (VALUES, "valueType")) if path[:2] == words]
            both = [kind["keyType"], kind["valueType"]] if len(path) > 1 and not strict else []
            return any(_leads(one, path[2:], strict=strict) for one in inside or both)
    return False


def _by_names(leftovers: list[str], taken: Projected, known: set[str], leaves: Collection[Leaf]) -> Decoded | None:
    """Refuse what may be another column, and what the footer of a projected file cannot say."""
    given = {new for _, new in taken.renamed}
    clash = [name for name in leftovers if name.lower() in known or name in given]
    dotted = [leaf[0] for leaf in leaves if any("." in name for name in leaf)]
    found = next(iter(clash + dotted), None)
    return None if found is None else Decoded(Reason.NAME, found)
