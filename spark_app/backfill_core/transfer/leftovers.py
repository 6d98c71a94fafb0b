"""Columns that a file still holds after its table dropped them: its footer tells, and its copy leaves them out.

A table that maps its columns drops one by a word of its metadata, and no file changes. So a file may hold values that no reader
may see. A reader finds columns by their names in files, and a name is given once: what a file has under a name that the
table does not know was dropped.

what a file has                          its way
--------------------------------------   ---------------------------------------------------------------
no column but those of the table         as without drops
a column that the table does not know    Projected, or Grafted, without it
a field that it does not know, inside    Decoded, unless the column around it is left out
a column that is taken
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import Any

from backfill_core.transfer.facts import TableFacts
from backfill_core.transfer.ways import Copying, Decoded, Grafted, Projected, Reason, Way, Whole

Leaf = tuple[str, ...]
"""Names of a column of a file that holds values, from the outermost one on, as the footer has them."""

LIST, KEYS, VALUES = ("list", "element"), ("key_value", "key"), ("key_value", "value")
"""How Parquet names what is between an array or a map and what is in it; old writers name it otherwise."""


def without_leftovers(way: Copying, source: TableFacts, leaves: Collection[Leaf]) -> Copying | Decoded:
    """Return the way of a file that has these leaves, when it would go `way` had its table never dropped a column."""
    known = {one.physical: one for one in source.columns}
    taken = _taken(way)
    for leaf in leaves:
        column = known.get(leaf[0])
        if column is not None and leaf[0] not in taken.pruned and not _leads(_parsed(column.type), leaf[1:]):
            return Decoded(Reason.DROPPED_COLUMN, column.name)
    leftovers = sorted({leaf[0] for leaf in leaves} - known.keys())
    if not leftovers:
        return way
    refused = _by_names(leftovers, taken, {name.lower() for name in known}, leaves)
    return refused or _with_taken(way, replace(taken, pruned=(*taken.pruned, *leftovers)))


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


def _leads(kind: Any, path: Leaf) -> bool:
    """Does a path lead from a type to a value in it, by fields that the type has?"""
    if not isinstance(kind, dict):
        return not path
    match kind["type"]:
        case "struct":
            return any(path[:1] == (one["name"],) and _leads(one["type"], path[1:]) for one in kind["fields"])
        case "array":
            return path[:2] == LIST and _leads(kind["elementType"], path[2:])
        case "map":
            inside = kind["keyType"] if path[:2] == KEYS else kind["valueType"]
            return path[:2] in (KEYS, VALUES) and _leads(inside, path[2:])
    return False


def _by_names(leftovers: list[str], taken: Projected, known: set[str], leaves: Collection[Leaf]) -> Decoded | None:
    """Refuse what may be another column, and what the footer of a projected file cannot say."""
    given = {new for _, new in taken.renamed}
    clash = [name for name in leftovers if name.lower() in known or name in given]
    dotted = [leaf[0] for leaf in leaves if any("." in name for name in leaf)]
    found = next(iter(clash + dotted), None)
    return None if found is None else Decoded(Reason.NAME, found)
