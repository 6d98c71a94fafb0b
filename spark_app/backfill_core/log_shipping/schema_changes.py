"""What a change of a source's columns asks of a target that follows it: metadata alone, or an end by name.

A field is the same one as before where it has the same name in files. So with column mapping a field may get another name, or go,
and no file changes. Without, its name is all that there is: one that goes has taken its values along.

change of the source                    target
-------------------------------------   ------------------------------------------------------------
a new field, also inside another        the same, null in all rows that are there
another name, another place             the same, where both tables map their columns
a wider type, as the source's log says  the same, where the target has the table feature for it
a field that went                       the same, where both tables map their columns
any other type                          refused
anything of a column that is computed   refused, also of one that the filter asks for
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backfill_core.log_shipping.columns import (
    COLUMN_ID,
    INSIDE,
    PHYSICAL_NAME,
    TYPE_CHANGES,
    WIDENING,
    Columns,
    Field,
    fields_of,
    kinds_of_words,
    loose,
    physical,
    shape,
    words,
)
from backfill_core.log_shipping.type_changes import STEPS, TypeChanges, type_changes

NEW_TARGET = "Undo it, or start a new job on a new target."
WIDENING_HINT = (
    "Run ALTER TABLE … SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true') on the target, then start the job again."
)
COMPUTED = "\0"
"""Begins the origin of an output column that is computed; no name in files does."""

OF_EVERY_TABLE = frozenset({
    "binary", "boolean", "byte", "date", "double", "float", "integer", "long", "short", "string", "timestamp",
})  # fmt: skip
FEATURES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
"""Table features that a type needs."""


class NotFollowedError(Exception):
    """A change that a target cannot follow; the caller adds where it happened."""

    def __init__(self, what: str, hint: str = NEW_TARGET) -> None:
        """Name the column in `what`; `hint` says what can be done."""
        super().__init__(what)
        self.what, self.hint = what, hint


@dataclass(frozen=True, slots=True)
class View:
    """What a transform makes of the columns of a version."""

    source: Columns
    outputs: tuple[Field, ...]
    """As the transform yields them; types and names are those of the target."""

    taken: Mapping[str, str | None]
    """By the name of an output, the column that it is; None: it is computed."""

    asked: frozenset[str]
    """Columns that computed ones and the filter are made of."""

    def origins(self) -> dict[str, Field]:
        """Return the outputs by where their values come from; a column that is taken has the names in files of its source."""
        known = {field["name"]: field for field in self.source.fields}
        found: dict[str, Field] = {}
        for one in self.outputs:
            column = self.taken[one["name"]]
            if column is None:
                found[f"{COMPUTED}{one['name']}"] = one
                continue
            field = known[column]
            if physical(field) in found:
                raise NotFollowedError(f"spec.transform.select takes the column {column!r} twice")
            found[physical(field)] = {**field, "name": one["name"]}
        return found


@dataclass(frozen=True, slots=True)
class Target:
    """What is known of the target."""

    columns: Columns
    last_id: int = 0
    """The largest id that it ever gave to a column; 0 without column mapping."""

    features: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Followed:
    """What a change comes to."""

    reopens: bool
    """Are columns that the job reads there no more, or others? Then what comes later is read by the new ones."""

    fields: tuple[Field, ...] | None
    """Columns that the target gets; None: it keeps its own."""

    last_id: int = 0
    """The largest id among them."""


def follow(before: View, after: View, target: Target) -> Followed:
    """Return what becomes of a target that has the columns of one version when those of a later one come.

    Raises:
        NotFollowedError: names the column.
    """
    _check_asked(before, after)
    old, new = before.origins(), after.origins()
    made = _Fields(target, mapped=before.source.mapped and after.source.mapped)
    fields = made.fields(old, new, target.columns.fields, "")
    same = list(old) == list(new) and _shapes(old.values()) == _shapes(new.values())
    last_id = max([target.last_id, *_ids(fields)])
    return Followed(not _still_there(before, after) or not same, None if same else tuple(fields), last_id)


def _check_asked(before: View, after: View) -> None:
    """Refuse to compute or to filter by other columns than before: what is there was made of those."""
    strange = sorted(before.asked ^ after.asked)
    if strange:
        raise NotFollowedError(f"spec.transform computes with the column {strange[0]!r} where it did not, or no more")
    old, new = ({one["name"]: one for one in view.source.fields} for view in (before, after))
    for name in sorted(before.asked):
        if _shapes([old[name]]) != _shapes([new[name]]):
            raise NotFollowedError(
                f"column {name!r}, with which spec.transform computes or filters, became another one"
            )


def _still_there(before: View, after: View) -> bool:
    """Are all columns of before there, as they were?"""
    new = {one["name"]: one for one in after.source.fields}
    return all(one["name"] in new and _shapes([one]) == _shapes([new[one["name"]]]) for one in before.source.fields)


@dataclass(frozen=True, slots=True)
class _Fields:
    """Makes fields of the target out of fields of the source."""

    target: Target
    mapped: bool
    """Does the source map its columns, before and after?"""

    def fields(
        self, old: Mapping[str, Field], new: Mapping[str, Field], theirs: Sequence[Field], inside: str
    ) -> list[Field]:
        """Return the fields of one struct; `old` and `new` are those of the source by origin, in their order."""
        by_name = {one["name"]: one for one in theirs}
        found: list[Field] = []
        for origin, field in new.items():
            name, was = f"{inside}{field['name']}", old.get(origin)
            if was is None:
                found.append(self._added(field, name))
                continue
            mine = by_name.get(was["name"])
            if mine is None:
                raise NotFollowedError(f"the target has no column {inside}{was['name']!r}")
            if was["name"] != field["name"]:
                self._check_mapped(f"column {inside + was['name']!r} was renamed to {field['name']!r}")
            changes = TypeChanges.between(was, field)
            kind = self._type(was["type"], field["type"], mine["type"], name, changes)
            found.append(self._widened(was, {**mine, "name": field["name"], "type": kind}, name, changes))
        for origin, field in old.items():
            if origin not in new:
                self._check_mapped(f"column {inside + field['name']!r} was dropped")
        before = {one["name"] for one in old.values()}
        found += [one for one in theirs if one["name"] not in before]
        _check_once(found, inside)
        return found

    def _check_mapped(self, what: str) -> None:
        if not self.mapped:
            raise NotFollowedError(f"{what}, and the source does not map its columns")
        if not self.target.columns.mapped:
            raise NotFollowedError(
                f"{what}, and the target does not map its columns", "Start a new job on a new target."
            )

    def _type(self, was: Any, now: Any, mine: Any, name: str, changes: TypeChanges, path: str = "") -> Any:
        """Return the target's type of a field that stays, or of what is in it at a path."""
        if isinstance(was, str) or isinstance(now, str) or was["type"] != now["type"]:
            if was == now:
                return mine
            what = f"column {name!r} changed its type: {words(was)} became {words(now)}"
            if not changes.tell(path, was, now):
                raise NotFollowedError(what)
            lacking = _lacking({WIDENING, FEATURES.get(words(now))} - {None} - self.target.features)
            if lacking:
                hint = WIDENING_HINT if lacking == WIDENING else NEW_TARGET
                raise NotFollowedError(f"{what}, and the target has not the table feature {lacking}", hint)
            return now
        if was["type"] == "struct":
            old, new = ({physical(one): one for one in kind["fields"]} for kind in (was, now))
            return {**mine, "fields": self.fields(old, new, mine["fields"], f"{name}.")}  # each tells of itself
        parts = {
            part: self._type(was[part], now[part], mine[part], name, changes, f"{path}.{step}".strip("."))
            for part, step in STEPS[was["type"]].items()
        }
        return {**mine, **parts}

    def _widened(self, was: Field, mine: Field, name: str, changes: TypeChanges) -> Field:
        """Return a field that says how its type changed, where it did."""
        if not changes.new:
            return mine
        metadata = mine.get("metadata") or {}
        if type_changes(mine) != type_changes(was):
            raise NotFollowedError(f"column {name!r} changed its type, and that of the target changed otherwise before")
        return {**mine, "metadata": {**metadata, TYPE_CHANGES: [*changes.old, *changes.new]}}

    def _added(self, field: Field, name: str) -> Field:
        """Return a field that is new in the target; it takes null, as each of its columns does."""
        kinds = (one["type"] for one in fields_of({"type": "struct", "fields": [field]}))
        for kind in kinds:
            self._check_type(kind, name)
        mapped = self.target.columns.mapped
        made = loose(field, mapped=mapped, kept=kinds_of_words(self.target.features))
        if not mapped:
            return made
        inside = list(fields_of({"type": "struct", "fields": [made]}))
        if any(not {COLUMN_ID, PHYSICAL_NAME} <= one["metadata"].keys() for one in inside):
            raise NotFollowedError(f"column {name!r} was added, and the target maps its columns, the source does not")
        if min(one["metadata"][COLUMN_ID] for one in inside) <= self.target.last_id:
            # A table of another history: an id is given once.
            raise NotFollowedError(f"column {name!r} was added, and the target gave its id to another column")
        return made

    def _check_type(self, kind: Any, name: str) -> None:
        match kind:
            case {"type": "array" | "map" as outer}:
                for part in INSIDE[outer]:
                    self._check_type(kind[part], name)
            case {"type": "struct"}:
                pass  # its fields are asked themselves
            case str() if kind in OF_EVERY_TABLE or kind.startswith("decimal"):
                pass
            case _:
                feature = FEATURES.get(words(kind))
                if feature is None or feature not in self.target.features:
                    lacks = "" if feature is None else f" ({feature})"
                    raise NotFollowedError(
                        f"column {name!r} was added, and the target has not the table feature for {words(kind)}{lacks}"
                    )


def _lacking(features: Iterable[str | None]) -> str:
    return min((one for one in features if one is not None), default="")


def _check_once(fields: Iterable[Field], inside: str) -> None:
    seen: set[str] = set()
    for one in fields:
        name = one["name"].lower()
        if name in seen:
            raise NotFollowedError(f"the target would have the column {inside + one['name']!r} twice")
        seen.add(name)


def _shapes(fields: Iterable[Field]) -> Any:
    return shape({"type": "struct", "fields": list(fields)})


def _ids(fields: Iterable[Field]) -> list[int]:
    every = fields_of({"type": "struct", "fields": list(fields)})
    return [int(one["metadata"][COLUMN_ID]) for one in every if COLUMN_ID in (one.get("metadata") or {})]
