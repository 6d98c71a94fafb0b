"""Type widenings of a column in its table's log. Older files keep the old type, and readers convert the values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from backfill_core.log_shipping.columns import TYPE_CHANGES, Field

Change = Mapping[str, Any]
"""`fromType`, `toType`, and `fieldPath` of a type inside arrays and maps."""

STEPS = {"array": {"elementType": "element"}, "map": {"keyType": "key", "valueType": "value"}}
"""Path segments of the inner types of an array or a map."""


def type_changes(field: Field) -> tuple[Change, ...]:
    """Return the recorded type changes of a field, oldest first."""
    return tuple((field.get("metadata") or {}).get(TYPE_CHANGES) or ())


@dataclass(frozen=True, slots=True)
class TypeChanges:
    """Type changes of one field between two versions."""

    old: tuple[Change, ...]
    new: tuple[Change, ...]
    """Changes since the old version; also empty if the later history does not start with the earlier one."""

    @classmethod
    def between(cls, was: Field, now: Field) -> Self:
        """Return the changes that `now` records in addition to `was`."""
        old, new = type_changes(was), type_changes(now)
        return cls(old, new[len(old) :] if new[: len(old)] == old else ())

    def tell(self, path: str, was: Any, now: Any) -> bool:
        """Return true if the new changes lead from the type `was` to the type `now`, at a path in the field."""
        for change in self.new:
            if change.get("fieldPath", "") == path:
                if change["fromType"] != was:
                    return False
                was = change["toType"]
        return bool(was == now)
