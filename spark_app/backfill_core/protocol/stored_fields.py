"""Reader of the fields of a stored state; an invalid field is named in the error."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from backfill_core.errors import StateMismatchError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredFields:
    """JSON value of a strategy's state, or a part of it.

    Each method raises StateMismatchError, which names the first field that does not fit.
    """

    where: str
    """Name of the state in messages."""

    value: Mapping[str, Any]

    def typed(self, name: str, kind: type[T]) -> T:
        """Return a field of exactly this type; a boolean is not a number."""
        found = self.value.get(name)
        if type(found) is not kind:
            raise self.unfit(name)
        return found

    def one_of(self, name: str, words: Collection[str]) -> str:
        """Return a string that must be one of `words`."""
        found = self.typed(name, str)
        if found not in words:
            raise self.unfit(name)
        return found

    def parsed(self, name: str, parse: Callable[[Any], T]) -> T:
        """Return the parsed field; a ValueError of the parser means that the field does not fit."""
        try:
            return parse(self.value.get(name))
        except ValueError:
            raise self.unfit(name) from None

    def part(self, name: str) -> StoredFields | None:
        """Return a nested object; `None` if it is null or missing."""
        found = self.value.get(name)
        if found is None:
            return None
        if not isinstance(found, dict):
            raise self.unfit(name)
        return StoredFields(f"{self.where}.{name}", found)

    def unfit(self, name: str) -> StateMismatchError:
        """Return the error of a field."""
        return StateMismatchError(
            f"the target's state does not fit this release: {self.where}.{name} is {str(self.value.get(name))[:80]!r}.",
            hint="Use the release that wrote it, or another target.",
        )
