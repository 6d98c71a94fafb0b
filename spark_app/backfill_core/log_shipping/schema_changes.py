"""Effect of a source's schema change on a target that follows it: a metadata change, or an error that names the column.

A field keeps its identity as long as it keeps its physical name. So with column mapping a field may be renamed or dropped without
any file change. Without column mapping, the name is the identity: a renamed or dropped field loses its values.

change of the source                    target
-------------------------------------   ------------------------------------------------------------
a new field, also inside another        the same, null in all existing rows
a new name, a new position              the same, if both tables use column mapping
a type widening in the source's log     the same, if the target has the table feature for it
a dropped field                         the same, if both tables use column mapping
any other type change                   refused
any change of a column that a computed  refused
column or the filter uses
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
    format_type,
    kept_metadata,
    loose,
    physical,
    shape,
)
from backfill_core.log_shipping.type_changes import STEPS, TypeChanges, type_changes

NEW_TARGET = "Undo it, or start a new job on a new target."
WIDENING_HINT = (
    "Run ALTER TABLE … SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true') on the target, then start the job again."
)
COMPUTED = "\0"
"""Prefix of the origin of a computed output column; no physical name starts with it."""

OF_EVERY_TABLE = frozenset({
    "binary", "boolean", "byte", "date", "double", "float", "integer", "long", "short", "string", "timestamp",
})  # fmt: skip
FEATURES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
"""Table features that a type needs."""


class NotFollowedError(Exception):
    """A change that a target cannot follow; the caller adds its version."""

    def __init__(self, what: str, hint: str = NEW_TARGET) -> None:
        """Name the column in `what`; `hint` has the next step for the user."""
        super().__init__(what)
        self.what, self.hint = what, hint


@dataclass(frozen=True, slots=True)
class View:
    """Output columns of a transform for the columns of one version."""

    source: Columns
    outputs: tuple[Field, ...]
    """Output columns with the names and types of the target."""

    taken: Mapping[str, str | None]
    """Source column by the name of an output; `None` for a computed output."""

    requested: frozenset[str]
    """Source columns that computed columns and the filter use."""

    def origins(self) -> dict[str, Field]:
        """Return the outputs by origin: the physical name of a taken column, or a name with the prefix `COMPUTED`."""
        columns = {field["name"]: field for field in self.source.fields}
        origins: dict[str, Field] = {}
        for output in self.outputs:
            column = self.taken[output["name"]]
            if column is None:
                origins[f"{COMPUTED}{output['name']}"] = output
                continue
            field = columns[column]
            if physical(field) in origins:
                raise NotFollowedError(f"spec.transform.select takes the column {column!r} twice")
            origins[physical(field)] = {**field, "name": output["name"]}
        return origins


@dataclass(frozen=True, slots=True)
class Target:
    """Facts of the target."""

    columns: Columns
    last_id: int = 0
    """The largest column id that the target ever assigned; 0 without column mapping."""

    features: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Followed:
    """Effect of a schema change on the job and the target."""

    reopens: bool
    """True if columns that the job reads changed or are gone: later versions are then read with the new columns."""

    fields: tuple[Field, ...] | None
    """New columns of the target; `None` if they stay unchanged."""

    last_id: int = 0
    """The largest column id afterwards."""


def follow(before: View, after: View, target: Target) -> Followed:
    """Return the effect of the columns of a later version on a target that has those of an earlier one.

    Raises:
        NotFollowedError: The target cannot follow; the message names the column.
    """
    _check_requested(before, after)
    old, new = before.origins(), after.origins()
    made = _Fields(target, mapped=before.source.mapped and after.source.mapped)
    fields = made.fields(old, new, target.columns.fields, "")
    same = list(old) == list(new) and _shapes(old.values()) == _shapes(new.values())
    last_id = max([target.last_id, *_ids(fields)])
    return Followed(not _still_there(before, after) or not same, None if same else tuple(fields), last_id)


def _check_requested(before: View, after: View) -> None:
    """Refuse to compute or filter with other columns than before: existing rows were made with those."""
    different = sorted(before.requested ^ after.requested)
    if different:
        raise NotFollowedError(f"spec.transform started or stopped computing with the column {different[0]!r}")
    old, new = ({field["name"]: field for field in view.source.fields} for view in (before, after))
    for name in sorted(before.requested):
        if _shapes([old[name]]) != _shapes([new[name]]):
            raise NotFollowedError(
                f"column {name!r}, with which spec.transform computes or filters, became another one"
            )


def _still_there(before: View, after: View) -> bool:
    """Return true if all earlier columns still exist unchanged."""
    new = {field["name"]: field for field in after.source.fields}
    return all(
        field["name"] in new and _shapes([field]) == _shapes([new[field["name"]]]) for field in before.source.fields
    )


@dataclass(frozen=True, slots=True)
class _Fields:
    """Derives the target's fields from the source's fields."""

    target: Target
    mapped: bool
    """True if the source uses column mapping both before and after the change."""

    def fields(
        self, old: Mapping[str, Field], new: Mapping[str, Field], targets: Sequence[Field], inside: str
    ) -> list[Field]:
        """Return the target's fields of one struct; `old` and `new` are the source's fields by origin, in order."""
        by_name = {target["name"]: target for target in targets}
        fields: list[Field] = []
        for origin, field in new.items():
            name, was = f"{inside}{field['name']}", old.get(origin)
            if was is None:
                fields.append(self._added(field, name))
                continue
            target = by_name.get(was["name"])
            if target is None:
                raise NotFollowedError(f"the target has no column {inside}{was['name']!r}")
            if was["name"] != field["name"]:
                self._check_mapped(f"column {inside + was['name']!r} was renamed to {field['name']!r}")
            changes = TypeChanges.between(was, field)
            kind = self._type(was["type"], field["type"], target["type"], name, changes)
            fields.append(self._widened(was, {**target, "name": field["name"], "type": kind}, name, changes))
        for origin, field in old.items():
            if origin not in new:
                self._check_mapped(f"column {inside + field['name']!r} was dropped")
        before = {field["name"] for field in old.values()}
        fields += [target for target in targets if target["name"] not in before]
        _check_once(fields, inside)
        return fields

    def _check_mapped(self, what: str) -> None:
        if not self.mapped:
            raise NotFollowedError(f"{what}, and the source does not use column mapping")
        if not self.target.columns.mapped:
            raise NotFollowedError(
                f"{what}, and the target does not use column mapping", "Start a new job on a new target."
            )

    def _type(self, was: Any, now: Any, target: Any, name: str, changes: TypeChanges, path: str = "") -> Any:
        """Return the target's type of a field that stays, or of its inner type at a path."""
        if isinstance(was, str) or isinstance(now, str) or was["type"] != now["type"]:
            if was == now:
                return target
            what = f"column {name!r} changed its type: {format_type(was)} became {format_type(now)}"
            if not changes.tell(path, was, now):
                raise NotFollowedError(what)
            lacking = _lacking({WIDENING, FEATURES.get(format_type(now))} - {None} - self.target.features)
            if lacking:
                hint = WIDENING_HINT if lacking == WIDENING else NEW_TARGET
                raise NotFollowedError(f"{what}, and the target does not have the table feature {lacking}", hint)
            return now
        if was["type"] == "struct":
            old, new = ({physical(field): field for field in kind["fields"]} for kind in (was, now))
            return {
                **target,
                "fields": self.fields(old, new, target["fields"], f"{name}."),
            }  # each field records its own changes
        parts = {
            part: self._type(was[part], now[part], target[part], name, changes, f"{path}.{step}".strip("."))
            for part, step in STEPS[was["type"]].items()
        }
        return {**target, **parts}

    def _widened(self, was: Field, target: Field, name: str, changes: TypeChanges) -> Field:
        """Return a field that records its type changes, if it has any."""
        if not changes.new:
            return target
        metadata = target.get("metadata") or {}
        if type_changes(target) != type_changes(was):
            raise NotFollowedError(f"column {name!r} changed its type, and the target's column has other type changes")
        return {**target, "metadata": {**metadata, TYPE_CHANGES: [*changes.old, *changes.new]}}

    def _added(self, field: Field, name: str) -> Field:
        """Return a new field of the target; it is nullable, like all columns of the target."""
        for part in fields_of({"type": "struct", "fields": [field]}):
            self._check_type(part["type"], name)
        mapped = self.target.columns.mapped
        made = loose(field, mapped=mapped, kept=kept_metadata(self.target.features))
        if not mapped:
            return made
        inside = list(fields_of({"type": "struct", "fields": [made]}))
        if any(not {COLUMN_ID, PHYSICAL_NAME} <= part["metadata"].keys() for part in inside):
            raise NotFollowedError(
                f"column {name!r} was added, and the target uses column mapping, but the source does not"
            )
        if min(part["metadata"][COLUMN_ID] for part in inside) <= self.target.last_id:
            # The target's history differs from the source's: a table assigns each id once.
            raise NotFollowedError(f"column {name!r} was added, and the target gave its id to another column")
        return made

    def _check_type(self, kind: Any, name: str) -> None:
        match kind:
            case {"type": "array" | "map" as outer}:
                for part in INSIDE[outer]:
                    self._check_type(kind[part], name)
            case {"type": "struct"}:
                pass  # its fields are checked separately
            case str() if kind in OF_EVERY_TABLE or kind.startswith("decimal"):
                pass
            case _:
                feature = FEATURES.get(format_type(kind))
                if feature is None or feature not in self.target.features:
                    lacks = "" if feature is None else f" ({feature})"
                    raise NotFollowedError(
                        f"column {name!r} was added, and the target does not have the table feature for {format_type(kind)}{lacks}"
                    )


def _lacking(features: Iterable[str | None]) -> str:
    return min((feature for feature in features if feature is not None), default="")


def _check_once(fields: Iterable[Field], inside: str) -> None:
    seen: set[str] = set()
    for field in fields:
        name = field["name"].lower()
        if name in seen:
            raise NotFollowedError(f"the target would have the column {inside + field['name']!r} twice")
        seen.add(name)


def _shapes(fields: Iterable[Field]) -> Any:
    return shape({"type": "struct", "fields": list(fields)})


def _ids(fields: Iterable[Field]) -> list[int]:
    every = fields_of({"type": "struct", "fields": list(fields)})
    return [int(field["metadata"][COLUMN_ID]) for field in every if COLUMN_ID in (field.get("metadata") or {})]
