"""How the type of a column became wider, as its table's log tells: files of before keep the old type, and readers convert."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from backfill_core.log_shipping.columns import TYPE_CHANGES, Field

Change = Mapping[str, Any]
"""`fromType`, `toType`, and `fieldPath` of a type inside arrays and maps."""

STEPS = {"array": {"elementType": "element"}, "map": {"keyType": "key", "valueType": "value"}}
"""How a path names what is in an array or a map."""


def type_changes(field: Field) -> tuple[Change, ...]:
    """Return the changes that a field has told of, oldest first."""
    return tuple((field.get("metadata") or {}).get(TYPE_CHANGES) or ())


@dataclass(frozen=True, slots=True)
class TypeChanges:
    """Of one field, between two versions."""

    old: tuple[Change, ...]
    new: tuple[Change, ...]
    """Those that came; empty, also where the log tells another story of before than it did."""

    @classmethod
    def between(cls, was: Field, now: Field) -> Self:
        """Return what a field tells more than before."""
        old, new = type_changes(was), type_changes(now)
        return cls(old, new[len(old) :] if new[: len(old)] == old else ())

    def tell(self, path: str, was: Any, now: Any) -> bool:
        """Do they lead from one type to another one, at a path in the field?"""
        for one in self.new:
            if one.get("fieldPath", "") == path:
                if one["fromType"] != was:
                    return False
                was = one["toType"]
        return bool(was == now)
